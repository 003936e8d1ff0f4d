"""The columns of this store's rows, by the names that their lists have in statements and functions
(`sql_files.fill`)."""

from __future__ import annotations

from minuet.store import fields
from minuet.store.fields import Dialect, names
from minuet.store.records import (
    INPUT_BYTES_MAX,
    REPLY_BYTES_MAX,
    Arrival,
    DeadLetter,
    EventRecord,
    Join,
    Run,
    Signal,
    Token,
    WorkflowVersion,
)

#: As this store keeps values: text in PostgreSQL cannot hold U+0000.
DIALECT = Dialect(has_bytes_for_free_text=True)

#: The key of a token, an arrival or a join.
KEY = ("run", "node", "scope")

#: The event with the output of a token's source, so that a take finds it at once; 0 if it is not
#: known to be small. It is not a field of the record.
_SOURCE_EVENT = "source_event"

#: The largest event that tokens name as the one with their source's output. What is larger is found
#: by the source, and counted.
SMALL_BYTES_MAX = 16 * 1024

#: What every token has at its default when it begins.
_BEGINS_WITH = (
    *("state", "outcome", "attempt", "expiry", "delivery", "lease", "session", "taken_ms"),
    *("cursor", "wait", "wait_key", "resolution", "event", "slot", "slot_limit", "lost"),
    *("wait_event", "given", "edited"),
)

#: What a process knows of a token that it has just taken: it has said so itself, or a token that
#: can be taken has its default there. Lost leases matter only to the workers that lost them.
_KNOWN_OF_TAKEN = (
    *("tenant", "state", "outcome", "due_ms", "lease", "session", "taken_ms"),
    *("wait", "wait_key", "wait_event", "lane", "lost"),
)

#: What comes with a token of its run is what the next exchange needs. The input comes apart.
_RUN_NOT_GRANTED = (
    *("run", "tenant", "idempotency_key", "started_ms", "ended_ms"),
    *("error", "dead_letters", "input", "version", "tag"),
    *("parent_node", "parent_scope", "depth", "unreported", "parent_number", "notable"),
    *("undo_on", "undos", "ends_as"),
)


def _stored_token() -> tuple[str, ...]:
    """The columns of `tokens` in the table's order: one of them came before the record's last."""
    all_names = names(Token)
    place = all_names.index("lost")
    return (*all_names[:place], _SOURCE_EVENT, *all_names[place:])


LISTS: dict[str, tuple[str, ...]] = {
    "run": names(Run),
    "numbered_run": ("id", *names(Run)),
    "run_fixed": tuple(name for name in fields.RUN_FIXED if name not in ("run", "tenant")),
    "run_change": fields.RUN_CHANGE,
    "run_change_but_input": tuple(name for name in fields.RUN_CHANGE if name != "input"),
    "granted_run": names(Run, without=_RUN_NOT_GRANTED),
    "stored_token": _stored_token(),
    "token_change": fields.TOKEN_CHANGE,
    "token_repair": fields.TOKEN_REPAIR,
    "token_new": (*names(Token, without=_BEGINS_WITH), _SOURCE_EVENT),
    "token_begun": (
        *names(Token, without=(*_BEGINS_WITH, "tenant", "due_ms", "lane")),
        _SOURCE_EVENT,
    ),
    "granted_token": names(Token, without=_KNOWN_OF_TAKEN),
    "join": names(Join),
    "join_change": fields.JOIN_CHANGE,
    "arrival": names(Arrival),
    "event": names(EventRecord, without=("run",)),
    "numbered_event": ("run_id", *names(EventRecord, without=("run",))),
    "dead_letter": names(DeadLetter),
    "workflow_version": names(WorkflowVersion),
    "signal": names(Signal),
}

#: Columns with types of this schema. In a record without a name, no driver knows how to read them.
_ENUMS = ("status", "state", "outcome", "lane")


def _plain(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The same columns, all of them with types that every database has."""
    return tuple(f"{name}::text" if name in _ENUMS else name for name in columns)


#: What only statements name: a set of functions does not change with these.
PLAIN_LISTS = {
    "plain_run": _plain(LISTS["numbered_run"]),
    "plain_token": _plain(LISTS["stored_token"]),
}

#: What else functions name: limits, a condition, and settings that keep plans which were made while
#: a table was empty from walking all of it later.
TEXTS: dict[str, tuple[str, ...]] = {
    "reply_bytes_max": (str(REPLY_BYTES_MAX),),
    "input_bytes_max": (str(INPUT_BYTES_MAX),),
    # How many outputs of at most `SMALL_BYTES_MAX` fit into an answer without being counted.
    "light_tokens_max": (str(REPLY_BYTES_MAX // SMALL_BYTES_MAX),),
    # Which tokens may be taken from a queue, and in what order: `take_rows` counts them before it
    # locks them.
    "free_tokens": (
        "t.state = 'ready' AND t.lane = '' AND t.tenant = p_tenant AND t.queue = q.queue"
        " AND t.due_ms <= p_now AND (p_runs IS NULL OR t.run = ANY (p_runs))"
        " ORDER BY t.due_ms, t.run, t.node, t.scope",
    ),
    "planning": (
        "SET jit = off SET enable_seqscan = off SET enable_hashjoin = off"
        " SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan",
    ),
}
