"""The page folds a history as the server does, at every event, on the way forth and back."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..api.conftest import Serve, Site
from . import handlers

#: What both sides say of a node.
FIELDS = (
    *("status", "attempts", "error", "reason", "started_at", "ended_at", "instances", "event"),
    *("waiting_for", "items"),
)


def task(name: str, handler: str = "say", **more: Any) -> dict[str, Any]:
    given = {"value": 1} if handler == "say" else {}
    return {"id": name, "handler": handler, "config": given, **more}


BRANCH = {
    "name": "branch",
    "nodes": [
        task("first"),
        {
            "id": "choose",
            "type": "decision",
            "dependencies": ["first"],
            "branch": {
                "rules": [{"when": "output.first == 2", "next_nodes": ["left"]}],
                "default": ["right"],
            },
        },
        task("left"),
        task("below_left", dependencies=["left"]),
        task("right"),
        task("join", dependencies=["below_left", "right"]),
        task("retried", "fail_until", config={"attempt": 3}, retry={"backoff_ms": 1}),
    ],
}
LOOP = {
    "name": "loop",
    "nodes": [
        task("body", config={"value": "{{ iteration }}"}),
        task(
            "again",
            dependencies=["body"],
            config={"value": "{{ body.output }}"},
            loop={
                "while": "output < 3",
                "loop_back_to": "body",
                "max_iterations": 10,
                "break_path": ["after"],
            },
        ),
        task("after"),
    ],
}
EACH = {
    "name": "each",
    "nodes": [
        task("list", config={"value": [3, 1, 2]}),
        task(
            "each",
            dependencies=["list"],
            foreach={"items": "{{ list.output }}", "max_parallel": 2},
            config={"value": "{{ item }}"},
        ),
        task("after", dependencies=["each"]),
    ],
}
FAILED = {
    "name": "failed",
    "nodes": [
        task("good"),
        task("bad", "fail", dependencies=["good"], retry={"max_attempts": 1}),
        task("below", dependencies=["bad"]),
        task("beside"),
        {"id": "never", "type": "wait", "config": {"seconds": 3600}, "dependencies": ["beside"]},
    ],
}
JOINS = {
    "name": "joins",
    "nodes": [
        task("fast"),
        {"id": "slow", "type": "wait", "config": {"seconds": 0.2}},
        task("any", dependencies=["fast", "slow"], join="any"),
        task("left", dependencies=["any"]),
        task("right", dependencies=["any"]),
        task("each", dependencies=["left", "right"], join="each"),
        task("below", dependencies=["each"]),
    ],
}
UNDONE = {
    "name": "undone",
    "on_failure": {"compensate": True},
    "nodes": [
        task("made", compensator={"handler": "say", "config": {"value": 0}}),
        task("bad", "fail", dependencies=["made"], retry={"max_attempts": 1}),
    ],
}
ASKED = {
    "name": "asked",
    "nodes": [
        task("before"),
        {"id": "ask", "type": "human", "dependencies": ["before"], "config": {"title": "Go on?"}},
        task("after", dependencies=["ask"]),
    ],
}


async def compare(site: Site, run: str, node: str, root: Path) -> int:
    """Compare the two folds of a run; how many events it has."""
    graph = await site.get(f"/runs/{run}/graph")
    events = (await site.get(f"/runs/{run}/events"))["items"]
    given = json.dumps({"graph": graph, "events": events})
    done = await asyncio.to_thread(
        subprocess.run,
        [node, "tools/fold.mjs"],
        input=given,
        cwd=root / "ui",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        ours = json.loads(line)
        theirs = await site.get(f"/runs/{run}/state", params={"at": ours["seq"]})
        assert ours["status"] == theirs["status"], ours["seq"]
        for name, shape in theirs["nodes"].items():
            wanted = {field: shape[field] for field in FIELDS}
            if wanted["waiting_for"] is not None:
                wanted["waiting_for"] = {
                    key: wanted["waiting_for"][key] for key in ("kind", "key", "since", "until")
                }
            assert ours["nodes"][name] == wanted, (ours["seq"], name)
    return len(events)


@pytest.mark.parametrize(
    "document", [BRANCH, LOOP, EACH, JOINS, FAILED, UNDONE], ids=lambda one: str(one["name"])
)
async def test_the_page_folds_as_the_server(
    serve: Serve, node: str, root: Path, document: dict[str, Any]
) -> None:
    async with serve(handlers=handlers) as site:
        run = await site.start(document)
        await site.app.runs.wait_ended(run, timeout=60)

        assert await compare(site, run, node, root) > 5


async def test_it_does_so_with_a_decision_and_a_cancellation(
    serve: Serve, node: str, root: Path
) -> None:
    async with serve(handlers=handlers) as site:
        decided, cancelled = [await site.start(ASKED) for _ in range(2)]
        for run in (decided, cancelled):
            async for _, _, event in site.app.runs.follow(run):
                if type(event).__name__ == "NodeWaiting":
                    break
        await site.post(f"/runs/{cancelled}/cancel", {})
        await site.post(f"/approvals/{decided}:ask/decide", {"decision": "approve"})
        await site.app.runs.wait_ended(decided, timeout=60)

        assert await compare(site, decided, node, root) > 5
        assert await compare(site, cancelled, node, root) > 3
