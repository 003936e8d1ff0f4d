"""A failed attempt keeps where it failed: frames of the user's code, causes and groups."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import minuet
from minuet.app.results import raise_unless_completed
from minuet.errors import trace_lines
from minuet.events import decode_event
from minuet.worker.failure import failure_of
from minuet.worker.raised import Raised
from minuet.worker.trace import MESSAGE_LENGTH_MAX, TRACE_BYTES_MAX

from ..scenario.harness import QUICK_RETRY, node, open_scene, task, workflow

HERE = os.path.relpath(__file__)


def charge(amount: int) -> None:
    parse("{")


def parse(text: str) -> Any:
    return json.loads(text)


def functions(error: Any) -> list[str]:
    return [frame["function"] for frame in error["traceback"]]


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_error_says_where_in_the_users_code_it_was_raised(scene: Any, kind: str) -> None:
    async def work() -> None:
        charge(1)

    handler = work if kind == "async" else lambda: charge(1)
    async with scene({"work": handler}) as s:
        result = await s.run(workflow(task("work")))

        frames = result.error["traceback"]
        # No frame of Minuet stands before the handler, nor does any between.
        assert functions(result.error)[1:3] == ["charge", "parse"]
        assert [frame["file"] for frame in frames[:3]] == [HERE] * 3
        assert frames[2]["code"] == "return json.loads(text)"
        assert frames[2]["line"] == parse.__code__.co_firstlineno + 1
        assert frames[-1]["file"] == "json/decoder.py"
        # It is the same wherever the error is kept.
        (failed,) = await s.events(result.run_id, "node.failed")
        (letter,) = await s.store.list_dead_letters("default", run=result.run_id)
        assert failed["error"]["traceback"] == letter.error["traceback"] == frames
        assert result.nodes["work"].error["traceback"] == frames


async def test_every_attempt_keeps_its_own_traceback(scene: Any) -> None:
    async def work(ctx: minuet.Context) -> None:
        if ctx.attempt == 1:
            first()
        second()

    def first() -> None:
        raise ConnectionError("first")

    def second() -> None:
        raise ConnectionError("second")

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", retry={**QUICK_RETRY, "max_attempts": 2})))
        (retried,) = await s.events(result.run_id, "node.retried")

        assert functions(retried["error"]) == ["work", "first"]
        assert functions(result.error) == ["work", "second"]


async def test_causes_contexts_and_groups_are_kept() -> None:
    def work() -> None:
        try:
            try:
                charge(1)
            except ValueError as error:
                raise KeyError("no card") from error
        except KeyError:
            raise ExceptionGroup("two", [OSError("one"), ValueError("other")])  # noqa: B904

    async with open_scene("memory://", {"work": work}) as s:
        error = (await s.run(workflow(task("work", retry=1)))).error
        assert error is not None

        assert error["type"] == "ExceptionGroup"
        assert [(e["type"], e["message"]) for e in error["errors"]] == [
            *(("OSError", "one"), ("ValueError", "other")),
        ]
        assert error["cause"]["type"] == "KeyError"
        assert error["cause"]["cause"]["type"] == "JSONDecodeError"
        assert functions(error["cause"]["cause"])[:3] == ["work", "charge", "parse"]


async def test_a_cause_that_was_hidden_is_not_kept() -> None:
    def work() -> None:
        try:
            charge(1)
        except ValueError:
            raise KeyError("no card") from None

    async with open_scene("memory://", {"work": work}) as s:
        error = (await s.run(workflow(task("work", retry=1)))).error
        assert error is not None

        assert "cause" not in error


async def test_frames_of_minuet_are_left_out_of_the_middle_too() -> None:
    def fail() -> None:
        raise ValueError("inside a step")

    def work(ctx: minuet.Context) -> None:
        ctx.step("one", fail)

    async with open_scene("memory://", {"work": work}) as s:
        error = (await s.run(workflow(task("work", retry=1)))).error
        assert error is not None

        assert functions(error) == ["work", "fail"]


@pytest.mark.shows("U-17")
async def test_secrets_that_the_node_may_read_are_masked_everywhere(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "s3cr3t 'value'\n&more"
    monkeypatch.setenv("API_KEY", secret)

    def work(ctx: minuet.Context) -> None:
        value = ctx.secret("API_KEY")
        try:
            raise ValueError(f"{value!r}", value, {"key": value})
        except ValueError:
            raise KeyError(value)  # noqa: B904

    async with scene({"work": work}) as s:
        result = await s.run(workflow(task("work", secrets=["API_KEY"], retry=1)))
        kept = msgspec.json.encode(await s.events(result.run_id)).decode()

        assert "s3cr3t" not in kept
        assert "***" in result.error["message"]
        assert "***" in result.error["cause"]["message"]


async def test_a_secret_that_the_message_would_cut_in_two_is_masked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_KEY", "0123456789")

    def work() -> None:
        raise ValueError("x" * (MESSAGE_LENGTH_MAX - 5) + "0123456789")

    async with open_scene("memory://", {"work": work}) as s:
        result = await s.run(workflow(task("work", secrets=["API_KEY"], retry=1)))

        assert result.error is not None
        assert "01234" not in result.error["message"]


def deep(depth: int) -> None:
    if depth:
        deep(depth - 1)
    raise ValueError("é" * 10_000)


def chained(length: int) -> None:
    try:
        if length:
            chained(length - 1)
        deep(30)
    except ValueError as error:
        raise RuntimeError("\0" * 10_000) from error


def grouped() -> None:
    raise ExceptionGroup("many", [ValueError("🎼" * 10_000) for _ in range(100)])


@pytest.mark.parametrize("make", [lambda: deep(500), lambda: chained(20), grouped])
def test_what_is_kept_of_an_error_is_bounded(make: Any) -> None:
    with pytest.raises((Exception, ExceptionGroup)) as raised:
        make()

    record = failure_of(raised.value).error
    rest = {key: value for key, value in record.items() if key not in ("code", "type", "message")}
    assert rest["traceback"]
    assert len(msgspec.json.encode(rest)) <= TRACE_BYTES_MAX
    assert len(record["message"]) <= MESSAGE_LENGTH_MAX


def test_of_a_long_traceback_both_ends_are_kept() -> None:
    with pytest.raises(ValueError, match="é") as raised:
        deep(100)

    frames = failure_of(raised.value).error["traceback"]
    assert frames[0]["function"].startswith("test_of_a_long_traceback")
    assert {"omitted": 102 - 16} in frames
    assert frames[-1]["code"] == 'raise ValueError("é" * 10_000)'


async def test_what_goes_on_as_data_has_no_traceback(scene: Any) -> None:
    async def work() -> None:
        raise ValueError("bad")

    document = workflow(task("work", on_error="continue", retry=1), node("below", "work"))
    async with scene({"work": work}) as s:
        result = await s.run(document)

        assert result.nodes["work"].output == {
            "error": {"code": "handler_raised", "type": "ValueError", "message": "bad"}
        }
        assert functions(result.nodes["work"].error) == ["work"]


async def test_run_failed_shows_where_the_handler_failed() -> None:
    async def work() -> None:
        charge(1)

    async with open_scene("memory://", {"work": work}) as s:
        result = await s.run(workflow(task("work", retry=1)))
        with pytest.raises(minuet.RunFailed) as raised:
            raise_unless_completed(result, Raised())

        notes = "\n".join(raised.value.__notes__)
        assert f"{HERE}:{parse.__code__.co_firstlineno + 1}, in parse" in notes
        assert raised.value.error == result.error


def test_an_event_without_a_traceback_can_be_read_and_shown() -> None:
    old = decode_event(
        b'{"type":"node.failed","node":"a","scope":"","attempt":1,'
        b'"error":{"code":"handler_raised","type":"ValueError","message":"bad"}}'
    )

    assert trace_lines(old.error) == []  # type: ignore[union-attr]


def test_a_path_is_shown_from_where_its_module_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minuet.worker.trace import shown_path

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/elsewhere/lib")
    monkeypatch.syspath_prepend(f"{tmp_path}/.venv/site-packages")

    assert shown_path(f"{tmp_path}/orders/pay.py") == "orders/pay.py"
    assert shown_path("/elsewhere/lib/pay/card.py") == "pay/card.py"
    assert shown_path(f"{tmp_path}/.venv/site-packages/pay/card.py") == "pay/card.py"
    assert shown_path("/nowhere/pay.py") == "/nowhere/pay.py"
    assert shown_path("<string>") == "<string>"
