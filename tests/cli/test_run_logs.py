"""`minuet runs logs`, and what commands keep of what handlers print."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

TALK = "name: chat\nnodes:\n  - {id: talk, handler: run_logs_talk, foreach: {items: [1, 2]}}\n"
HANDLERS = """
import logging
import sys

import minuet

log = logging.getLogger("shop.cards")


@minuet.task
def run_logs_talk(ctx: minuet.Context) -> None:
    print("printed")
    print("to stderr", file=sys.stderr)
    ctx.log.info("logged")
    log.warning("by a library")
"""
LINES = [
    ("stdout", "printed"),
    ("stderr", "to stderr"),
    ("info", "logged"),
    ("warning", "shop.cards: by a library"),
]


@pytest.fixture
def talking(folder: Any) -> Iterator[Any]:
    folder.write("chat.yaml", TALK)
    folder.write("chatting.py", HANDLERS)
    yield folder
    sys.modules.pop("chatting", None)


def test_everything_that_a_handler_says_is_kept_once(talking: Any, minuet: Any) -> None:
    ran = minuet("run", "chat.yaml", "--handlers", "chatting.py", "--json")
    run = ran.json["run_id"]
    lines = minuet("runs", "logs", run, "talk[1]", "--json").json
    followed = minuet("runs", "logs", run, "-f")
    shown = minuet("runs", "logs", run, "talk[0]").out.splitlines()
    unknown = minuet("runs", "logs", run, "tolk")

    assert [(line["level"], line["text"]) for line in lines] == LINES
    assert {(line["node"], *line["scope"], line["attempt"]) for line in lines} == {("talk", 1, 1)}
    assert followed.code == 0
    assert len(followed.out.splitlines()) == 2 * len(LINES)
    assert [line.partition("  ")[2] for line in shown] == [
        "talk[0]  printed",
        "talk[0]  STDERR  to stderr",
        "talk[0]  logged",
        "talk[0]  WARNING  shop.cards: by a library",
    ]
    assert unknown.code != 0
    assert "did you mean 'talk'?" in unknown.err
    assert ran.err.count("to stderr") == 2


def test_a_run_that_said_nothing_says_so(folder: Any, minuet: Any) -> None:
    folder.write("quiet.yaml", "name: quiet\nnodes:\n  - {id: n, type: noop}\n")
    run = minuet("run", "quiet.yaml", "--json").json["run_id"]

    assert minuet("runs", "logs", run).out == (
        "Nothing was printed or logged by the nodes of this run.\n"
    )
    assert minuet("runs", "logs", run, "--json").json == []
