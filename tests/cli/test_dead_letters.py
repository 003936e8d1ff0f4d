"""`minuet dlq`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minuet.app.app import App
from minuet.app.redrives import Redrive, put_redrive

FIXED = "name: fixed\nnodes: [{id: work, handler: fixed}]\n"

FIELDS = [
    *("id", "run_id", "node_id", "scope", "workflow", "queue", "generation", "reason", "error"),
    *("fingerprint", "attempts", "at", "reprocessed_at", "status"),
]


def fail(folder: Any, minuet: Any) -> str:
    folder.write("fixed.yaml", FIXED)
    run_id: str = minuet("run", "fixed.yaml", "--handlers", "work_handlers", "--json").json[
        "run_id"
    ]
    return run_id


def test_dead_letters_are_listed_and_shown_with_all_their_fields(folder: Any, minuet: Any) -> None:
    run_id = fail(folder, minuet)

    (listed,) = minuet("dlq", "list", "--json").json
    shown = minuet("dlq", "show", f"{run_id[:-2]}.1", "--json").json
    text = minuet("dlq", "list").out
    details = minuet("dlq", "show", f"{run_id}.1")

    assert [name for name in FIELDS if name not in listed] == []
    assert (listed["id"], listed["status"]) == (f"{run_id}.1", "pending")
    assert (listed["node_id"], listed["scope"], listed["workflow"]) == ("work", [], "fixed")
    assert (listed["reason"], listed["queue"]) == ("non_retryable", "task:fixed")
    assert listed["error"]["message"] == "not fixed yet"
    assert {name: shown[name] for name in listed} == listed
    assert shown["input"] == {"config": {}, "inputs": {}, "input": {}}
    assert [event["type"] for event in shown["history"]][-1] == "failed"
    assert f"{run_id}.1" in text
    assert "ValueError: not fixed yet" in text
    assert "in fixed" in details.out
    assert f"minuet dlq retry {run_id}.1" in details.err


@pytest.mark.shows("R-01", "R-08")
@pytest.mark.parametrize("by", ["id", "reprocess", "fingerprint"])
def test_dead_letters_are_retried_by_id_by_node_or_by_cause(
    folder: Any, minuet: Any, by: str
) -> None:
    first, second = fail(folder, minuet), fail(folder, minuet)
    (group,) = minuet("dlq", "list", "--group", "--json").json
    folder.write("fixed", "")
    words = {
        "id": ("retry", f"{first}.1", f"{second}.1"),
        "reprocess": ("reprocess", "--run-id", first, "--node-id", "work"),
        "fingerprint": ("retry", "--fingerprint", group["fingerprint"], "--per-second", "500"),
    }[by]

    retried = minuet("dlq", *words)
    minuet("resume", "--handlers", "work_handlers")
    again = minuet("dlq", *words)
    listed = minuet("dlq", "list", "--status", "reprocessed", "--json").json

    expected = [first] if by == "reprocess" else [first, second]
    assert (group["count"], group["queues"]) == (2, {"task:fixed": 2})
    assert group["example"]["id"] == f"{second}.1"
    assert retried.code == 0
    assert f"{first}.1: retried" in retried.out
    assert f"{len(expected)} of {len(expected)} retried" in retried.out
    assert [letter["run_id"] for letter in listed] == expected
    assert all(letter["reprocessed_at"] for letter in listed)
    if by == "id":
        # They are not pending any more, and stay as they are.
        assert again.code == 1
        assert f"{first}.1: it is reprocessed" in again.out
    else:
        assert (again.code, again.out) == (0, "There are no such dead letters.\n")


def test_discarding_says_why_and_what_is_not_pending(folder: Any, minuet: Any) -> None:
    run_id = fail(folder, minuet)

    wrong = minuet("dlq", "discard", f"{run_id}.1", f"{run_id}.2")
    (discarded,) = minuet("dlq", "discard", f"{run_id}.1", "--why", "a test", "--json").json
    again = minuet("dlq", "discard", f"{run_id}.1")
    shown = minuet("dlq", "show", f"{run_id}.1").out

    # One of them does not exist, so none is touched.
    assert wrong.code == 2
    assert f"there is no dead letter '{run_id}.2'" in wrong.err
    assert (discarded["status"], discarded["why"]) == ("discarded", "a test")
    assert discarded["reprocessed_at"] is None
    assert discarded["discarded_at"]
    assert again.code == 1
    assert "discarded" in again.err
    assert ": a test" in shown
    assert minuet("dlq", "list").out == "There are no such dead letters.\n"
    assert len(minuet("dlq", "list", "--status", "all", "--json").json) == 1


def test_retry_without_a_selection_is_refused(folder: Any, minuet: Any) -> None:
    fail(folder, minuet)

    refused = minuet("dlq", "retry")
    wrong = minuet("dlq", "retry", "--fingerprint", "x", "--per-second", "0")

    assert refused.code == 2
    assert "--fingerprint" in refused.err
    assert wrong.code == 2


@pytest.mark.shows("J-17")
def test_dead_letters_are_counted_by_cause_and_by_queue(folder: Any, minuet: Any) -> None:
    folder.write("other.yaml", "name: other\nnodes: [{id: work, handler: explode}]\n")
    for _ in range(2):
        fail(folder, minuet)
    minuet("run", "other.yaml", "--handlers", "work_handlers")

    shown = minuet("dlq", "list", "--group")
    counted = minuet("dlq", "list", "--group", "--json").json

    assert [(one["count"], one["queues"]) for one in counted] == [
        (2, {"task:fixed": 2}),
        (1, {"task:explode": 1}),
    ]
    assert "3 in all: task:fixed 2, task:explode 1\n" in shown.out


def test_redrives_are_listed_and_stopped(folder: Any, minuet: Any) -> None:
    """Of a server that has ended and that no other one has followed."""

    async def prepare() -> None:
        async with App(f"sqlite:///{folder.store}", worker=False) as app:
            left = Redrive(
                id="first",
                what="task:charge",
                by="ada",
                per_second=0.5,
                total=3,
                started_ms=1,
                noted_ms=2,
                retried=1,
            )
            await put_redrive(app.store, app.tenant, left, ["a.1", "b.1", "c.1"])

    fail(folder, minuet)
    assert minuet("dlq", "redrives").out == "No server has retried dead letters at a pace.\n"
    asyncio.run(prepare())

    listed = minuet("dlq", "redrives")
    stopped = minuet("dlq", "stop", "first")
    again = minuet("dlq", "redrives", "--json").json
    unknown = minuet("dlq", "stop", "second")

    words = listed.out.splitlines()[1].split()
    assert words[:7] == ["first", "interrupted", "1", "of", "3", "0", "0.5/s"]
    assert words[-2:] == ["ada", "task:charge"]
    assert listed.err == "Stop one with: minuet dlq stop first\n"
    assert (stopped.code, stopped.out) == (0, "first: stopped, 1 of 3 passed\n")
    assert [(one["id"], one["state"], one["retried"]) for one in again] == [("first", "stopped", 1)]
    assert (unknown.code, unknown.out) == (2, "")
    assert "there is no redrive 'second': `minuet dlq redrives` lists them" in unknown.err
