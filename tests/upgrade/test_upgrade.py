"""A store that an earlier version has made opens, and every run in it goes on."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests import servers
from tests.upgrade.places import DATA, PLACES, Old, old_store
from tests.upgrade.work import (
    BY_NAME,
    CAPABILITIES,
    CASES,
    OTHER_TENANT,
    Case,
    plain_events,
)

from minuet import App
from minuet.store.records import LIVE_STATES, Run

TENANTS = ("default", OTHER_TENANT)

#: Where each kind of store is moved to.
NEXT = {"sqlite": "postgres", "postgres": "redis", "redis": "logged", "logged": "sqlite"}

#: An App for each tenant.
Apps = dict[str, App]


@pytest.fixture(params=sorted(path.name for path in DATA.iterdir()))
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=PLACES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def old(version: str, kind: str, tmp_path: Path) -> AsyncIterator[Old]:
    (tmp_path / "old").mkdir()
    async with old_store(version, kind, tmp_path / "old") as found:
        yield found


@asynccontextmanager
async def apps_on(url: str, *, worker: bool = False) -> AsyncIterator[Apps]:
    async with AsyncExitStack() as stack:
        made = {
            tenant: App(url, worker=worker, tenant=tenant, capabilities=CAPABILITIES)
            for tenant in TENANTS
        }
        yield {tenant: await stack.enter_async_context(app) for tenant, app in made.items()}


# ── what holds of a store ───────────────────────────────────────────────────────────────────


def case_of(run: Run) -> Case:
    return BY_NAME[run.tags["case"]]


def lost(new: Any, old: Any, path: str) -> Iterator[str]:
    """What an earlier version said and this one does not say; this one may say more."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from lost(new.get(name, "nothing"), value, f"{path}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, value in enumerate(old):
            yield from lost(new[at], value, f"{path}[{at}]")
    elif new != old:
        yield f"{path}: {old!r:.200} is now {new!r:.200}"


async def check_facts(apps: Apps, facts: list[dict[str, Any]], *, ended: bool = False) -> None:
    """This version says of the runs (of those that had ended) what the earlier one said."""
    for fact in facts:
        if ended and fact["show"]["duration_ms"] is None:
            continue
        app = apps[BY_NAME[fact["case"]].tenant]
        shown = (await app.runs.show(fact["run_id"])).to_json()
        events = plain_events(await app.runs.history(fact["run_id"]))
        assert list(lost(shown, fact["show"], fact["case"])) == []
        assert list(lost(events, fact["events"], fact["case"])) == []


async def check_sound(apps: Apps) -> None:
    """The doctor finds nothing in any run."""
    for tenant, app in apps.items():
        examined = [one async for one in app.doctor.examine()]

        assert len(examined) == sum(case.tenant == tenant for case in CASES)
        assert [finding for _, findings in examined for finding in findings] == []


async def check_ends(apps: Apps, facts: list[dict[str, Any]]) -> None:
    """Every run has ended as it should, by one result for each node instance, after the history
    that it had."""
    for fact in facts:
        case = BY_NAME[fact["case"]]
        app = apps[case.tenant]
        result = await app.runs.show(fact["run_id"])
        assert (case.name, result.status) == (case.name, case.status)
        if case.status == "COMPLETED":
            assert (case.name, result.output) == (case.name, case.output)
        events = plain_events(await app.runs.history(fact["run_id"]))
        settled = Counter(
            (event["node"], event["scope"])
            for event in events
            if event["type"] in ("node.completed", "node.skipped")
        )
        assert set(settled.values()) <= {1}, case.name
        before = fact["events"]
        assert list(lost(events[: len(before)], before, case.name)) == []
        tokens = await app.store.read_tokens(case.tenant, fact["run_id"])
        assert not [token for token in tokens if token.state in LIVE_STATES], case.name


async def go_on(apps: Apps) -> None:
    """Do what it takes from outside, and let workers end all runs."""
    for tenant, app in apps.items():
        for run in await app.runs.list(statuses=("PENDING",)):
            await app.runs.trigger(run.run, {"n": 3})
        opened = await app.runs.list_open()
        await app.runs.prepare(opened)
        for run in opened:
            if run.status == "PAUSED":
                await app.runs.resume(run.run)
            if case_of(run).name == "distant-timer":
                tokens = await app.store.read_tokens(tenant, run.run)
                (waiting,) = [token for token in tokens if token.state == "waiting"]
                await app.store.resolve(tenant, waiting.key, b'"now"')
        for run in opened:
            await app.runs.wait_ended(run.run, timeout=60)


