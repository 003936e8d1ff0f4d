"""An agent whose process is killed while the model thinks: the next one asks only this again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.fault.processes import SECONDS_MAX
from tests.models import says, wants
from tests.services import Asked, Script, open_service, silence

ROOT = Path(__file__).resolve().parent.parent.parent

TOOLS = """
import pathlib

import minuet


@minuet.task
def book(seat: int) -> str:
    "Book a seat."
    with pathlib.Path(__file__).with_name("booked").open("a") as file:
        file.write(f"{seat}\\n")
    return f"seat {seat}"
"""


async def test_a_killed_agent_is_resumed_without_paying_twice(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    config = {"model": "m", "prompt": "p", "available_tools": ["book"]}
    document = {"name": "w", "nodes": [{"id": "ag", "type": "agent", "agent_config": config}]}
    (tmp_path / "w.json").write_text(json.dumps(document))
    turns: list[int] = []
    asked_twice = asyncio.Event()

    def answer(asked: Asked) -> Script:
        turns.append(sum(one["role"] == "assistant" for one in asked.json["messages"]) + 1)
        if turns == [1, 2]:
            asked_twice.set()
            return silence
        return wants(("book", {"seat": 3})) if turns[-1] == 1 else says("booked")

    async with open_service() as service:
        service.answer = answer

        async def command(*arguments: str) -> asyncio.subprocess.Process:
            common = ("--store", f"sqlite:///{tmp_path / 'runs.db'}", "--json")
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "minuet", *arguments, *common),
                *("--handlers", str(tmp_path / "tools.py")),
                cwd=ROOT,
                env={**os.environ, "OPENAI_BASE_URL": service.url, "OPENAI_API_KEY": "k"},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )

        async with asyncio.timeout(SECONDS_MAX):
            first = await command("run", str(tmp_path / "w.json"))
            await asked_twice.wait()
            first.kill()
            await first.communicate()
            second = await command("resume")
            printed, _ = await second.communicate()

    found = json.loads(printed)
    (result,) = found if isinstance(found, list) else [found]
    assert (first.returncode, second.returncode) == (-9, 0)
    assert result["nodes"]["ag"]["output"]["result"] == "booked"
    assert turns == [1, 2, 2]
    assert (tmp_path / "booked").read_text() == "3\n"
