"""Approvals: how they are named, what a decision is, and when enough people have decided.

An approval is a token that waits. Its node asks, the facade answers, and the history says what came
of it: all three agree because they read this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from minuet.types import Json, Scope

#: The kind of wait of a token that is an approval.
APPROVAL_WAIT = "approval"

#: Who decides when the time is over.
SYSTEM = "system"

#: `timeout`: nobody has decided in time.
Verdict: TypeAlias = Literal["approve", "reject", "timeout"]

#: Why a node waits (again): it asks for the first time, a decision before the quorum was counted,
#: those who have not decided are reminded, or others are asked instead.
News: TypeAlias = Literal["created", "counted", "reminded", "reassigned"]

#: What is to be done when the time of a wait is over.
AtDue: TypeAlias = Literal["decide", "remind", "reassign"]

_ID = re.compile(r"(?P<run>[^:]+):(?P<node>[^:]+)(?::(?P<scope>\d+(?:\.\d+)*))?")


class Decision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one person has decided."""

    decision: Verdict
    by: str
    at_ms: int
    comments: str = ""
    data: Json = None


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision as it reaches the node that asked."""

    decision: Decision
    #: When it was first asked, and when the time is over: a node that goes on waiting, because
    #: others have to decide too, keeps both.
    asked_ms: int
    due_ms: int | None = None


def approval_id(run: str, node: str, scope: Scope) -> str:
    """The id of the approval of a node instance: `RUN:node`, or `RUN:node:2.0` inside loops."""
    where = f":{'.'.join(map(str, scope))}" if scope else ""
    return f"{run}:{node}{where}"


def read_id(text: str) -> tuple[str, str, Scope] | None:
    """Run, node and scope of an id; None: it is not an id."""
    found = _ID.fullmatch(text)
    if found is None:
        return None
    scope = tuple(int(number) for number in (found["scope"] or "").split(".") if number)
    return found["run"], found["node"], scope


def wait_key(id: str, decisions: int, round: int = 0) -> str:
    """The key of the wait for the next decision: another one after each decision, and when others
    are asked, so that nobody answers a question that has moved on."""
    if not round:
        return id if not decisions else f"{id}#{decisions + 1}"
    return f"{id}#{decisions + 1}.{round}"


def id_of(key: str) -> str:
    """The id of the approval whose wait has this key."""
    return key.partition("#")[0]


def approvers_in(question: Any) -> str:
    """Who may decide, in words; `question` is what the node waits with."""
    names = question.get("approvers") if isinstance(question, dict) else None
    return " or ".join(names) if names else "anybody"


def deadline_of(question: Any, due_ms: int | None) -> int | None:
    """When the time for a decision is over. A wait that ends earlier only reminds people."""
    found = question.get("timeout_ms", due_ms) if isinstance(question, dict) else due_ms
    return found if isinstance(found, int) else None


def find_verdict(decisions: Iterable[Decision], quorum: int) -> Decision | None:
    """The decision that ends the approval: the first rejection, or the approval that completes the
    quorum. Each person counts once. None: more people have to decide."""
    agreed: set[str] = set()
    for one in decisions:
        if one.decision != "approve":
            return one
        agreed.add(one.by)
        if len(agreed) >= quorum:
            return one
    return None
