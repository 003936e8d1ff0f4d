"""Whatever is passed to the facade, it answers or says what is wrong; the store stays readable."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from minuet.app import logs
from minuet.app.app import App
from minuet.app.argument_rules import (
    NAME_LENGTH_MAX,
    REASON_LENGTH_MAX,
    TAG_BYTES_MAX,
    TAG_LENGTH_MAX,
    TAGS_MAX,
)
from minuet.app.doctor import Doctor
from minuet.app.options import Options
from minuet.app.runs import Runs
from minuet.app.workers import Workers
from minuet.app.workflows import Workflows
from minuet.errors import ConfigError, InputError, MinuetError, RunNotFoundError

DOCUMENT = {"name": "plain", "nodes": [{"id": "only", "type": "noop"}]}


class Unshowable:
    """An object whose own text fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Text(str):
    """A text that is not quite one."""

    __slots__ = ()

    def __str__(self) -> str:
        return "another"


def contains_itself() -> dict[str, Any]:
    knot: dict[str, Any] = {}
    knot["again"] = knot
    return knot


async def never() -> AsyncIterator[int]:
    yield 1


def endless() -> Iterator[str]:
    while True:
        yield "x"


#: Values that some argument, somewhere, should not be.
HOSTILE: dict[str, Any] = {
    "none": None,
    "true": True,
    "number": 7,
    "negative": -1,
    "zero": 0,
    "huge": 2**63,
    "astronomic": 10**400,
    "fraction": 1.5,
    "nan": float("nan"),
    "infinite": float("inf"),
    "bytes": b"bytes",
    "empty": "",
    "text": "text",
    "null character": "a\0b",
    "surrogate": "a\ud800",
    "long": "x" * 100_000,
    "own text": Text("text"),
    "list": ["a"],
    "tuple": (1, "a"),
    "set": {1},
    "list of numbers": [1, 2],
    "list of surrogates": ["\udfff"],
    "object": object(),
    "unshowable": Unshowable(),
    "class": dict,
    "function": len,
    "mapping": {"a": 1},
    "numbered mapping": {1: "a"},
    "nan inside": {"a": float("nan")},
    "bytes inside": {"a": b"x"},
    "surrogate inside": {"a\ud800": "\udfff"},
    "null character inside": {"a": "b\0"},
    "knot": contains_itself(),
    "wide": {str(number): number for number in range(1000)},
    "exception": ValueError("x"),
}


def public_methods(kind: type[Any]) -> dict[str, Any]:
    """The methods that take arguments."""
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and len(inspect.signature(method).parameters) > 1
    }


METHODS = {
    (kind, name): method
    for kind in (App, Runs, Workflows, Workers, Doctor)
    for name, method in public_methods(kind).items()
}


#: The short forms of an App: what they pass on is checked there.
SHORT = ("start", "start_many", "wait", "follow", "events", "cancel", "signal")

#: Each call of these is about a run of its own.
CHANGES = ("cancel", "pause", "resume", "retry", "trigger")


