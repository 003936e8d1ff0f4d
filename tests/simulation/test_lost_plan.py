"""A run whose plan was lost with the last things a store had answered.

The plan is written before the run, by a call of its own. A store that is set back between the two
(`lossy`) has then a run without its plan: the simulation meets such runs, and these tests show
on real stores what becomes of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from minuet.app.app import App
from minuet.app.compiling import compile_source
from minuet.app.starting import STORED_MS
from minuet.bridge.translate import Translator
from minuet.clock import ManualClock
from minuet.errors import StoreUnusableError
from minuet.events import decode_event, event_type
from minuet.kernel.program import Program
from minuet.simulation.batch import run_batch
from minuet.simulation.config import Config
from minuet.store.base import Store
from minuet.store.memory import MemoryStore
from minuet.store.records import DEFAULT_TENANT
from minuet.store.sqlite import SqliteStore

WORKFLOW = compile_source(
    {
        "name": "short",
        "nodes": [
            {"id": "a", "type": "transform", "config": {"value": 1}},
            {"id": "b", "type": "noop", "dependencies": ["a"]},
        ],
    }
)

RUN = "00000000-0000-7000-8000-000000000001"

#: Small worlds of several runs, in which one workflow is started more than once.
SEEDS = 60


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def run(store: Store) -> str:
    """A run whose plan is not in the store."""
    program = Program(WORKFLOW.plan, WORKFLOW.digest)
    new = Translator(program).new_run(RUN, tenant=DEFAULT_TENANT, input=b"null")
    await store.create_runs([new])
    return RUN


async def test_a_run_without_its_plan_fails_once_and_says_why(store: Store, run: str) -> None:
    async with App(store) as app:
        row = await app.runs.wait_ended(run, timeout=30)
        findings = await app.doctor.examine_run(run)
        with pytest.raises(StoreUnusableError, match="is missing in the store"):
            await app.runs.show(run)
        (letter,) = await app.dead_letters.list(run_id=run)
        events = await store.read_events(DEFAULT_TENANT, run)

    assert row.status == "FAILED"
    assert row.error is not None
    assert WORKFLOW.digest in row.error["message"]
    assert "is missing in the store" in row.error["message"]
    assert letter.reason == "no_plan"
    assert [event_type(decode_event(record.data)) for record in events] == [
        "run.created",
        "run.started",
        "node.failed",
        "run.failed",
    ]
    assert [finding.id for finding in findings] == ["plan"]


async def test_a_run_goes_on_when_its_plan_is_back_and_somebody_retries_it(
    store: Store, run: str
) -> None:
    async with App(store) as app:
        await app.runs.wait_ended(run, timeout=30)
        await store.put_blob(WORKFLOW.data)
        await app.runs.retry(run)
        result = await app.wait(run, timeout=30)

    assert (result.status, result.output) == ("COMPLETED", {"b": {}})


async def test_a_process_that_starts_runs_notices_that_a_plan_was_lost() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    async with App(store, worker=False, clock=clock) as starter:
        first = await starter.start(WORKFLOW)
        store._blobs.clear()  # As a failover does that loses the last answers.
        clock.advance(STORED_MS)

        second = await starter.start(WORKFLOW)

    async with App(store) as app:
        for run_id in (first, second):
            assert (await app.wait(run_id, timeout=30)).status == "COMPLETED"


@pytest.mark.slow
def test_worlds_that_lose_plans_come_to_their_end() -> None:
    summary = run_batch(
        Config(seed, add=("lossy", "restart"), runs=3, size=3, tenants=1) for seed in range(SEEDS)
    )

    assert not [f"seed {f.config.seed}: {f.broken}" for f in summary.failures]
    assert summary.coverage["plan lost"] > 0
