"""The context for tests of one handler: the real class, with services of its own."""

from __future__ import annotations

import inspect
import logging
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.errors import BlobError, HandlerError, LeaseLost, OutputError, SecretError
from minuet.nodes.context import Context
from minuet.nodes.services import Services
from minuet.testing import FakeContext, context
from minuet.testing.fake_context import FakeServices


@minuet.task
def context_charge(amount: int, ctx: minuet.Context) -> dict[str, Any]:
    ctx.log.info("charging %d", amount)
    ctx.heartbeat()
    token = ctx.step("token", lambda: f"t-{amount}")
    return {"token": token, "key": ctx.secret("API_KEY"), "before": ctx.inputs["price"]}


def test_a_sync_handler_is_called_with_a_context() -> None:
    ctx = context(inputs={"price": 3}, secrets={"API_KEY": "k"})

    assert context_charge(5, ctx) == {"token": "t-5", "key": "k", "before": 3}
    assert ctx.logs == [("INFO", "charging 5")]
    assert ctx.heartbeats == 1
    assert ctx.steps == {"token": "t-5"}


async def test_an_async_handler_awaits_its_steps() -> None:
    async def handler(ctx: minuet.Context) -> Any:
        async def fetch() -> int:
            return 7

        return [await ctx.step("fetch", fetch), await ctx.step("fetch", lambda: 8)]

    ctx = context(is_async=True)

    assert await handler(ctx) == [7, 7]
    assert ctx.steps == {"fetch": 7}


async def test_a_sync_handler_in_an_async_test_says_what_it_is() -> None:
    assert context(is_async=False).step("one", lambda: 1) == 1
    assert await context().step("one", lambda: 1) == 1


def test_a_step_that_was_recorded_is_not_done_again() -> None:
    ctx = context(steps={"charge": "done"}, attempt=2)

    assert ctx.step("charge", lambda: pytest.fail("done again")) == "done"


def test_a_step_whose_result_cannot_be_kept_fails_as_in_a_run() -> None:
    with pytest.raises(OutputError):
        context().step("bad", lambda: object())


def test_a_secret_that_is_not_declared_cannot_be_read() -> None:
    with pytest.raises(SecretError, match="does not declare the secret 'OTHER'"):
        context(secrets={"API_KEY": "k"}).secret("OTHER")


def test_a_secret_is_masked_in_what_is_logged() -> None:
    ctx = context(secrets={"API_KEY": "very-secret-value"})

    ctx.log.warning("using %s", ctx.secret("API_KEY"))

    assert "very-secret-value" not in ctx.logs[0].message


def test_what_is_logged_goes_to_the_log_as_well(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "minuet.handler"):
        context(node_id="charge").log.info("hello")

    assert [record.getMessage() for record in caplog.records] == ["hello"]
    assert caplog.records[0].__dict__["node_id"] == "charge"


def test_a_handler_that_is_cancelled_stops_at_its_next_heartbeat() -> None:
    ctx = context()
    ctx.heartbeat()
    ctx.cancelled = True

    with pytest.raises(LeaseLost):
        ctx.heartbeat()
    assert (ctx.cancelled, ctx.heartbeats) == (True, 2)


def test_blobs_are_kept_and_read_in_a_sync_handler(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"abc" * 1000)
    ctx = context()

    stored = ctx.blob(tmp_path / "large")

    assert stored["bytes"] == 3000
    assert ctx.open(stored).read() == b"abc" * 1000
    assert list(ctx.blobs.values()) == [b"abc" * 1000]


async def test_blobs_are_kept_and_read_in_an_async_handler() -> None:
    ctx = context()

    stored = await ctx.blob(b"content")

    assert await ctx.open(stored).read() == b"content"
    with pytest.raises(BlobError):
        await ctx.open("cas://sha256:" + 64 * "0").read()


def test_what_needs_a_worker_says_what_to_use() -> None:
    with pytest.raises(HandlerError, match=r"minuet\.testing\.play"):
        _ = context().client


def test_an_idempotency_key_is_that_of_the_instance() -> None:
    assert context(attempt=1).idempotency_key == context(attempt=2).idempotency_key
    assert context(scope=(1,)).idempotency_key != context(scope=(2,)).idempotency_key


# ── it cannot drift ─────────────────────────────────────────────────────────────────────


def test_a_handler_is_called_when_its_time_is_nearly_over() -> None:
    late = context(time_left=1.5, out_of_time=True)
    free = context()

    assert (late.time_left, late.out_of_time) == (1.5, True)
    assert (free.time_left, free.out_of_time) == (None, False)


def test_a_fake_context_is_a_context_with_all_that_one_has() -> None:
    ctx = context()

    assert isinstance(ctx, Context)
    # What the real class sets of an attempt is there.
    assert set(Context.__init__.__code__.co_names) - set(dir(ctx)) == set()


def test_it_replaces_only_what_a_test_watches() -> None:
    """All else is the real class's, so a change there is a change here."""
    own = {name for name in vars(FakeContext) if not name.startswith("__")}
    replaced = own & {name for name, _ in inspect.getmembers(Context)}

    assert replaced == {"_wait", "cancelled", "heartbeat", "log"}


def test_it_can_be_made_with_all_that_a_handler_reads() -> None:
    made_by_worker = set(inspect.signature(Context).parameters)
    for_worker = {"services", "token_node", "scope_text", "lease_id", "revealed", "loop"}
    # Of compensators, whose keys differ from those of their nodes.
    for_worker.add("undone_scope")

    given = set(inspect.signature(context).parameters)

    assert given - {"steps", "is_async", "time_left", "out_of_time"} == made_by_worker - for_worker


def test_its_services_are_those_that_a_context_asks_for() -> None:
    wanted = {name for name in vars(Services) if not name.startswith("_")}

    assert wanted <= set(vars(FakeServices))
    for name in wanted:
        real, fake = getattr(Services, name), getattr(FakeServices, name)
        if inspect.isfunction(real):
            assert inspect.signature(real) == inspect.signature(fake), name
