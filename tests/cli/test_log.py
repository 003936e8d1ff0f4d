"""The log of commands that run handlers."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest

TALK = "name: chat\nnodes:\n  - {id: talk, handler: talk}\n"
HANDLERS = """
import asyncio
import logging

import minuet

log = logging.getLogger("shop.cards")


@minuet.task
def talk(ctx: minuet.Context) -> None:
    ctx.log.debug("handler debug")
    ctx.log.info("handler info")
    log.info("library info")
    log.warning("library warning \\x1b[2J")
    ctx.log.error("handler error")


@minuet.task
async def talk_on(ctx: minuet.Context) -> None:
    # More than one picture takes to draw, from this thread and from others.
    for number in range(100):
        ctx.log.info(f"line {number}")
        await asyncio.to_thread(log.warning, f"line {number} of a thread")
"""
SAID = ("handler debug", "handler info", "library info", "library warning", "handler error")


@pytest.fixture
def talking(folder: Any) -> Any:
    folder.write("talk.yaml", TALK)
    folder.write("talk.py", HANDLERS)
    yield folder
    sys.modules.pop("talk", None)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ((), ("handler info", "library warning", "handler error")),
        (("--log-level", "debug"), SAID),
        (("--log-level", "info"), SAID[1:]),
        (("--log-level", "WARNING"), SAID[3:]),
        (("--log-level", "error"), SAID[4:]),
    ],
)
def test_log_lines_are_shown_from_the_level_on_that_was_asked_for(
    talking: Any, minuet: Any, options: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    ran = minuet("run", "talk.yaml", *options)

    run_id = minuet("runs", "list", "--json").json[0]["run_id"]
    lines = [line for line in ran.err.splitlines() if any(said in line for said in SAID)]
    assert [said for said in SAID if any(said in line for line in lines)] == list(shown)
    assert len(lines) == len(shown)
    # Each says which run and node it is about.
    assert all(f"run {run_id}  talk  " in line for line in lines)
    assert "\x1b" not in ran.err


def test_levels_are_as_before_when_the_command_is_over(talking: Any, minuet: Any) -> None:
    import logging

    root, own = logging.getLogger(), logging.getLogger("minuet.handler")
    before = root.level, own.level, list(root.handlers)

    minuet("run", "talk.yaml", "--log-level", "debug")

    assert (root.level, own.level, root.handlers) == before


def test_logging_that_the_handlers_set_up_is_not_doubled(
    talking: Any, spawn: Any, finish: Any
) -> None:
    setup = (
        "logging.basicConfig(level='INFO', format='mine %(node_id)s %(message)s')\n"
        "log = logging.getLogger"
    )
    talking.write("talk.py", HANDLERS.replace("log = logging.getLogger", setup))

    ended = finish(spawn("run", "talk.yaml"))

    lines = [line for line in ended.err.splitlines() if "library warning" in line]
    assert len(lines) == 1
    assert lines[0].startswith("mine talk library warning")


@pytest.mark.parametrize("setup", ["", "logging.basicConfig(level='INFO', format='%(message)s')"])
def test_on_a_terminal_log_lines_stand_above_the_picture(talking: Any, setup: str) -> None:
    """Each line is whole and begins where a line begins, and the picture is there once."""
    talking.write("talk.yaml", TALK.replace("handler: talk", "handler: talk_on"))
    talking.write("talk.py", HANDLERS.replace("log = logging", f"{setup}\nlog = logging", 1))
    mine, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "minuet", "run", "talk.yaml"],
        stdout=theirs,
        stderr=theirs,
        cwd=talking.path,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "40"},
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
    screen = render(seen.decode())
    ours = r"\d\d:\d\d:\d\d\.\d{3}  (?:INFO   |WARNING)  run [\w-]+  talk  (?:shop.cards: )?"
    line = re.compile(f"(?:{'' if setup else ours})(line .*)")
    said = [found[1] for text in screen if (found := line.fullmatch(text.rstrip()))]
    assert sorted(said) == sorted(
        text for n in range(100) for text in (f"line {n}", f"line {n} of a thread")
    )
    assert sum(text.startswith("talk ") for text in screen) == 1
    assert sum(text.startswith("chat ") for text in screen) == 1


def render(text: str) -> list[str]:
    """What a terminal would show: enough of one for what the picture uses."""
    lines, row, column = [""], 0, 0
    for part in re.finditer(r"\x1b\[([?\d;]*)([A-Za-z])|(.|\n)", text):
        numbers, command, character = part.groups()
        if command == "A":
            row = max(0, row - int(numbers or 1))
        elif command == "K":
            lines[row] = "" if numbers == "2" else lines[row][:column]
        elif character == "\r":
            column = 0
        elif character == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif character is not None:
            line = lines[row].ljust(column)
            lines[row] = line[:column] + character + line[column + 1 :]
            column += 1
        else:
            assert command in "mhl", f"unknown: {part.group()!r}"
    return lines


@pytest.mark.shows("T-14")
def test_the_log_can_be_json_lines(
    talking: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINUET_LOG", "json")

    ran = minuet("run", "talk.yaml", "--json")

    lines = [json.loads(line) for line in ran.err.splitlines() if line.startswith("{")]
    by_message = {line["message"]: line for line in lines}
    said = by_message["handler info"]
    assert said["run_id"] == ran.json["run_id"]
    assert (said["node_id"], said["attempt"], said["level"]) == ("talk", 1, "info")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said["at"])
    assert by_message["library warning \x1b[2J"]["logger"] == "shop.cards"
