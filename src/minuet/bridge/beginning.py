"""The history of a run that has just begun, made of its row.

A store has nothing to say of such a run that its row does not say: its first two events follow from
what it was created with. So the answer to a start needs no read.
"""

from __future__ import annotations

import msgspec

from minuet.events import RunStarted
from minuet.kernel.fold import NumberedEvent
from minuet.kernel.program import Program
from minuet.kernel.scope import encode
from minuet.store.records import Run
from minuet.store.rules.shared import run_created


def first_events(run: Run, program: Program) -> list[NumberedEvent] | None:
    """The events of a run that has been created and started; None: it is not, or it has others."""
    if (run.seq, run.status) != (2, "RUNNING") or run.started_ms is None:
        return None
    created = run_created(run, msgspec.Raw(run.input))
    sent = [(one.node, encode(one.scope), 1, one.need, one.total) for one in program.entries()]
    started = RunStarted(sent, run.counter, run.deadline_ms)
    return [(1, run.created_ms, created), (2, run.started_ms, started)]