@pytest.fixture(autouse=True)
def no_late_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Following the log of a run that is over waits for the last lines; here nothing is logged."""
    monkeypatch.setattr(logs, "LATE_S", 0)


async def usual(app: App, kind: type[Any], name: str) -> dict[str, Any]:
    """Arguments of a method that are right, those with a default left out."""
    run_id = await app.runs.create(DOCUMENT)
    ended = ("follow", "follow_logs", "show_ended", "show_started", "wait", "wait_ended", "result")
    if name in ended:
        await app.cancel(run_id)
    run = await app.runs.get(run_id)
    compiled = app.workflows.compile(DOCUMENT)
    values: dict[str, Any] = {
        "workflow": DOCUMENT,
        "source": DOCUMENT,
        "plan": compiled.plan,
        "digest": compiled.digest,
        "input": 1,
        "inputs": [1, 2],
        "tenant": "other",
        "run_ids": [run_id],
        "run_id": run_id,
        "run": run,
        "runs": [run],
        "node": "only",
        "data": {"by": "hand"},
        "worker": "nobody",
        "text": "nobody",
        "name": "nobody",
        "tag": "canary",
        "action": "pause",
    }
    if (kind, name) == (Workflows, "tag"):
        values["name"] = (await app.workflows.deploy(DOCUMENT)).name
    wanted = inspect.signature(METHODS[kind, name]).parameters.values()
    return {p.name: values[p.name] for p in wanted if p.default is p.empty and p.name != "self"}


async def call(target: Any, name: str, arguments: dict[str, Any]) -> None:
    answer = getattr(target, name)(**arguments)
    if inspect.isasyncgen(answer):
        async for _ in answer:
            pass
    elif inspect.isawaitable(answer):
        await answer


def test_every_public_method_checks_its_arguments() -> None:
    unchecked = [
        f"{kind.__name__}.{name}"
        for (kind, name), method in METHODS.items()
        if not hasattr(method, "__wrapped__") and not (kind is App and name in (*SHORT, "run"))
    ]

    assert len(METHODS) > 25
    assert unchecked == []


@pytest.mark.parametrize("name", SHORT)
def test_a_short_form_takes_what_the_long_form_takes(name: str) -> None:
    short, long = getattr(App, name), getattr(Runs, name)

    assert inspect.signature(short) == inspect.signature(long)
    assert short.__doc__ == f"Short for `app.runs.{name}`."


async def test_no_argument_leaves_a_store_that_cannot_be_read(store_url: str) -> None:
    refused = 0
    async with App(store_url) as app:
        targets: dict[type[Any], Any] = {
            App: app,
            Runs: app.runs,
            Workflows: app.workflows,
            Workers: app.workers,
        }
        for kind, name in METHODS:
            usually = await usual(app, kind, name)
            for parameter in list(inspect.signature(METHODS[kind, name]).parameters)[1:]:
                for value in HOSTILE.values():
                    if name in CHANGES:
                        usually = await usual(app, kind, name)
                    target = targets.get(kind) or app.doctor
                    try:
                        await call(target, name, {**usually, parameter: value})
                    except MinuetError:
                        refused += 1

        for run in await app.runs.list(limit=10_000):
            assert (await app.runs.show(run.run)).run_id == run.run
            assert await app.runs.events(run.run)
        assert [finding async for _, found in app.doctor.examine() for finding in found] == []
        assert [finding async for finding in app.doctor.examine_workflows()] == []
        assert all(view.document is not None for view in await app.workflows.list())
        assert (await app.run(DOCUMENT, timeout=60)).status == "COMPLETED"
    assert refused > 500


async def test_no_option_leaves_a_worker_that_cannot_be_listed(store_url: str) -> None:
    refused = 0
    for option in Options.__struct_fields__:
        for value in HOSTILE.values():
            try:
                App(store_url, **{option: value})
            except MinuetError:
                refused += 1
    assert refused > 300
    async with App(store_url, name="n" * NAME_LENGTH_MAX, capabilities={"é": [1, "\0"]}) as app:
        workers = await app.workers.list()
        while not workers:
            await app.run(DOCUMENT, timeout=60)
            workers = await app.workers.list()
        (worker,) = workers
        assert (worker.name, worker.capabilities["é"]) == ("n" * NAME_LENGTH_MAX, [1, "\0"])


#: What was accepted before, and the words that it is refused with.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a key that is a number": (
        {"idempotency_key": 7},
        "idempotency_key: expected text of 1 to 255 characters, got 7 (int)",
    ),
    "a key with half a pair": (
        {"idempotency_key": "a\ud800"},
        "idempotency_key: expected text without U+0000 and without halves of surrogate pairs, "
        r"got 'a\ud800' (str)",
    ),
    "a long key": (
        {"idempotency_key": "k" * 256},
        f"idempotency_key: expected text of 1 to 255 characters, got '{'k' * 78}… (256 long) (str)",
    ),
    "tags in a list": (
        {"tags": ["a"]},
        "tags: expected a mapping of names to JSON values, got ['a'] (list)",
    ),
    "a tag that is no number": (
        {"tags": {"a": float("nan")}},
        "tags: expected JSON: the value at a is nan, which JSON does not have: use None or text, "
        "got {'a': nan} (dict)",
    ),
    "too many tags": (
        {"tags": {str(n): n for n in range(TAGS_MAX + 1)}},
        "tags: expected at most 50 tags, got",
    ),
    "a long name of a tag": (
        {"tags": {"t" * (TAG_LENGTH_MAX + 1): 1}},
        "tags: expected text of 1 to 100 characters as the name of a tag, got",
    ),
    "a long tag": (
        {"tags": {"t": "v" * TAG_BYTES_MAX}},
        "tags: expected values of at most 1,000 bytes of JSON ('t'), got",
    ),
    "a descriptor as a workflow": (
        {"workflow": 0},
        "workflow: expected a file's path, a document as text or as a mapping, a Workflow, the "
        "name of a deployed workflow, or a compiled workflow, got 0 (int)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_refusal_says_what_it_was_and_what_is_expected(case: str) -> None:
    arguments, message = REFUSED[case]
    (name,) = arguments
    async with App("memory://") as app:
        with pytest.raises(InputError) as refused:
            await app.start(**{"workflow": DOCUMENT, **arguments})

        assert str(refused.value).startswith(message)
        assert refused.value.argument == name
        assert await app.runs.list() == []


async def test_what_is_just_small_enough_is_kept_as_it_is(store_url: str) -> None:
    tags = {"t" * TAG_LENGTH_MAX: "v" * (TAG_BYTES_MAX - 2), "nested": {"é": [1, None, 1.5]}}
    async with App(store_url, worker=False) as app:
        run_id = await app.start(DOCUMENT, idempotency_key="é" * NAME_LENGTH_MAX, tags=tags)
        await app.cancel(run_id, reason="r" * REASON_LENGTH_MAX)

        shown = await app.runs.show(run_id)
        assert shown.tags == tags
        assert shown.error == {"code": "r" * REASON_LENGTH_MAX, "message": "r" * REASON_LENGTH_MAX}
        assert (await app.runs.get(run_id)).idempotency_key == "é" * NAME_LENGTH_MAX


async def test_tags_do_not_change_with_the_callers_mapping() -> None:
    tags = {"a": [1]}
    async with App("memory://", worker=False) as app:
        run_id = await app.start(DOCUMENT, tags=tags)
        tags["a"].append(2)

        assert (await app.runs.get(run_id)).tags == {"a": [1]}


async def test_inputs_may_come_from_a_generator() -> None:
    async with App("memory://", worker=False) as app:
        started = await app.start_many(DOCUMENT, (number for number in range(3)))

        assert len(started) == 3
        assert [(await app.runs.get(run_id)).input for run_id in started] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "inputs", ["text", {"a": 1}, 7, never()], ids=["text", "map", "7", "async"]
)
async def test_inputs_that_are_not_a_list_are_refused(inputs: Any) -> None:
    async with App("memory://", worker=False) as app:
        with pytest.raises(InputError, match=r"inputs: expected a list, got"):
            await app.start_many(DOCUMENT, inputs)


async def test_one_text_is_not_a_list_of_names() -> None:
    with pytest.raises(ConfigError, match=r"queues: expected a list, got 'orders' \(str\)"):
        App("memory://", queues="orders")
    with pytest.raises(ConfigError, match=r"queues: expected a list of at most 10,000"):
        App("memory://", queues=endless())


async def test_a_text_that_no_store_can_hold_names_no_run_and_no_worker(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        for name in ("a\0b", "a\ud800"):
            with pytest.raises(RunNotFoundError):
                await app.runs.get(name)
            assert await app.doctor.examine_run(name) == []
            assert not await app.workers.drain(name)
            assert not await app.workers.remove(name)
