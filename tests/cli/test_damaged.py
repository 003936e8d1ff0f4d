"""Commands on a file with rows that cannot be read: they say what is damaged, and show the rest."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

WORK = """
name: work
nodes:
  - {id: first, type: transform, config: {value: 7}}
  - {id: second, type: transform, config: {value: "{{ first.output }}"}, dependencies: [first]}
"""


def damage(folder: Any, statement: str) -> None:
    with sqlite3.connect(folder.store) as db:
        assert db.execute(statement).rowcount == 1
    db.close()


@pytest.fixture
def run_id(folder: Any, minuet: Any) -> str:
    folder.write("work.yaml", WORK)
    assert minuet("run", "work.yaml").code == 0
    (row,) = json.loads(minuet("runs", "list", "--json").out)
    return str(row["run_id"])


def break_event(folder: Any) -> None:
    damage(
        folder,
        """UPDATE events SET data = CAST('{"type":"run.started","to":5}' AS BLOB) WHERE seq = 2""",
    )


def test_events_show_one_that_cannot_be_read_as_it_is_stored(
    folder: Any, minuet: Any, run_id: str
) -> None:
    break_event(folder)

    shown = minuet("runs", "events", run_id)
    as_json = json.loads(minuet("runs", "events", run_id, "--json").out)

    assert shown.code == 0
    (line,) = [line for line in shown.out.splitlines() if "unreadable" in line]
    assert '{"type":"run.started","to":5}' in line
    assert "run.completed" in shown.out
    assert (as_json[1]["type"], as_json[1]["data"]["raw"]) == (
        "unreadable",
        '{"type":"run.started","to":5}',
    )


@pytest.mark.parametrize("words", [("show",), ("replay",), ("why", "second")])
def test_what_needs_the_whole_history_says_which_event_cannot_be_read(
    folder: Any, minuet: Any, run_id: str, words: tuple[str, ...]
) -> None:
    break_event(folder)

    told = minuet("runs", words[0], run_id, *words[1:])

    assert told.code not in (0, None)
    assert f"run {run_id}: event 2 cannot be read from the store" in told.err
    assert "`minuet doctor`" in told.err
    assert "Traceback" not in told.err


@pytest.mark.parametrize("column", ["tags", "error"])
def test_a_list_shows_a_run_with_a_column_that_cannot_be_read_and_doctor_names_it(
    folder: Any, minuet: Any, run_id: str, column: str
) -> None:
    damage(folder, f"UPDATE runs SET {column} = '[1'")
    assert minuet("run", "work.yaml").code == 0

    listed = minuet("runs", "list")
    checked = minuet("doctor")

    assert listed.code == 0
    assert run_id in listed.out
    assert len(json.loads(minuet("runs", "list", "--json").out)) == 2
    assert f"run {run_id}: [row] the field '{column}' of the run cannot be read" in checked.out
    assert checked.code != 0