async def contents(apps: Apps) -> dict[str, Any]:
    """Everything that a store holds, as plain data."""
    store = apps["default"].store
    found: dict[str, Any] = {"queues": await store.list_queues()}
    for tenant in TENANTS:
        for run in await store.list_runs(tenant):
            found[run.run] = await store.read_snapshot(tenant, run.run)
        found[f"workers of {tenant}"] = [
            # All but how long ago that was.
            (entry.record, entry.registered_ms, entry.heartbeat_ms)
            for entry in await store.list_workers(tenant)
        ]
        found[f"blobs of {tenant}"] = await store.list_blobs(tenant, idle_ms=0)
    return dict(msgspec.to_builtins(found))


# ── tests ───────────────────────────────────────────────────────────────────────────────────


async def test_a_store_holds_runs_in_every_state(old: Old) -> None:
    """The data are what `work.py` says: else the other tests would say less than they seem to."""
    assert {fact["case"] for fact in old.facts} == set(BY_NAME)
    async with apps_on(old.url) as apps:
        for fact in old.facts:
            case = BY_NAME[fact["case"]]
            tokens = await apps[case.tenant].store.read_tokens(case.tenant, fact["run_id"])
            live = sorted((t.node, t.state, t.lane) for t in tokens if t.state in LIVE_STATES)
            assert (case.name, live) == (case.name, [tuple(left) for left in case.left])
        app = apps["default"]
        letters = await app.dead_letters.list()
        workers = await app.workers.list()
        queues = await app.store.list_queues()

        assert [letter.node_id for letter in letters] == ["refused", "refused"]
        assert [(w.name, w.status) for w in workers] == [("earlier", "dead"), ("earlier", "dead")]
        assert [queue.ready for queue in queues if queue.queue.startswith("@")] == [1]


async def test_a_store_is_sound_and_says_what_it_said(old: Old) -> None:
    async with apps_on(old.url) as apps:
        await check_sound(apps)
        await check_facts(apps, old.facts)


async def test_opening_a_store_again_changes_nothing(old: Old) -> None:
    async with apps_on(old.url) as apps:
        first = await contents(apps)
    async with apps_on(old.url) as apps:
        assert await contents(apps) == first


@pytest.mark.shows("Z-10")
async def test_every_run_goes_on_to_its_end(old: Old) -> None:
    async with apps_on(old.url, worker=True) as apps:
        await go_on(apps)

        await check_ends(apps, old.facts)
        await check_facts(apps, old.facts, ended=True)
        await check_sound(apps)


async def test_a_key_names_the_run_that_it_named(old: Old) -> None:
    async with apps_on(old.url) as apps:
        for case in (case for case in CASES if case.idempotency_key):
            (fact,) = [fact for fact in old.facts if fact["case"] == case.name]

            again = await apps[case.tenant].start(
                case.document,
                case.input,
                idempotency_key=case.idempotency_key,
                tags={"case": case.name},
            )

            assert again == fact["run_id"]


async def test_a_run_that_had_failed_can_be_retried(old: Old) -> None:
    (fact,) = [fact for fact in old.facts if fact["case"] == "failed"]
    async with apps_on(old.url, worker=True) as apps:
        app = apps["default"]
        run = await app.runs.retry(fact["run_id"])
        result = await app.wait(run.run, timeout=60)

        assert (run.generation, result.status) == (2, "FAILED")
        letters = await app.dead_letters.list(run_id=run.run)
        assert [letter.generation for letter in letters] == [2]
        await check_sound(apps)


async def test_nothing_that_a_run_needs_is_collected(old: Old) -> None:
    async with apps_on(old.url) as apps:
        collected = [step async for step in apps["default"].retention.collect()]

        assert (collected[-1].plans, collected[-1].configs) == (0, 0)
        await check_sound(apps)
        await check_facts(apps, old.facts)


async def test_a_store_moves_to_another_kind_and_goes_on_there(
    old: Old, kind: str, tmp_path: Path
) -> None:
    targets = {
        "sqlite": lambda: f"sqlite:///{tmp_path}/target.db",
        "postgres": servers.postgres_url,
        "redis": servers.redis_url,
        "logged": servers.logged_url,
    }
    target = targets[NEXT[kind]]()

    report = await migrate(old.url, target)

    # A run whose deadline has passed ends before it is moved.
    ended = sum(
        fact["show"]["duration_ms"] is not None or fact["case"] == "deadline" for fact in old.facts
    )
    assert report["problems"] == []
    assert report["moved"] == {"open": len(CASES) - ended, "finished": ended}
    async with apps_on(target, worker=True) as apps:
        await go_on(apps)
        await check_ends(apps, old.facts)
        await check_facts(apps, old.facts, ended=True)
        await check_sound(apps)


async def migrate(source: str, target: str) -> Any:
    command = ["-m", "minuet", "migrate", "--from", source, "--to", target, "--json"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return json.loads(out)
