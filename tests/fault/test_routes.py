"""A server is killed before and after every call to its store, at every route that changes
something: nothing is half done, and the same request again does what is left."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from tests.fault.conftest import ROOT
from tests.fault.outcome import Outcome
from tests.fault.processes import Nursery, until

from minuet.api.application import Api, make_routes
from minuet.app.app import App
from minuet.nodes.handler import Task
from minuet.store.exchange import Exchange, Take
from minuet.store.records import WorkerRecord
from minuet.store.sqlite import SqliteStore

from ..folding import Findings
from ..waiting import until as until_in_store

DIED = 137

#: Borders at which the server of a worker over HTTP dies; MINUET_TEST_BLOWS: more of them.
LATE = range(3, 40, max(1, 12 // int(os.environ.get("MINUET_TEST_BLOWS", "1"))))

#: Enough for any route; a test ends where the calls do.
BORDERS_MAX = 60


def document(name: str, *nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "nodes": list(nodes), **more}


WAIT = {"id": "w", "type": "wait", "config": {"signal": "go"}}
SHORT = document("short", {"id": "a", "type": "noop"})
CONTENT = b"x" * 10_000


class Case(NamedTuple):
    """A request, with names of runs that stand for their ids."""

    path: str
    body: Any = None
    #: Without an idempotency key, another request may be another wish.
    may_repeat: bool = False


#: By method and path of the route.
CASES = {
    "POST /runs": Case("/runs", {"document": SHORT, "idempotency_key": "once"}),
    "POST /workflow": Case("/workflow", {"workflow": document("new", WAIT)}, may_repeat=True),
    "POST /workflow/trigger/{execution_id}": Case("/workflow/trigger/PENDING", {}),
    "POST /runs/{run_id}/cancel": Case("/runs/WAITING/cancel", {"reason": "enough"}),
    "POST /runs/{run_id}/pause": Case("/runs/WAITING/pause", {}),
    "POST /runs/{run_id}/resume": Case("/runs/PAUSED/resume", {}),
    "POST /runs/{run_id}/retry": Case("/runs/FAILED/retry", {}),
    "POST /runs/{run_id}/rollback": Case("/runs/DONE/rollback", {}),
    "POST /runs/{run_id}/signals/{name}": Case(
        "/runs/WAITING/signals/go", {"data": 7, "idempotency_key": "once"}
    ),
    "POST /workflows": Case("/workflows", {"document": document("new", WAIT)}),
    "DELETE /workflows/{name}": Case("/workflows/greet"),
    "PUT /workflows/{name}/tags/{tag}": Case("/workflows/greet/tags/canary", {"version": 1}),
    "POST /approvals/{id}/decide": Case(
        "/approvals/APPROVAL/decide", {"decision": "approve", "decided_by": "ada"}
    ),
    "POST /dlq/retry": Case("/dlq/retry", {"run_id": "FAILED"}),
    "POST /dlq/{id}/retry": Case("/dlq/LETTER/retry", {}),
    "POST /dlq/{id}/discard": Case("/dlq/LETTER/discard", {"why": "too old"}),
    "POST /dlq/{id}/edit": Case("/dlq/LETTER/edit", {"config": {"a": 1}}, may_repeat=True),
    "POST /runs/{run_id}/start": Case("/runs/PENDING/start", {}),
    "DELETE /runs/{run_id}": Case("/runs/DONE"),
    "POST /runs/bulk": Case("/runs/bulk", {"action": "pause", "run_ids": ["WAITING"]}),
    "POST /runs/bulk/delete": Case("/runs/bulk/delete", {"run_ids": ["DONE"]}),
    "POST /runs/{run_id}/nodes/{node}/skip": Case("/runs/WAITING/nodes/w/skip", {"why": "old"}),
    "POST /runs/{run_id}/nodes/{node}/set-output": Case(
        "/runs/WAITING/nodes/w/set-output", {"data": 7}, may_repeat=True
    ),
    "POST /runs/{run_id}/nodes/{node}/take-back": Case("/runs/HELD/nodes/h/take-back", {}),
    "POST /workers": Case("/workers", {"executors": ["shout"]}, may_repeat=True),
    "POST /workers/{id}/drain": Case("/workers/silent/drain"),
    "DELETE /workers/{id}": Case("/workers/silent"),
    "POST /keys": Case("/keys", {"name": "ada", "roles": ["viewer"]}, may_repeat=True),
    "DELETE /keys/{id}": Case("/keys/KEY"),
    "PUT /blobs": Case("/blobs", CONTENT),
    "PUT /blobs/{ref}": Case("/blobs/REF", CONTENT),
}

#: A worker makes these: the last test below.
LIVES = {"POST /workers/{id}/exchange", "PUT /workers/{id}/tasks/{task}/steps/{name}"}

#: It sends something, and changes nothing here.
SENDS = {"POST /webhooks/{name}/test"}

#: These only answer; a repair changes nothing of a run that is sound.
ANSWERS = {
    *("POST /workflows/validate", "POST /runs/{run_id}/preview", "POST /doctor/{run_id}/repair"),
}

#: They go on after their answer: test_redrives.py.
GOES_ON = {"POST /dlq/redrives", "POST /dlq/redrives/{id}/stop"}

#: It ends the sample's worker: tests/api/test_dev_sample.py.
KILLS = {"POST /dev/kill-worker"}


def test_every_route_that_changes_something_is_killed_here() -> None:
    found = {
        f"{method.upper()} {path.removeprefix('/api/v1')}"
        for path, methods in make_routes().openapi()["paths"].items()
        for method in methods
        if method not in ("get", "head")
    }

    assert found == CASES.keys() | LIVES | SENDS | ANSWERS | KILLS | GOES_ON


# ── what there is before ────────────────────────────────────────────────────────────────────


async def prepare(db: Path) -> dict[str, str]:
    """A store with a run in every state; their ids by name."""

    def fail() -> None:
        raise ValueError("no ink")

    def undo() -> None:
        pass

    asking = {"id": "ask", "type": "human", "config": {"human_config": {"title": "?"}}}
    failing = {"id": "f", "handler": "routes.fail", "retry": {"max_attempts": 1}}
    done = {"id": "d", "handler": "routes.undo", "compensator": {"handler": "routes.undo"}}
    names = {}
    async with App(SqliteStore(db)) as app:
        app.handlers.add(Task(fail, name="routes.fail"))
        app.handlers.add(Task(undo, name="routes.undo"))
        for text in ("first", "second"):
            await app.workflows.deploy({**document("greet", WAIT), "description": text})
        names["WAITING"] = (await app.start(document("waits", WAIT))).id
        names["PAUSED"] = (await app.start(document("paused", WAIT))).id
        names["ASKING"] = (await app.start(document("asks", asking))).id
        names["FAILED"] = (await app.start(document("fails", failing, dlq_policy="all"))).id
        names["DONE"] = (await app.start(document("done", done))).id
        for name in ("FAILED", "DONE"):
            await app.runs.wait_ended(names[name])

        async def all_wait() -> bool:
            rows = [await app.runs.get(names[name]) for name in ("WAITING", "PAUSED", "ASKING")]
            return all(row.seq == 3 for row in rows)

        await until_in_store(app.store, all_wait)
        await app.runs.pause(names["PAUSED"])
        names["PENDING"] = (await app.runs.create("greet@1")).id
        names["APPROVAL"] = (await app.approvals.list())[0].id
        names["KEY"] = (await app.keys.create("bob", ["viewer"])).key.id
        names["LETTER"] = (await app.dead_letters.list())[0].id
    async with App("memory://", worker=False) as other:
        names["REF"] = (await other.blobs.put(CONTENT))["cas_ref"].removeprefix("cas://")
    async with App(SqliteStore(db), worker=False) as app:
        await app.store.register_worker(WorkerRecord("silent"))
        held = {"id": "h", "handler": "routes.held"}
        names["HELD"] = (await app.start(document("held", held))).id
        take = Take(("task:routes.held",), 1)
        taken = await app.store.exchange(
            Exchange("session", 1, "lease", lease_ms=3_600_000, take=(take,))
        )
        assert len(taken.granted) == 1
    return names


async def read(db: Path, names: dict[str, str]) -> dict[str, Any]:
    """What can be seen of a store, and that it is sound."""
    known = {id: name for name, id in names.items()}
    async with App(SqliteStore(db), worker=False) as app:
        findings = [one async for _, found in app.doctor.examine() for one in found]
        findings += [one async for one in app.doctor.examine_workflows()]
        assert findings == []
        runs: Counter[Any] = Counter()
        for run in await app.runs.list(limit=1_000):
            events = tuple(event["type"] for event in await app.events(run.run))
            runs[(known.get(run.run, "new"), run.status, events)] += 1
        refs = [names["REF"]]
        return {
            "runs": runs,
            "workflows": {one.name: (one.version, one.tags) for one in await app.workflows.list()},
            "letters": [(one.id, one.status) for one in await app.dead_letters.list(status=None)],
            "draining": [one.draining for one in await app.workers.list() if one.id == "silent"],
            "keys": Counter((one.name, one.revoked_ms is None) for one in await app.keys.list()),
            "blob": await app.store.touch_blobs("default", [f"cas://{ref}" for ref in refs]),
        }


# ── requests ────────────────────────────────────────────────────────────────────────────────


def fill(value: Any, names: dict[str, str]) -> Any:
    """Ids in place of names."""
    if isinstance(value, str):
        for name, id in names.items():
            value = value.replace(name, id)
    elif isinstance(value, dict):
        return {key: fill(one, names) for key, one in value.items()}
    elif isinstance(value, list):
        return [fill(one, names) for one in value]
    return value


def send(client: httpx2.Client, key: str, names: dict[str, str]) -> httpx2.Response:
    case = CASES[key]
    body = {"content": case.body} if isinstance(case.body, bytes) else {"json": case.body}
    method = key.split()[0]
    if case.body is None:
        body = {}
    path = "/api/v1" + fill(case.path, names)
    return client.request(method, path, **{name: fill(one, names) for name, one in body.items()})


def connect(path: Path) -> httpx2.Client:
    transport = httpx2.HTTPTransport(uds=str(path), verify=False)
    return httpx2.Client(transport=transport, base_url="http://localhost", timeout=60)


def is_up(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as made:
        try:
            made.connect(str(path))
        except OSError:
            return False
        return True


async def repeat(db: Path, key: str, names: dict[str, str]) -> int:
    """Send the request to another server; the status of its answer."""
    case = CASES[key]
    content = case.body if isinstance(case.body, bytes) else None
    json = None if content is not None else fill(case.body, names)
    async with App(SqliteStore(db), worker=False) as app:
        api = Api(app)
        transport = httpx2.ASGITransport(api)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            path = "/api/v1" + fill(case.path, names)
            options: dict[str, Any] = {"content": content} if content is not None else {}
            if json is not None:
                options = {"json": json}
            answer = await client.request(key.split()[0], path, **options)
        await api.close()
        return answer.status_code


@pytest.fixture(autouse=True)
def processes_have_compared() -> None:
    """A server that is killed with its call has compared nothing. `read` does."""


@pytest.fixture(scope="module")
def servers(histories: Findings) -> Iterator[Nursery]:
    with Nursery(ROOT, "tests.fault.serving") as nursery:
        yield nursery


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    db = tmp_path_factory.mktemp("template") / "runs.db"
    return db, asyncio.run(prepare(db))


@pytest.mark.slow
@pytest.mark.parametrize("key", CASES)
def test_a_server_that_is_killed_leaves_nothing_half_done(
    key: str, servers: Nursery, template: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    original, names = template
    before = asyncio.run(read(original, names))
    after: dict[str, Any] | None = None
    seen = []
    for border in range(BORDERS_MAX):
        folder = tmp_path / str(border)
        folder.mkdir()
        db, sock = folder / "runs.db", folder / "s"
        shutil.copy(original, db)
        server = servers.start("serve", db=str(db), path=str(sock), dies_at=border)
        until(lambda sock=sock: is_up(sock), "the server answers")  # type: ignore[misc]
        try:
            with connect(sock) as client:
                answer = send(client, key, names)
        except httpx2.TransportError:
            assert server.wait() == DIED, border
        else:
            assert answer.is_success, answer.text
            server.kill()
            after = asyncio.run(read(db, names))
            break
        seen.append((db, asyncio.run(read(db, names))))
    assert after is not None
    # It ended because the calls did, and the request does change something.
    if key != "POST /workers":  # The worker registers later, by itself.
        assert seen
        assert after != before
    for db, left in seen:
        assert asyncio.run(repeat(db, key, names)) in (200, 201, 204, 404, 409)
        again = asyncio.run(read(db, names))
        if CASES[key].may_repeat:
            assert all(left[kind] in (before[kind], after[kind]) for kind in after)
        else:
            assert again == after


# ── a worker over HTTP ──────────────────────────────────────────────────────────────────────


def work(client: httpx2.Client) -> None:
    """Be a worker over HTTP, until there has been nothing to do for a moment."""
    made = client.post("/api/v1/workers", json={"executors": ["routes.far"]}).json()
    path = f"/api/v1/workers/{made['worker_id']}/exchange"
    done: list[dict[str, Any]] = []
    idle = 0
    for seq in itertools.count(1):
        body = {"seq": seq, "done": done, "take": 1, "wait_ms": 300}
        reply = client.post(path, json=body).json()
        idle = 0 if reply["tasks"] else idle + 1
        done = [{"task": task["task"], "result": task["node_id"]} for task in reply["tasks"]]
        if idle == 2:
            return


# The client's library leaves its socket unclosed if the server dies at a certain moment.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.slow
@pytest.mark.shows("H-17")
def test_a_worker_over_http_loses_nothing_with_its_server(servers: Nursery, tmp_path: Path) -> None:
    far = document(
        "far",
        {"id": "a", "handler": "routes.far"},
        {"id": "b", "handler": "routes.far", "dependencies": ["a"]},
        {"id": "c", "type": "transform", "config": {"value": "{{ b.output }}!"}},
    )
    far["nodes"][2]["dependencies"] = ["b"]
    # Every border of the calls would take a minute; each round dies a little later.
    for border in LATE:
        folder = tmp_path / str(border)
        folder.mkdir()
        db, first, second = folder / "runs.db", folder / "1", folder / "2"
        for path, dies_at in ((first, border), (second, 1_000_000)):
            server = servers.start(
                "serve", db=str(db), path=str(path), dies_at=dies_at, lease_seconds=0.5
            )
            until(lambda path=path: is_up(path), "the server answers")  # type: ignore[misc]
            try:
                with connect(path) as client:
                    client.post("/runs", json={"document": far, "idempotency_key": "once"})
                    work(client)
            except httpx2.TransportError:
                assert server.wait() == DIED
            else:
                server.kill()
        outcome = Outcome(db)
        assert outcome.findings == []
        ((run, result),) = outcome.results.items()
        assert (result.status, result.output) == ("COMPLETED", {"c": "b!"}), border
        assert set(outcome.instances(run, "node.completed").values()) == {1}
