"""Whether the rows that a store holds of a run are sound: every invariant of the kernel, in words.

It checks one snapshot and calls no store. `app.doctor` checks all runs, their plans and blobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from minuet.bridge.snapshot import events_of, facts_of, state_of
from minuet.errors import DamagedRowError, InvariantError
from minuet.kernel.invariants import check_run
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, show
from minuet.store.lenient import damage_of, damaged_fields, is_unreadable
from minuet.store.records import Run, Snapshot


class Finding(msgspec.Struct, frozen=True):
    """A problem in what a store holds."""

    #: "": it is about a deployed workflow.
    run_id: str
    #: Which invariant (`I2`), or what kind of problem (`plan`).
    id: str
    message: str
    #: A version of a deployed workflow: `order@3`.
    workflow: str = ""

    @property
    def about(self) -> str:
        """What it is about, in words."""
        return f"run {self.run_id}" if self.run_id else f"workflow {self.workflow}"

    def to_json(self) -> dict[str, Any]:
        found = {"run_id": self.run_id or None, "id": self.id, "message": self.message}
        return {**found, "workflow": self.workflow} if self.workflow else found


def check_snapshot(snapshot: Snapshot, program: Program | None, now_ms: int) -> list[Finding]:
    """All invariants on everything a store holds of one run."""
    run_id = snapshot.run.run
    damaged = [Finding(run_id, "row", text) for text in _damaged_rows(snapshot)]
    try:
        violations = check_run(
            program, events_of(snapshot), state_of(snapshot), facts_of(snapshot, now_ms)
        )
    except DamagedRowError as error:
        message = f"the history cannot be read: {error.what}: {error.reason}"
        return [*damaged, Finding(run_id, "I6", message)]
    except InvariantError as error:
        return [*damaged, Finding(run_id, "I6", f"the history cannot be read: {error}")]
    findings = damaged + [Finding(run_id, v.id, v.message) for v in violations]
    return findings + [Finding(run_id, *found) for found in _tokens_are_offered(snapshot)]


def check_row(run: Run) -> list[Finding]:
    """What is wrong with a run of which nothing but its row can be read."""
    damaged = damaged_fields(run)
    return [Finding(run.run, "row", _unreadable("the row of the run"))] if damaged else []


def _damaged_rows(snapshot: Snapshot) -> Iterator[str]:
    """The placeholders of fields that could not be read."""
    for name in damaged_fields(snapshot.run):
        yield _unreadable(f"the field {name!r} of the run")
    for token in snapshot.tokens:
        field = damage_of(token.reads)
        if field:
            place = token.node + show(decode(token.scope))
            yield _unreadable(f"the field {field!r} of the token of node {place}")
    for letter in snapshot.dead_letters:
        if is_unreadable(letter.error):
            yield _unreadable(f"the field 'error' of the dead letter of node {letter.node}")


def _unreadable(what: str) -> str:
    return f"{what} cannot be read from the store"


def _tokens_are_offered(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """What a token's row must say beyond the state that follows from the events."""
    run = snapshot.run
    for token in snapshot.tokens:
        place = (token.node, token.scope)
        if token.tenant != run.tenant:
            yield "I24", f"{place} belongs to tenant {token.tenant!r}, its run to {run.tenant!r}"
        if token.state == "ready" and (token.lane == "pause") != (run.status == "PAUSED"):
            held = "is held back" if token.lane == "pause" else "is handed out"
            if token.lane != "slot":
                yield "I33", f"{place} {held} in a run that is {run.status}"
