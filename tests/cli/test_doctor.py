"""`minuet doctor` on files that somebody has damaged: what it says, and what it repairs."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from typing import Any

import pytest

from minuet.app.app import App
from minuet.clock import ManualClock
from minuet.events import NodeWaiting

#: Two ways that meet: one of them is done, the other waits when the file is damaged.
MEETING = """
name: meeting
nodes:
  - {id: start, type: transform, config: {value: 7}}
  - {id: left, type: noop, dependencies: [start]}
  - {id: right, type: wait, config: {seconds: 60}, dependencies: [start]}
  - {id: both, type: transform, config: {value: "{{ start.output }}"}, dependencies: [left, right]}
"""

#: Damage that the history says how to repair: what is done to the file, and a word about it.
MENDABLE = {
    "a counter that is too high": ("UPDATE runs SET counter = counter + 1", "counter"),
    "a number of events that is too low": ("UPDATE runs SET seq = seq - 1", "seq"),
    "a number of events that is too high": ("UPDATE runs SET seq = seq + 1", "seq"),
    "a wrong status": ("UPDATE runs SET status = 'PAUSED'", "status"),
    "a wrong input": ("UPDATE runs SET input = x'39'", "input"),
    "a token that is gone": ("DELETE FROM tokens WHERE node = 'right'", "token right: missing"),
    "all tokens gone": ("DELETE FROM tokens", "token left: missing"),
    "a token that was done and lives again": (
        "UPDATE tokens SET state = 'ready', outcome = '', due_ms = 0 WHERE node = 'left'",
        "token left: state: ready → done",
    ),
    "a token that waits no more": (
        "UPDATE tokens SET state = 'ready', wait = '' WHERE node = 'right'",
        "token right: state: ready → waiting",
    ),
    "a token that nothing has led to": (
        "UPDATE tokens SET node = 'both' WHERE node = 'right'",
        "token both: waiting → removed",
    ),
    "a token of another tenant": (
        "UPDATE tokens SET tenant = 'other' WHERE node = 'right'",
        "token right: missing",
    ),
    "a join that counts too much": ("UPDATE joins SET live = 2", "join both: live: 2 → 1"),
    "a join that has forgotten": ("DELETE FROM joins", "join both: missing"),
    "an arrival that is gone": ("DELETE FROM arrivals", "arrival both"),
    "everything but the history gone": (
        "DELETE FROM tokens; DELETE FROM joins; DELETE FROM arrivals; "
        "UPDATE runs SET counter = 5, generation = 3",
        "run: generation: 3 → 1",
    ),
}

#: Damage to the history itself.
HOPELESS = {
    "an event that is gone": "DELETE FROM events WHERE seq = 2",
    "the last event gone": "DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)",
    "no events at all": "DELETE FROM events",
    "an event that cannot be read": "UPDATE events SET data = x'7b7d' WHERE seq = 3",
    "an event that cannot have happened": (
        "UPDATE events SET data = (SELECT data FROM events WHERE seq = 2) WHERE seq = 4"
    ),
}


async def half_done(url: str) -> str:
    """Run until one of two ways has arrived and the other one waits, then stop."""
    async with App(url, clock=ManualClock()) as app:
        run_id = await app.start("meeting.yaml")
        seen: set[str] = set()
        async for _, _, event in app.follow(run_id):
            node = getattr(event, "node", "")
            seen.add(f"{node} waits" if isinstance(event, NodeWaiting) else node)
            if {"left", "right waits"} <= seen:
                break
    return run_id


@pytest.fixture
def run_id(folder: Any) -> str:
    folder.write("meeting.yaml", MEETING)
    return asyncio.run(half_done(f"sqlite:///{folder.store}"))


def damage(folder: Any, statements: str) -> None:
    with sqlite3.connect(folder.store) as db:
        db.executescript(f"PRAGMA ignore_check_constraints = ON; {statements}")
    db.close()


def content(folder: Any) -> list[str]:
    """Everything in the file, except for sessions: old ones are forgotten when it is opened."""
    with sqlite3.connect(folder.store) as db:
        found = [line for line in db.iterdump() if 'INTO "sessions"' not in line]
    db.close()
    return found


@pytest.mark.shows("R-06", "Y-20")
@pytest.mark.parametrize("what", MENDABLE)
def test_what_the_history_tells_is_found_named_repaired_and_goes_on(
    folder: Any, minuet: Any, run_id: str, what: str
) -> None:
    statements, word = MENDABLE[what]
    damage(folder, statements)
    damaged = content(folder)

    found = minuet("doctor")
    untouched = content(folder)
    fixed = minuet("doctor", "--repair")
    again = minuet("doctor")
    resumed = minuet("resume", "--json")

    assert found.code == 1
    assert run_id in found.out
    assert untouched == damaged
    assert fixed.code == 0
    assert f"repaired run {run_id}: " in fixed.out
    assert word in fixed.out
    assert "Sound now" in fixed.out
    assert again.code == 0
    assert resumed.code == 0
    assert (resumed.json["status"], resumed.json["output"]) == ("COMPLETED", {"both": 7})
    assert minuet("doctor").code == 0


@pytest.mark.parametrize("what", HOPELESS)
def test_a_damaged_history_is_said_to_be_beyond_repair_and_nothing_is_touched(
    folder: Any, minuet: Any, run_id: str, what: str
) -> None:
    damage(folder, f"{HOPELESS[what]}; UPDATE tokens SET due_ms = 9e15 WHERE node = 'right'")
    damaged = content(folder)

    found, refused = minuet("doctor"), minuet("doctor", "--repair")
    record = minuet("doctor", "--repair", "--json").json

    assert (found.code, refused.code) == (1, 1)
    assert f"run {run_id} cannot be repaired: " in refused.out
    assert "Sound now" not in refused.out
    assert record["sound"] is False
    assert record["repairs"][0]["changes"] == []
    assert "history" in record["repairs"][0]["refused"]
    assert content(folder) == damaged


@pytest.mark.shows("P-28")
def test_a_program_is_told_what_was_before_and_what_is_now(
    folder: Any, minuet: Any, run_id: str
) -> None:
    damage(folder, "UPDATE runs SET counter = 9")

    record = minuet("doctor", "--repair", "--json").json

    assert (record["sound"], record["runs"]) == (True, 1)
    assert {finding["id"] for finding in record["findings"]} == {"I2", "I6"}
    assert record["repairs"] == [
        {
            "run_id": run_id,
            "changes": [{"what": "run: counter", "before": "9", "after": "1"}],
            "refused": None,
            "left": [],
        }
    ]


def test_what_is_overdue_is_no_fault_and_a_repair_sees_to_it(
    folder: Any, minuet: Any, run_id: str
) -> None:
    # The timer was set by a clock that stood still long ago.
    looked = minuet("doctor")
    swept = minuet("doctor", "--repair", "--json").json
    after = minuet("doctor", "--json").json

    assert looked.code == 0
    assert "1 leases or timers are overdue" in looked.out
    assert (swept["sound"], swept["repairs"]) == (True, [])
    assert swept["swept"] == {"leases": 0, "timers": 1, "deadlines": 0}
    assert after["overdue"] == 0


def test_a_token_held_back_in_a_run_that_goes_on_is_found(
    folder: Any, minuet: Any, run_id: str
) -> None:
    minuet("doctor", "--repair")
    damage(folder, "UPDATE tokens SET lane = 'pause' WHERE node = 'right'")

    found, fixed = minuet("doctor"), minuet("doctor", "--repair")

    assert "is held back in a run that is RUNNING" in found.out
    assert "token right: lane: pause → ''" in fixed.out
    assert minuet("resume", "--json").json["status"] == "COMPLETED"


def test_a_dead_letter_that_is_gone_comes_back(folder: Any, minuet: Any) -> None:
    folder.write("broken.yaml", "name: broken\nnodes: [{id: a, handler: explode}]\n")
    minuet("run", "broken.yaml", "--handlers", "work_handlers")
    before = content(folder)
    damage(folder, "DELETE FROM dead_letters")

    found, fixed = minuet("doctor"), minuet("doctor", "--repair")

    assert "is not a dead letter" in found.out
    assert fixed.code == 0
    assert [line for line in content(folder) if "dead_letters" in line] == [
        line for line in before if "dead_letters" in line
    ]


@pytest.mark.parametrize(
    ("statement", "state"),
    [("DELETE FROM run_blobs", "missing"), ("UPDATE run_blobs SET data = x'39'", "damaged")],
)
def test_large_values_that_cannot_be_read_are_found_and_not_made_up(
    folder: Any, minuet: Any, statement: str, state: str
) -> None:
    folder.write(
        "large.yaml",
        "name: large\nnodes:\n  - {id: copy, type: transform, config: {value: '{{ input.text }}'}}",
    )
    folder.write("input.json", json.dumps({"text": "x" * 100_000}))
    run_id = minuet("run", "large.yaml", "--input", "@input.json", "--json").json["run_id"]
    assert minuet("doctor").code == 0
    damage(folder, statement)

    found, repaired = minuet("doctor"), minuet("doctor", "--repair")

    assert (found.code, repaired.code) == (1, 1)
    for what in ("its input", "the output in event 3"):
        assert f"{what} is {state}: cas://sha256:" in found.out
    assert run_id in found.out
    assert "Sound now" not in repaired.out
