"""Area P: what is left after a crash, and how others go on with it."""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import minuet as package
from minuet.app.app import App
from minuet.clock import ManualClock, SystemClock
from minuet.kernel.scope import encode
from minuet.store.exchange import Take
from minuet.worker.worker import Worker

from ..scenario.harness import PATIENCE, module_of, node, task, workflow
from .hand import LEASE_MS, Hand

#: Sizes of SQLite's log: its header, and the header of each page in it.
LOG_HEADER, FRAME_HEADER = 32, 24

PARENTS = ["p0", "p1", "p2"]
JOINED = workflow(
    task("first", handler="work"),
    *(task(name, "first", handler="work") for name in PARENTS),
    task("join", *PARENTS, handler="work"),
    node("choose", "join", branch={"rules": [{"when": "true", "next_nodes": ["x"]}]}),
    task("x", handler="work", loop={"while": "iteration < 1", "max_iterations": 3}),
)


def commits(log: bytes) -> Iterator[int]:
    """Where each transaction ends: a process that dies leaves the log up to one of these."""
    (page_bytes,) = struct.unpack(">I", log[8:12])
    salt, at = log[16:24], LOG_HEADER
    while at < len(log) and log[at + 8 : at + 16] == salt:
        (pages_after_commit,) = struct.unpack(">I", log[at + 4 : at + 8])
        at += FRAME_HEADER + page_bytes
        if pages_after_commit:
            yield at


@pytest.mark.shows("I-36", "P-05", "P-08", "P-09", "P-10", "P-12", "P-22", "P-38")
async def test_a_run_ends_the_same_from_every_state_that_a_crash_can_leave(tmp_path: Path) -> None:
    ran: list[tuple[str, tuple[int, ...]]] = []

    async def work(ctx: package.Context) -> list[str]:
        ran.append((ctx.node_id, ctx.scope))
        return sorted(ctx.inputs)

    handlers = [module_of({"work": work})]
    db, log = tmp_path / "runs.db", tmp_path / "runs.db-wal"
    # An hour ago: by the time that somebody looks, all leases of the dead process have run out.
    past = ManualClock(SystemClock().now_ms() - 3_600_000)
    async with App(f"sqlite:///{db}", handlers=handlers, clock=past, concurrency=1) as app:
        run_id = await app.start(JOINED)
        acknowledged = log.read_bytes()
        expected = await app.wait(run_id, timeout=PATIENCE)
        left = log.read_bytes()
        shutil.copy(db, tmp_path / "base.db")
    ends = [end for end in commits(left) if end >= max(commits(acknowledged))]
    assert left.startswith(acknowledged[: ends[0]])
    assert len(ends) > 8

    joined = Counter[int]()
    for number, end in enumerate(ends):
        image, image_log = tmp_path / f"{number}.db", tmp_path / f"{number}.db-wal"
        shutil.copy(tmp_path / "base.db", image)
        image_log.write_bytes(left[:end])
        async with App(f"sqlite:///{image}", worker=False) as app:
            # Nothing that was acknowledged is lost, and nothing is half done.
            assert await app.doctor.examine_run(run_id) == []
            snapshot = await app.store.read_snapshot("default", run_id)
        assert snapshot is not None
        done = {t.node for t in snapshot.tokens if t.outcome == "completed"}
        arrived = len(done & set(PARENTS))
        joined[arrived] += 1
        # The join lacks exactly those that have not been completed, and is ready without any.
        assert sum(join.live for join in snapshot.joins if join.node == "join") == arrived
        assert ("join" in {token.node for token in snapshot.tokens}) == (arrived == len(PARENTS))

        ran.clear()
        async with App(f"sqlite:///{image}", handlers=handlers) as app:
            await app.runs.prepare(await app.runs.list_open())
            result = await app.wait(run_id, timeout=PATIENCE)
            assert await app.doctor.examine_run(run_id) == []
        assert (result.status, result.output) == (expected.status, expected.output)
        assert {n: s.instances for n, s in result.nodes.items()} == {
            name: state.instances for name, state in expected.nodes.items()
        }
        # What was committed before is not run again.
        committed = {(t.node, t.scope) for t in snapshot.tokens if t.outcome == "completed"}
        assert not {(name, encode(scope)) for name, scope in ran} & committed
    # The crash was tried before, between and after the arrivals.
    assert set(joined) == {0, 1, 2, 3}


@pytest.mark.shows("P-13")
async def test_several_that_recover_at_once_do_not_disturb_each_other(
    scene: Any, clock: ManualClock
) -> None:
    ran: Counter[str] = Counter()

    async def work(ctx: package.Context) -> list[str]:
        ran[ctx.idempotency_key] += 1
        return sorted(ctx.inputs)

    async with scene({"work": work}, worker=False, clock=clock) as s:
        run_ids = await s.app.start_many(JOINED, list(range(6)))
        dead = Hand(s, "dead")
        for _ in range(2):  # It finishes some, and dies with what it took next.
            grants = (await dead.exchange(take=(Take(("task:work",), 10),))).granted
            for grant in grants[: 2 * len(grants) // 3]:
                await dead.finish(grant, [])
        assert grants
        clock.advance(LEASE_MS)
        workers = [Worker(s.store, handlers=s.app.handlers, clock=clock) for _ in range(4)]
        working = [asyncio.create_task(worker.run()) for worker in workers]
        swept = await asyncio.gather(*(s.store.sweep() for _ in range(8)))
        results = [await s.end(run_id) for run_id in run_ids]
        for worker in workers:
            worker.stop()
        await asyncio.gather(*working)

        assert [result.status for result in results] == ["COMPLETED"] * 6
        assert set(ran.values()) == {1}
        for run_id in run_ids:
            done = await s.events(run_id, "node.completed")
            instances = Counter((event["node"], event["scope"]) for event in done)
            assert set(instances.values()) == {1}
            lost = await s.events(run_id, "lease.expired")
            assert len({(event["node"], event["expiry"]) for event in lost}) == len(lost)
        assert sum(one.expired for one in swept) <= len(grants)


@pytest.mark.shows("P-34", "S-44")
def test_one_process_keeps_everything_in_a_file_of_its_folder(folder: Any, minuet: Any) -> None:
    folder.write("one.yaml", "name: one\nnodes:\n  - {id: a, type: noop}\n")
    run_id = minuet("run", "one.yaml", "--json").json["run_id"]

    assert folder.store.name == "minuet.db"
    assert folder.store.read_bytes().startswith(b"SQLite format 3")
    # Another command, without being told where, finds it there.
    assert minuet("runs", "show", run_id, "--json").json["status"] == "COMPLETED"
