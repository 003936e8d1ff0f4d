"""The columns of this store's rows, by the names that their lists have in statements
(`sql_files.fill`)."""

from __future__ import annotations

from minuet.store import fields
from minuet.store.fields import Dialect, encoder, names
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

#: What every token has at its default as long as it has not ended and no worker has had it.
_BEGINS_WITH = (
    *("outcome", "attempt", "expiry", "cursor", "wait", "wait_key", "resolution", "event"),
    *("slot", "slot_limit", "lost", "wait_event", "given", "edited"),
)


def _begun_values() -> tuple[str, ...]:
    """The values of a token that begins: its defaults, as SQL, need not be bound."""
    first = Token("", "", "", tenant="", queue="")
    row = encoder(Token, names(Token), DIALECT)(first)
    # Python writes numbers and short text as SQL does.
    return (
        "?",
        *(
            "?" if name not in _BEGINS_WITH else "NULL" if value is None else repr(value)
            for name, value in zip(names(Token), row, strict=True)
        ),
    )


#: Runs and tokens have a number in the file, and events name their run by it.
LISTS = {
    "numbered_run": ("id", *names(Run)),
    "run_change": fields.RUN_CHANGE,
    "numbered_token": ("id", *names(Token)),
    "begun_token": ("id", *names(Token, without=_BEGINS_WITH)),
    "begun_values": _begun_values(),
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
