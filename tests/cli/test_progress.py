"""The live picture, drawn on a terminal that is a string."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from typing import Any

from rich.console import Console

from minuet.app.app import App
from minuet.cli.progress import ACTIVE_SHOWN_MAX, NODES_SHOWN_MAX, LiveProgress

CHAIN = "name: chain\nnodes:\n  - {id: a, type: noop}\n  - {id: b, type: noop, dependencies: [a]}\n"


async def draw(document: dict[str, Any], upto: int | None = None, *, runs: int = 1) -> str:
    """The last picture of a run, after event `upto`."""
    console = Console(file=io.StringIO(), width=100, height=60, force_terminal=False)
    async with App("memory://") as app:
        progress = LiveProgress(console)
        for _ in range(runs):
            run_id = await app.start(document)
            await app.runs.wait_ended(run_id)
            progress.begin(await app.runs.watch(run_id))
            for seq, at_ms, event in await app.runs.history(run_id, upto=upto):
                progress.add(run_id, seq, at_ms, event)
        progress.close()
    printed = io.StringIO()
    Console(file=printed, width=100, height=60).print(progress.picture())
    return printed.getvalue()


def chain(count: int) -> dict[str, Any]:
    first = [{"id": "n0", "type": "noop"}]
    return {
        "name": "chain",
        "nodes": first
        + [
            {"id": f"n{number}", "type": "noop", "dependencies": ["n0"]}
            for number in range(1, count)
        ],
    }


async def test_the_picture_has_a_line_for_each_node() -> None:
    lines = (await draw(chain(3), upto=3)).splitlines()

    assert lines[0].startswith("chain")
    assert "RUNNING" in lines[0]
    assert [line.split()[:2] for line in lines[2:]] == [
        *(["n0", "COMPLETED"], ["n1", "QUEUED"], ["n2", "QUEUED"]),
    ]


async def test_a_large_plan_shows_counts_and_what_is_active_only() -> None:
    lines = (await draw(chain(NODES_SHOWN_MAX + 10), upto=3)).splitlines()

    assert lines[1].strip() == "50 nodes: 1 completed, 49 queued or running"
    assert len(lines) == 3 + ACTIVE_SHOWN_MAX


async def test_several_runs_show_a_line_each() -> None:
    lines = (await draw(chain(2), runs=3)).splitlines()

    assert len(lines) == 4
    assert all("COMPLETED" in line for line in lines[1:])


def test_on_a_terminal_the_picture_is_drawn_and_the_cursor_comes_back(folder: Any) -> None:
    folder.write("w.yaml", CHAIN)
    mine, theirs = pty.openpty()

    child = subprocess.Popen(
        [sys.executable, "-m", "minuet", "run", "w.yaml"],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(mine, 65536):
            seen += data
    except OSError:
        pass  # how Linux says that the other end is closed
    os.close(mine)

    assert child.wait(timeout=60) == 0
    assert b"\x1b[?25l" in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")
    assert b"chain: \x1b[32mCOMPLETED" in seen
