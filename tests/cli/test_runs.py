"""`minuet runs …`, `minuet resume` and `minuet doctor`, on runs that really ran."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest

from minuet.app.app import App
from minuet.cli.session import FOLLOWED_MAX

STEPS = """
name: steps
nodes:
  - {id: one, type: transform, config: {value: 1}}
  - {id: two, handler: double, config: {number: "{{ one.output }}"}, dependencies: [one]}
  - id: choose
    type: decision
    dependencies: [two]
    branch: {rules: [{when: output.two > 10, next_nodes: [big]}], default: [small]}
  - {id: big, type: noop}
  - {id: small, type: noop}
"""
WAIT = "name: waiting\nnodes:\n  - {id: long, type: wait, config: {seconds: 3600}}\n"
FIXED = (
    "name: fixed\nnodes:\n  - {id: first, type: noop}\n"
    "  - {id: second, handler: fixed, dependencies: [first]}\n"
)


@pytest.fixture
def steps(folder: Any, minuet: Any) -> str:
    """The id of a run that completed."""
    folder.write("steps.yaml", STEPS)
    called = minuet("run", "steps.yaml", "--handlers", "work_handlers", "--json")
    return str(called.json["run_id"])


@pytest.fixture
def waiting(folder: Any, minuet: Any) -> str:
    """The id of a run that is open."""
    folder.write("wait.yaml", WAIT)
    return str(minuet("run", "wait.yaml", "--timeout", "0.05", "--json").json["run_id"])


def test_list_shows_runs_by_status_the_newest_first(
    folder: Any, minuet: Any, steps: str, waiting: str
) -> None:
    listed = minuet("runs", "list", "--json").json

    assert [(row["run_id"], row["status"]) for row in listed] == [
        (waiting, "RUNNING"),
        (steps, "COMPLETED"),
    ]
    assert [row["run_id"] for row in minuet("runs", "list", "--limit", "1", "--json").json] == [
        waiting
    ]
    only = minuet("runs", "list", "--status", "COMPLETED")
    assert steps in only.out
    assert waiting not in only.out
    assert minuet("runs", "list", "--workflow", "steps", "--json").json[0]["run_id"] == steps
    assert minuet("runs", "list", "--status", "FAILED").out == "There are no such runs.\n"


def test_show_tells_of_every_node(minuet: Any, steps: str) -> None:
    text, record = minuet("runs", "show", steps).out, minuet("runs", "show", steps, "--json").json

    assert text.startswith("steps: COMPLETED in ")
    assert record["output"] == {"small": {}}
    assert {name: node["status"] for name, node in record["nodes"].items()} == {
        "one": "COMPLETED",
        "two": "COMPLETED",
        "choose": "COMPLETED",
        "big": "SKIPPED",
        "small": "COMPLETED",
    }
    assert record["nodes"]["two"]["output"] == 2
    assert record["nodes"]["two"]["ended_at"] >= record["nodes"]["two"]["started_at"]


@pytest.mark.parametrize("short", [slice(0, 8), slice(0, 35)])
def test_a_run_is_found_by_the_beginning_of_its_id(minuet: Any, steps: str, short: slice) -> None:
    assert minuet("runs", "show", steps[short], "--json").json["run_id"] == steps
    assert minuet("runs", "show", "latest", "--json").json["run_id"] == steps
    assert minuet("runs", "show", "last", "--json").json["run_id"] == steps


def test_a_run_that_is_not_there_or_not_the_only_one_is_told(
    folder: Any, minuet: Any, steps: str, waiting: str
) -> None:
    assert "there is no run 'abc'" in minuet("runs", "show", "abc").err
    assert "there is no run ''" in minuet("runs", "show", "").err
    both = minuet("runs", "show", steps[:4])
    assert both.code == 2
    assert f"the ids of several runs begin with {steps[:4]!r}" in both.err
    assert f"{waiting}, {steps}" in both.err


def test_events_are_one_line_each_and_can_begin_later(minuet: Any, steps: str) -> None:
    lines = minuet("runs", "events", steps).out.splitlines()
    later = minuet("runs", "events", steps, "--after", "3", "--json").json

    assert [line.split()[0] for line in lines] == ["seq", *(str(n) for n in range(1, len(lines)))]
    assert "run.created" in lines[1]
    assert lines[-1].split()[-1] == "run.completed"
    assert later[0]["seq"] == 4
    assert later[0]["type"] == "node.completed"
    assert later[0]["data"] == {**later[0]["data"], "node": "two", "output": 2}
    assert later[0]["cause"] == 3


@pytest.mark.shows("O-10", "Y-15", "Y-16")
def test_replay_shows_the_state_after_any_event(minuet: Any, steps: str) -> None:
    at = {
        seq: minuet("runs", "replay", steps, "--at", str(seq), "--json").json for seq in (2, 3, 4)
    }
    whole = minuet("runs", "replay", steps, "--json").json

    assert [at[seq]["nodes"]["one"]["status"] for seq in (2, 3, 4)] == [
        *("QUEUED", "COMPLETED", "COMPLETED"),
    ]
    assert [at[seq]["nodes"]["two"]["output"] for seq in (2, 3, 4)] == [None, None, 2]
    assert at[4]["status"] == "RUNNING"
    assert whole["status"] == "COMPLETED"
    assert whole["nodes"] == minuet("runs", "show", steps, "--json").json["nodes"]
    assert minuet("runs", "replay", steps, "--at", "3").out.startswith("After event 3 of ")
    assert "there is no event 99" in minuet("runs", "replay", steps, "--at", "99").err


def test_why_explains_a_node_and_suggests_one_for_a_wrong_name(minuet: Any, steps: str) -> None:
    assert "'big'" in minuet("runs", "why", steps, "big").out
    assert minuet("runs", "why", steps, "big", "--json").json["status"] == "SKIPPED"
    wrong = minuet("runs", "why", steps, "smal")
    assert wrong.code == 2
    assert "did you mean 'small'?" in wrong.err


LOOP = """
name: looped
nodes:
  - {id: fetch, type: transform, config: {value: "{{ iteration }}"}}
  - id: check
    type: transform
    dependencies: [fetch]
    config: {value: {n: "{{ fetch.output }}"}}
    loop: {while: "output.n < 2", max_iterations: 5, loop_back_to: fetch}
  - {id: a_name_that_is_much_longer_than_any_column_of_a_table_that_is_still_readable, type: noop,
     dependencies: [check]}
