"""A client has the verbs of an App, and answers the same."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

import minuet
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.approvals import Approvals
from minuet.app.audit import Audit
from minuet.app.blobs import Blobs
from minuet.app.dead_letters import DeadLetters
from minuet.app.doctor import Doctor
from minuet.app.keys import Keys
from minuet.app.retention import Retention
from minuet.app.runs import Runs
from minuet.app.webhooks import Webhooks
from minuet.app.workers import Workers
from minuet.app.workflows import Workflows
from minuet.client.approvals import RemoteApprovals
from minuet.client.audit import RemoteAudit
from minuet.client.blobs import RemoteBlobs
from minuet.client.client import AsyncClient
from minuet.client.dead_letters import RemoteDeadLetters
from minuet.client.doctor import RemoteDoctor
from minuet.client.keys import RemoteKeys
from minuet.client.retention import RemoteRetention
from minuet.client.runs import RemoteRuns
from minuet.client.webhooks import RemoteWebhooks
from minuet.client.workers import RemoteWorkers
from minuet.client.workflows import RemoteWorkflows
from minuet.errors import (
    AlreadyDecidedError,
    AmbiguousRunError,
    BlobError,
    ConfigError,
    DeadLetterNotFoundError,
    DocumentError,
    InputError,
    KeyNotFoundError,
    NodeNotFoundError,
    NotOpenError,
    RedriveNotFoundError,
    RunConflictError,
    RunFailed,
    RunNotFoundError,
    RunTimeoutError,
    WorkflowNotFoundError,
)
from minuet.events import NodeWaiting

from ..scenario.harness import module_of, task, workflow
from .conftest import connected

#: Each noun, its remote form, and what is written in terms of its other verbs.
NOUNS: list[tuple[type[Any], type[Any], set[str]]] = [
    (
        Runs,
        RemoteRuns,
        {"start", "start_many", "handle", "wait", "find", "list_open", "task_events", "watch"},
    ),
    (Workflows, RemoteWorkflows, {"encode_input", "find_tagged"}),
    (Approvals, RemoteApprovals, {"approve", "reject"}),
    (DeadLetters, RemoteDeadLetters, {"retry"}),
    (Workers, RemoteWorkers, {"find", "wait_ended", "find_unserved"}),
    (Blobs, RemoteBlobs, set()),
    (Keys, RemoteKeys, set()),
    (Audit, RemoteAudit, set()),
    (Retention, RemoteRetention, set()),
    (Doctor, RemoteDoctor, set()),
    (Webhooks, RemoteWebhooks, {"make_notifier", "close"}),
    (
        Facade,
        AsyncClient,
        {
            *("runs", "approvals", "workflows", "workers", "dead_letters"),
            *("start", "start_many", "run", "wait", "follow", "events", "cancel", "signal"),
        },
    ),
]


def public(kind: type[Any]) -> set[str]:
    ours = [base for base in kind.__mro__ if base.__module__.startswith("minuet")]
    return {name for base in ours for name in vars(base) if not name.startswith("_")}


@pytest.mark.parametrize(("noun", "remote", "shared"), NOUNS, ids=[n[1].__name__ for n in NOUNS])
def test_every_verb_is_made_for_a_server_or_written_in_terms_of_others(
    noun: type[Any], remote: type[Any], shared: set[str]
) -> None:
    own = {name for name in vars(remote) if not name.startswith("_")}

    assert public(noun) - own == shared
    for name in own & public(noun):
        theirs, ours = inspect.getattr_static(noun, name), inspect.getattr_static(remote, name)
        if not isinstance(ours, property):
            assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters, name
            assert ours.__doc__, name


def double(number: int) -> int:
    return number * 2


def fail(ctx: minuet.Context) -> None:
    raise LookupError(f"nothing there at {ctx.attempt}")


DOUBLE = workflow(task("double", config={"number": "{{ input.n }}"}), name="double")
FAIL = workflow(task("fail", retry=1), name="failing", dlq_policy="all")
GATE = workflow({"id": "gate", "type": "human", "human_config": {"title": "May it?"}}, name="gate")


CHECKED: dict[str, Any] = {
    "name": "checked",
    "input": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "nodes": [{"id": "a", "type": "noop"}],
}


def handlers() -> Any:
    return module_of({"double": double, "fail": fail})


def plain(value: Any) -> Any:
    """As JSON has it: tuples are lists."""
    return json.loads(json.dumps(value))


async def collect(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def test_a_run_is_started_followed_and_looked_at() -> None:
    async with connected(handlers=handlers()) as (site, client):
        app = site.app
        run = await client.start(DOUBLE, {"n": 21}, tags={"a": 1})
        followed = await collect(client.follow(run))
        result = await run.result(timeout=60)

        assert result.output == {"double": 42}
        assert result == await app.runs.wait(run.id)
        assert followed == await app.runs.history(run.id)
        assert await client.events(run.id, after=1) == plain(await app.events(run.id, after=1))
        runs, theirs = client.runs, app.runs
        row = await theirs.get(run.id)
        assert shapes.row(await runs.get(run.id)) == shapes.row(row)
        assert [shapes.row(one) for one in await runs.list()] == [shapes.row(row)]
        assert await runs.show(run.id) == await theirs.show(run.id)
        assert await runs.replay(run.id, at=2) == await theirs.replay(run.id, at=2)
        assert await runs.instances(run.id) == await theirs.instances(run.id)
        assert await runs.instances(run.id, "double") == await theirs.instances(run.id, "double")
        assert await runs.stored_events(run.id) == await theirs.stored_events(run.id)
        assert await runs.causes(run.id) == await theirs.causes(run.id)
        assert await runs.task_events(run.id) == await theirs.task_events(run.id)
        assert await runs.explain(run.id, "double") == await theirs.explain(run.id, "double")
        assert await runs.tree(run.id) == await theirs.tree(run.id)
        assert await runs.export(run.id) == await theirs.export(run.id)
        assert await runs.find(run.id[:30]) == run.id
        assert await runs.list_open() == []
        assert await runs.unserved(run.id) == []
        assert await runs.stalled() == []
        program = await runs.program(run.id, row.plan)
        assert program.plan == (await theirs.program(run.id, row.plan)).plan


async def test_runs_are_changed_and_a_stale_number_is_refused() -> None:
    async with connected(worker=False) as (site, client):
        run = await client.start(DOUBLE, {"n": 1})
        seen = (await run.get()).seq

        assert (await run.pause()).status == "PAUSED"
        with pytest.raises(RunConflictError, match="has moved on to event"):
            await client.cancel(run, seq=seen)
        for side in (client, site.app):
            for repair in (
                side.runs.skip(run, "double", seq=seen),
                side.runs.set_output(run, "double", 5, seq=seen),
                side.runs.take_back(run, "double", seq=seen),
                side.runs.rollback(run, seq=seen),
                side.runs.retry(run, seq=seen),
            ):
                with pytest.raises(RunConflictError, match=f"expected {seen}"):
                    await repair
        assert (await run.resume()).status == "RUNNING"
        assert (await run.signal("hello/there?", {"a": 1})).run == run
        assert (await client.runs.set_output(run, "double", 5, by="ann", why="by hand")).run == run
        other = await client.runs.create(DOUBLE)
        assert (await other.get()).status == "PENDING"
        assert (await client.runs.trigger(other, {"n": 3})).status == "RUNNING"
        with pytest.raises(RunConflictError):
            await client.runs.trigger(other, {"n": 3})
        assert (await client.runs.skip(other, "double", why="no")).run == other
        cancelled = await client.cancel(run, reason="twice")
        assert (cancelled.status, (cancelled.error or {})["message"]) == ("CANCELLED", "twice")
        with pytest.raises(RunConflictError, match="CANCELLED"):
            await client.runs.take_back(run, "double")
        await client.cancel(other)
        assert (await client.runs.delete([run, other], dry_run=True)).runs == 2
        assert len(await client.runs.list()) == 2
        assert (await client.runs.delete([run, other])).runs == 2
        assert await client.runs.list() == await site.app.runs.list() == []


async def test_runs_are_counted_and_what_nobody_serves_is_found() -> None:
    async with connected(worker=False) as (site, client):
        await client.workflows.deploy(DOUBLE, "live")
        for n in range(3):
            run = await client.start("double@live", {"n": n})
        await run.pause()
        plan = client.workflows.compile(DOUBLE).plan

        assert await client.runs.count() == await site.app.runs.count()
        counted = (await client.runs.count()).open
        assert {status: n for status, n in counted.items() if n} == {"RUNNING": 2, "PAUSED": 1}
        assert await client.workflows.find_tagged("live") == "double@live"
        assert await client.workflows.find_tagged("double@1") == "double@1"
        with pytest.raises(WorkflowNotFoundError):
            await client.workflows.find_tagged("nothing")
        unserved = await client.workers.find_unserved(plan)
        assert unserved == await site.app.workers.find_unserved(plan) == {"double": "task:double"}


async def test_dead_letters_are_looked_at_edited_retried_and_discarded() -> None:
    async with connected(handlers=handlers()) as (site, client):
        run = await client.start(FAIL)
        with pytest.raises(RunFailed, match="nothing there at 1"):
            await run.result(timeout=60)
        letters, theirs = client.dead_letters, site.app.dead_letters
        (letter,) = await letters.list()

        assert [letter] == await theirs.list()
        assert await letters.group() == await theirs.group()
        assert await letters.ids(run_id=run) == [letter.id]
        assert await letters.get(letter.id) == letter
        shown = await letters.show(letter.id)
        assert shapes.letter_details(shown) == shapes.letter_details(await theirs.show(letter.id))
        assert await letters.edit(letter.id, {"x": 1}, by="ann") == letter
        (retried,) = await collect(letters.retry([letter.id], by="ann"))
        assert (retried.run_id, retried.is_retried) == (run.id, True)
        await run.wait(timeout=60)
        (second,) = await letters.list()
        discarded = await letters.discard(second.id, why="no use")
        assert (discarded.status, discarded.why) == ("discarded", "no use")
        assert discarded == await theirs.get(second.id)
        with pytest.raises(RunConflictError, match="no pending dead letter"):
            await letters.discard(second.id)
        made = await site.post("/dlq/redrives", {"ids": [second.id], "by": "ann"}, 201)
        stopped = await letters.stop_redrive(made["id"])
        assert (stopped.id, stopped.by, stopped.total) == (made["id"], "ann", 1)
        assert [one.id for one in await letters.redrives()] == [stopped.id]
        (same,) = await theirs.redrives()
        assert shapes.redrive(stopped).keys() == shapes.redrive(same).keys()


async def test_approvals_are_listed_and_decided() -> None:
    async with connected() as (site, client):
        run = await client.start(GATE)
        async for _, _, event in client.follow(run):
            if isinstance(event, NodeWaiting):
                break
        (asked,) = await client.approvals.list()

        assert [asked] == await site.app.approvals.list()
        assert await client.approvals.show(asked.id) == asked
        decided = await client.approvals.approve(asked.id, by="ann", comments="fine")
        assert (decided.status, decided.decision) == ("decided", "approve")
        with pytest.raises(AlreadyDecidedError) as caught:
            await client.approvals.reject(asked.id, by="ben")
        assert caught.value.approval.decisions == decided.decisions
        assert caught.value.run_id == run
        assert (await run.wait(timeout=60)).status == "COMPLETED"


async def test_workflows_workers_blobs_and_webhooks_are_those_of_the_server() -> None:
    async with connected(handlers=handlers()) as (site, client):
        app = site.app
        deployed = await client.workflows.deploy(DOUBLE, "main", "the first", by="ann")

        assert (deployed.version, deployed.created_by, deployed.is_new) == (1, "ann", True)
        assert await client.workflows.list() == await app.workflows.list()
        tagged = await client.workflows.tag("double@1", "live")
        assert tagged.tags == {"main": 1, "live": 1}
        assert await client.workflows.get("double@live") == tagged
        await app.workflows.deploy({**DOUBLE, "name": "gone"})
        assert (await client.workflows.delete("gone")).newest == 1
        text = "# Ours.\nname: written\nnodes: [{id: a, type: noop}]\n"
        assert (await client.workflows.deploy(text)).source == text
        again = await client.workflows.deploy(text.replace("Ours", "Mine"))
        assert (again.is_new, again.source_changed) == (False, True)
        assert (await app.workflows.delete("written")).source == again.source
        assert [one.name for one in await app.workflows.list()] == ["double"]
        assert (await client.run("double@live", {"n": 2}, timeout=60)).output == {"double": 4}
        started = await client.start_many("double", [{"n": n} for n in range(5)])
        results = [(await run.result(timeout=60)).output["double"] for run in started]
        assert results == [0, 2, 4, 6, 8]

        (worker,) = await client.workers.list()
        (same,) = await app.workers.list()
        assert (worker.id, worker.queues, worker.capabilities) == (
            *(same.id, same.queues, same.capabilities),
        )
        assert await client.workers.find(worker.name) == worker or worker.id == same.id
        assert await client.workers.queues() == await app.workers.queues()
        assert await client.workers.handlers() == await app.workers.handlers()
        assert not await client.workers.drain("nobody")

        reference = await client.blobs.put(b"content" * 1000)
        pieces = await collect(client.blobs.read(reference))
        assert (b"".join(pieces), reference["bytes"]) == (b"content" * 1000, 7000)
        assert await client.webhooks.list() == []


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (RunNotFoundError, lambda it: it.runs.get("nothing")),
        (RunNotFoundError, lambda it: it.runs.show("a/b?c")),
        (RunNotFoundError, lambda it: it.runs.find("ffff")),
        (AmbiguousRunError, lambda it: it.runs.find("0")),
        (InputError, lambda it: it.runs.list(limit=0)),
        (InputError, lambda it: it.start(CHECKED, {"n": "x"})),
        (DocumentError, lambda it: it.start({"name": "x", "nodes": [{"id": "a b"}]})),
        (WorkflowNotFoundError, lambda it: it.start("nowhere")),
        (WorkflowNotFoundError, lambda it: it.workflows.get("double@7")),
        (DeadLetterNotFoundError, lambda it: it.dead_letters.show("abc.1")),
        (RedriveNotFoundError, lambda it: it.dead_letters.stop_redrive("nothing")),
        (RedriveNotFoundError, lambda it: it.dead_letters.stop_redrive("")),
        (RunTimeoutError, lambda it: it.runs.wait(it.latest, timeout=0.01)),
        (NodeNotFoundError, lambda it: it.runs.explain(it.latest, "nothing")),
        (RunConflictError, lambda it: it.runs.retry(it.latest)),
        (RunConflictError, lambda it: it.start("double", {"n": 2}, idempotency_key="k")),
        (ConfigError, lambda it: it.webhooks.test("nobody")),
        (BlobError, lambda it: collect(it.blobs.read(f"sha256:{'0' * 64}"))),
    ],
)
async def test_errors_are_those_of_an_app(error: type[Exception], call: Any) -> None:
    async with connected(worker=False) as (site, client):
        await client.workflows.deploy(DOUBLE)
        await client.start("double", {"n": 1}, idempotency_key="k")
        client.latest = site.app.latest = (await client.start("double", {"n": 1})).id  # type: ignore[attr-defined]
        said = []
        for side in (site.app, client):
            with pytest.raises(error) as caught:
                await call(side)
            said.append(caught.value)

    theirs, ours = said
    assert type(ours) is type(theirs) or isinstance(ours, type(theirs))
    assert vars(ours).keys() >= vars(theirs).keys() - {"remainder", "diagnostics", "close", "tags"}


async def test_a_client_finds_counts_and_examines_as_an_app_does() -> None:
    async with connected() as (site, client):
        await client.run(DOUBLE | {"nodes": CHECKED["nodes"]}, {"n": 1})
        waiting = await client.start(GATE)
        answers = []
        for side in (site.app, client):
            found = await side.runs.search("status:completed age<1h")
            counted = await side.runs.histogram("workflow:double", buckets=2)
            preview = await side.runs.change_many("pause", [str(waiting)], dry_run=True)
            overview = await side.overview()
            answers.append(
                (
                    [run.run for run in found.runs],
                    (found.next, found.searched, found.back_to_ms),
                    (counted.counts, counted.counted),
                    preview,
                    [shapes.statistics(one) for one in await side.runs.statistics()],
                    await side.workers.leases(),
                    (overview.open, overview.approvals, overview.store, overview.workers.counts),
                    await side.doctor.check(),
                )
            )

    assert answers[0] == answers[1]
    assert answers[0][0]


async def test_what_needs_the_store_is_refused_with_what_to_do_instead() -> None:
    async with connected(worker=False) as (_, client):
        with pytest.raises(ConfigError, match=r"doctor\.check"):
            await client.doctor.examine_run("x")
        with pytest.raises(ConfigError, match="minuet gc --store URL"):
            await collect(client.retention.collect())
        with pytest.raises(ConfigError, match="minuet worker --url"):
            await client.runs.prepare([])
    with pytest.raises(NotOpenError, match="async with AsyncClient"):
        _ = client.runs


async def test_keys_and_the_audit_log() -> None:
    async with connected() as (site, client):
        made = await client.keys.create("ada", ["viewer"], groups=["staff"], expires_seconds=60)
        (stored,) = await site.app.keys.list()
        (listed,) = await client.keys.list()
        revoked = await client.keys.revoke(made.key.id)
        audit = await client.audit.list(limit=1)
        rest = await client.audit.list(after=audit[0].id)
        with pytest.raises(KeyNotFoundError):
            await client.keys.revoke("nothing")

    assert stored.is_text(made.text)
    assert listed == made.key == msgspec.structs.replace(stored, digest=b"", created_by="")
    assert revoked.revoked_ms is not None
    assert [one.action for one in (*audit, *rest)] == ["DELETE /keys/{id}", "POST /keys"]
