"""The columns of this store's rows, by the names that their lists have in statements
(`sql_files.fill`)."""

from __future__ import annotations

from minuet.store import fields
from minuet.store.fields import Dialect, names
from minuet.store.records import (
    Arrival,
    DeadLetter,
    EventRecord,
    Join,
    Run,
    Signal,
    Token,
    WorkflowVersion,
)

#: As this store keeps values. `lost` came later than its table and cannot be NULL.
DIALECT = Dialect(has_numbers_for_flags=True, empty={"lost": ""})

#: Runs and tokens have a number in the file, and events name their run by it.
LISTS = {
    "numbered_run": ("id", *names(Run)),
    "run_change": fields.RUN_CHANGE,
    "numbered_token": ("id", *names(Token)),
    "token_change": fields.TOKEN_CHANGE,
    "token_repair": fields.TOKEN_REPAIR,
    "join": names(Join),
    "join_change": fields.JOIN_CHANGE,
    "arrival": names(Arrival),
    "event": names(EventRecord, without=("run",)),
    "numbered_event": ("run_id", *names(EventRecord, without=("run",))),
    "dead_letter": names(DeadLetter),
    "workflow_version": names(WorkflowVersion),
    "signal": names(Signal),
}