"""


@pytest.fixture
def looped(folder: Any, minuet: Any) -> str:
    """The id of a run with a loop of three iterations."""
    folder.write("loop.yaml", LOOP)
    return str(minuet("run", "loop.yaml", "--json").json["run_id"])


def test_show_has_every_instance_of_a_loop(minuet: Any, looped: str) -> None:
    record = minuet("runs", "show", looped, "--all", "--json").json
    rows = [line.split()[0] for line in minuet("runs", "show", looped, "--all").out.splitlines()]

    names = [f"{node}[{number}]" for node in ("fetch", "check") for number in range(3)]
    assert list(record["instances"])[:6] == rows[2:8] == names
    assert record["instances"]["check[1]"]["output"] == {"n": 1}
    assert record["nodes"]["check"]["instances"] == 3
    earlier = minuet("runs", "replay", looped, "--at", "5", "--all", "--json").json
    assert {name: one["status"] for name, one in earlier["instances"].items()} == {
        **dict.fromkeys(("fetch[0]", "fetch[1]", "check[0]"), "COMPLETED"),
        "check[1]": "QUEUED",
        LONG: "PENDING",
    }


LONG = "a_name_that_is_much_longer_than_any_column_of_a_table_that_is_still_readable"


def test_what_is_displayed_names_an_instance_everywhere(minuet: Any, looped: str) -> None:
    for shown in ("check[1]", "'check'[1]", "'check[1]'"):
        assert minuet("runs", "show", looped, shown, "--json").json["check[1]"]["output"] == {
            "n": 1
        }
        assert minuet("runs", "why", looped, shown, "--json").json["scope"] == [1]
    assert list(minuet("runs", "show", looped, "check", "--json").json) == [
        "check[0]",
        "check[1]",
        "check[2]",
    ]
    one = minuet("runs", "show", looped, "check[2]").out
    assert one.endswith('output:\n{\n  "n": 2\n}\n')
    for verb in ("show", "why"):
        missing = minuet("runs", verb, looped, "check[7]")
        assert missing.code == 2
        assert "has no instance [7]; it has check[0], check[1], check[2]" in missing.err
        assert "did you mean 'check'?" in minuet("runs", verb, looped, "chck[0]").err


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 200])
def test_tables_fit_the_terminal(
    minuet: Any, looped: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = {
        words: minuet("runs", *words).out.partition("output:\n")[0].splitlines()
        for words in (("show", looped, LONG), ("show", looped, "--all"), ("events", looped))
    }
    listed = minuet("runs", "list").out.splitlines()

    assert all(looped in line for line in listed[1:2])
    for words, lines in shown.items():
        table = [line for line in lines if not line.startswith("looped:")]
        # What is never cut (ids, statuses, times) needs this much.
        assert max(map(len, table)) <= max(columns, 56), words
    if columns >= 80:
        assert max(map(len, listed)) <= columns
    whole = any(LONG in line for line in shown["show", looped, "--all"])
    assert whole == (columns == 200)


def test_pause_resume_and_cancel_change_a_run(minuet: Any, waiting: str) -> None:
    statuses = [
        minuet("runs", verb, waiting, "--json").json["status"]
        for verb in ("pause", "resume", "cancel")
    ]

    assert statuses == ["PAUSED", "RUNNING", "CANCELLED"]
    again = minuet("runs", "pause", waiting)
    assert again.code == 1
    assert waiting in again.err
    assert minuet("resume", waiting).code == 3


def test_the_beginning_of_an_id_is_enough_to_change_a_run(
    minuet: Any, steps: str, waiting: str
) -> None:
    both = minuet("runs", "cancel", waiting[:4])
    assert both.code == 2
    assert f"{waiting}, {steps}" in both.err
    assert minuet("runs", "show", waiting, "--json").json["status"] == "RUNNING"

    statuses = [
        minuet("runs", verb, waiting[:-1], "--json").json["status"]
        for verb in ("pause", "resume", "cancel", "retry")
    ]
    assert statuses == ["PAUSED", "RUNNING", "CANCELLED", "RUNNING"]
    assert minuet("runs", "cancel", "latest").code == 2
    assert minuet("resume", waiting[:-1], "--timeout", "0.05", "--json").json["run_id"] == waiting


def test_a_fixed_run_is_retried_without_what_was_done(folder: Any, minuet: Any) -> None:
    folder.write("fixed.yaml", FIXED)
    failed = minuet("run", "fixed.yaml", "--handlers", "work_handlers", "--json")
    run_id = failed.json["run_id"]
    folder.write("fixed", "")

    retried = minuet("runs", "retry", run_id)
    resumed = minuet("resume", "--handlers", "work_handlers", "--json")

    assert failed.code == 1
    assert f"minuet resume {run_id}" in retried.out
    assert resumed.code == 0
    assert resumed.json["output"] == {"second": "ok"}
    types = [event["type"] for event in minuet("runs", "events", run_id, "--json").json]
    assert types.count("node.completed") == 2


def test_resume_of_several_runs_is_a_list_and_the_worst_code_wins(folder: Any, minuet: Any) -> None:
    folder.write("fixed.yaml", FIXED)
    run_ids = [
        minuet("run", "fixed.yaml", "--handlers", "work_handlers", "--json").json["run_id"]
        for _ in range(2)
    ]
    for run_id in run_ids:
        minuet("runs", "retry", run_id)

    resumed = minuet("resume", "--handlers", "work_handlers", "--json")

    assert resumed.code == 1
    assert [record["run_id"] for record in resumed.json] == run_ids
    assert {record["status"] for record in resumed.json} == {"FAILED"}


async def start_many(count: int) -> None:
    async with App(worker=False) as app:
        await app.start_many({"name": "many", "nodes": [{"id": "a", "type": "noop"}]}, [{}] * count)


def test_resume_of_very_many_runs_tells_how_far_it_is(minuet: Any) -> None:
    asyncio.run(start_many(FOLLOWED_MAX + 10))

    resumed = minuet("resume", "--json")

    assert resumed.code == 0
    assert {record["status"] for record in resumed.json} == {"COMPLETED"}
    assert len(resumed.json) == FOLLOWED_MAX + 10
    assert "\n60 of 60: run " in resumed.err


def test_resume_has_nothing_to_do_without_open_runs(minuet: Any, steps: str) -> None:
    assert minuet("resume").out == "There are no open runs.\n"
    assert minuet("resume", "--json").json == []


def test_resume_leaves_paused_runs_alone_unless_they_are_named(minuet: Any, waiting: str) -> None:
    minuet("runs", "pause", waiting)

    unnamed = minuet("resume")
    named = minuet("resume", waiting, "--timeout", "0.05")

    assert unnamed.code == 0
    assert "is paused and stays so" in unnamed.err
    assert named.code == 3
    assert minuet("runs", "show", waiting, "--json").json["status"] == "RUNNING"


@pytest.mark.shows("R-06")
def test_doctor_compares_every_run_with_its_history(folder: Any, minuet: Any, waiting: str) -> None:
    sound = minuet("doctor")
    with sqlite3.connect(folder.store) as db:
        db.execute("UPDATE runs SET counter = counter + 1")
    db.close()

    called, record = minuet("doctor"), minuet("doctor", "--json").json

    assert (sound.code, sound.out) == (0, "Sound: every invariant holds on 1 run.\n")
    assert called.code == 1
    assert waiting in called.out
    assert "Not sound: " in called.out
    assert (record["sound"], record["runs"]) == (False, 1)
    assert any("counter" in finding["message"] for finding in record["findings"])


def test_run_and_show_say_where_in_the_users_code_a_node_failed(folder: Any, minuet: Any) -> None:
    folder.write("bad.yaml", "name: bad\nnodes: [{id: bad, handler: explode, retry: 1}]\n")

    ran = minuet("run", "bad.yaml", "--handlers", "work_handlers.py")
    shown = minuet("runs", "show", "latest")
    record = minuet("runs", "show", "latest", "--json").json

    (frame,) = record["nodes"]["bad"]["error"]["traceback"]
    place = f"  work_handlers.py:{frame['line']}, in explode\n    raise ValueError("
    assert place in ran.err
    assert place in shown.out
    assert record["error"]["traceback"] == [frame]
    # What a terminal would obey is not printed.
    assert "\x1b" not in shown.out + ran.err


def test_several_runs_are_changed_by_their_ids_or_a_filter(folder: Any, minuet: Any) -> None:
    folder.write("wait.yaml", WAIT)
    runs = [minuet("start", "wait.yaml", "--json").json["run_id"] for _ in range(3)]

    looked = minuet("runs", "cancel", "--filter", "workflow:waiting", "--dry-run")
    asked = minuet("runs", "cancel", "--filter", "workflow:waiting")
    paused = minuet("runs", "pause", *runs[:2], "--json")
    again = minuet("runs", "pause", *runs)
    done = minuet("runs", "cancel", "--filter", "status:open", "--reason", "twice", "--yes")
    both = minuet("runs", "cancel", runs[0], "--filter", "x")
    empty = minuet("runs", "cancel", "--filter", " ")
    deleted = minuet("runs", "delete", "--filter", "status:cancelled", "--yes")

    assert looked.out.count("would be cancelled") == 3
    assert (asked.code, "Cancel 3 runs of" in asked.err) == (2, True)
    assert (paused.json["changed"], paused.json["refused"]) == (2, 0)
    assert (again.code, again.out.count("is PAUSED and cannot be paused")) == (1, 2)
    assert (done.code, done.out.count("CANCELLED")) == (0, 3)
    assert both.code == empty.code == 2
    assert deleted.out.count("deleted") == 3
    assert minuet("runs", "list", "--json").json == []
