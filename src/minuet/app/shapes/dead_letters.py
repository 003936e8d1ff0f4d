"""Dead letters: one with its history, those with one cause, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minuet.app.shapes.base import Shape, moment

if TYPE_CHECKING:
    from minuet.app.dead_letters import DeadLetterView, LetterDetails, LetterGroup, Retried
    from minuet.app.redrives import Redrive


def dead_letter(found: DeadLetterView) -> Shape:
    """A dead letter without its input, which only its run's history says."""
    return {
        "id": found.id,
        "run_id": found.run_id,
        "node_id": found.node_id,
        "scope": list(found.scope),
        "workflow": found.workflow,
        "queue": found.queue,
        "generation": found.generation,
        "reason": found.reason,
        "error": found.error,
        "fingerprint": found.fingerprint,
        "attempts": found.attempts,
        "at": moment(found.at_ms),
        "reprocessed_at": _settled(found, "reprocessed"),
        "discarded_at": _settled(found, "discarded"),
        "why": found.why or None,
        "status": found.status,
        "held": found.held,
    }


def _settled(found: DeadLetterView, status: str) -> str | None:
    return moment(found.settled_ms) if found.status == status else None


def letter_details(found: LetterDetails) -> Shape:
    """A dead letter with its input, and what happened to its node instance."""
    history = [
        {"seq": one.seq, "type": one.type, "at": moment(one.at_ms), "data": one.details}
        for one in found.history
    ]
    return {**dead_letter(found.letter), "input": found.input, "history": history}


def letter_group(found: LetterGroup) -> Shape:
    """Dead letters with the same cause."""
    return {
        "fingerprint": found.fingerprint,
        "count": found.count,
        "queues": dict(found.queues),
        "first_at": moment(found.first_ms),
        "last_at": moment(found.last_ms),
        "example": dead_letter(found.example),
    }


def retried_letter(found: Retried) -> Shape:
    """What became of a dead letter that was to be retried."""
    return {
        "id": found.id,
        "run_id": found.run_id,
        "retried": found.is_retried,
        "why": found.why or None,
    }


def redrive(found: Redrive) -> Shape:
    """Dead letters that a server retries one after the other."""
    return {
        "id": found.id,
        "what": found.what,
        "by": found.by or None,
        "per_second": found.per_second,
        "state": found.state,
        "total": found.total,
        "retried": found.retried,
        "refused": found.refused,
        "refusals": [{"id": one.id, "why": one.why} for one in found.refusals],
        "started_at": moment(found.started_ms),
        "noted_at": moment(found.noted_ms),
    }
