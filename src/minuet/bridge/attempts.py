"""What one node instance was through: its attempts, from the history and from its token now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.errors import RunConflictError
from minuet.events import NodeRetried
from minuet.kernel.explain.answer import find_node, no_instance
from minuet.kernel.fold import NumberedEvent
from minuet.kernel.program import Program
from minuet.kernel.scope import decode, show
from minuet.kernel.timeline import TaskEvent, task_events
from minuet.plan.plan import author_of, is_list
from minuet.store.records import Run, Token
from minuet.types import Json, Scope

#: `running`: now. `lost`: its worker was silent for a lease. `waiting`: it waits for something
#: outside, and goes on in the next attempt of the same number.
Outcome: TypeAlias = Literal[
    "completed", "failed", "running", "lost", "waiting", "cancelled", "queued"
]


class Attempt(msgspec.Struct, frozen=True):
    """One time that a worker had the instance, or that it waits for one."""

    outcome: Outcome
    #: When it was ready, when a worker took it, and when it was over.
    ready_ms: int | None
    started_ms: int | None
    ended_ms: int | None
    #: The session of the worker, and its name if the worker is known.
    session: str = ""
    worker: str | None = None
    error: dict[str, Any] | None = None
    #: Of one that runs: when its lease ends unless it is renewed.
    until_ms: int | None = None
    #: Number of the event that says so; None: there is none yet.
    seq: int | None = None


class InstanceDetails(msgspec.Struct, frozen=True):
    """A node instance: what it was given, and its attempts."""

    node: str
    scope: Scope
    #: The same for all its attempts.
    idempotency_key: str
    #: `config`, `inputs`, `input` and `item` as its handler sees them; None: they are not there.
    given: dict[str, Json] | None
    attempts: tuple[Attempt, ...]

    @property
    def name(self) -> str:
        """As people write it: `check[2]`."""
        return self.node + show(self.scope)


def find_instance(program: Program, run: Run, tokens: Iterable[Token], name: str) -> Token:
    """The instance of a node that is meant: the last one, if no instance is named. RunError when
    there is none."""
    wanted, scope = find_node(program, name)
    own = [
        token
        for token in tokens
        if author_of(token.node) == wanted.id and not is_list(token.node)
        if token.node in program.nodes and not program.nodes[token.node].undoes
    ]
    # Of a foreach, an item rather than what gathers them.
    inner = [token for token in own if token.node != wanted.id] or own
    found = [token for token in inner if scope in (None, decode(token.scope))]
    if found:
        return found[-1]
    if scope is not None:
        raise no_instance(wanted.id, scope, [])
    message = f"is {run.status}, and has not reached node {wanted.id!r}"
    raise RunConflictError(run.run, message, status=run.status, seq=run.seq)


def find_attempts(
    history: Iterable[NumberedEvent], token: Token, names: Mapping[str, str]
) -> tuple[Attempt, ...]:
    """The attempts of an instance; `names` are those of workers, by their sessions."""
    place = (author_of(token.node), decode(token.scope))
    history = list(history)
    own = [one for one in task_events(history) if (one.node, one.scope) == place]
    due = {seq: event.due_ms for seq, _, event in history if isinstance(event, NodeRetried)}
    return _attempts(own, token, names, due)


def _attempts(
    events: list[TaskEvent], token: Token, names: Mapping[str, str], due: Mapping[int, int]
) -> tuple[Attempt, ...]:
    """The attempts of an instance, from what happened to it and from its token now. `due`: by
    event, when the pause before a retry is over."""
    found: list[Attempt] = []
    ready_ms: int | None = None
    started: TaskEvent | None = None
    for one in events:
        if one.type == "created" or one.type == "assigned":
            continue
        if one.type == "pending":
            if started is not None:
                # It has waited for something, which came.
                found.append(_ended("waiting", ready_ms, started, None, names))
                started = None
            ready_ms = max(one.at_ms, due.get(one.seq, 0))
        elif one.type == "started":
            started = one
        else:
            outcome: Outcome = "lost" if one.type == "reassigned" else one.type
            found.append(_ended(outcome, ready_ms, started, one, names))
            ready_ms, started = one.at_ms if outcome == "lost" else None, None
    if started is not None:
        found.append(_ended("waiting", ready_ms, started, None, names))
    if token.state == "leased":
        name = names.get(token.session)
        taken = (token.taken_ms, None, token.session, name, None, token.due_ms)
        found.append(Attempt("running", ready_ms, *taken))
    elif token.state == "ready":
        found.append(Attempt("queued", ready_ms or token.due_ms, None, None))
    return tuple(found)


def _ended(
    outcome: Outcome,
    ready_ms: int | None,
    started: TaskEvent | None,
    ended: TaskEvent | None,
    names: Mapping[str, str],
) -> Attempt:
    session = "" if started is None else started.session
    if ended is not None:
        session = ended.session or session
    last = ended or started
    return Attempt(
        outcome,
        ready_ms,
        None if started is None else started.at_ms,
        None if ended is None else ended.at_ms,
        session,
        names.get(session),
        (ended.details or None) if ended is not None else None,
        None,
        None if last is None else last.seq,
    )
