"""Who holds what: the leases of workers, and why nobody serves a queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from minuet.bridge.pages import read_runs
from minuet.plan.placement import Offer, base_queue, read_placement, unmet
from minuet.plan.plan import author_of
from minuet.scopes import decode
from minuet.store.base import Store
from minuet.types import BEGUN, TYPE_QUEUE

if TYPE_CHECKING:
    from minuet.app.workers import WorkerView

#: Open runs that are looked at for leases, the newest.
LOOKED_AT_MAX = 1_000

#: Workers that are named when none of them serves a queue.
NAMED_MAX = 3


class LeaseView(msgspec.Struct, frozen=True):
    """A node instance that a worker holds."""

    run: str
    workflow: str
    node: str
    scope: tuple[int, ...]
    queue: str
    attempt: int
    #: The worker; None: it is not known any more.
    worker: str | None
    worker_name: str | None
    since_ms: int
    #: When it is given to another worker unless it is renewed.
    until_ms: int | None


class Leases(msgspec.Struct, frozen=True):
    """What workers hold, in the newest open runs."""

    leases: tuple[LeaseView, ...]
    looked_at: int
    #: Whether these were all open runs.
    is_complete: bool


async def find_leases(
    store: Store, tenant: str, workers: Mapping[str, WorkerView], session: str | None, limit: int
) -> Leases:
    """What workers hold, by their sessions; with `session`, what this one holds."""
    found: list[LeaseView] = []
    looked_at = 0
    # Handlers of a paused run may finish.
    async for run in read_runs(store, tenant, BEGUN):
        if looked_at == LOOKED_AT_MAX or len(found) >= limit:
            return Leases(tuple(found[:limit]), looked_at, False)
        looked_at += 1
        for token in await store.read_tokens(tenant, run.run):
            if token.state != "leased" or session not in (None, token.session):
                continue
            worker = workers.get(token.session)
            found.append(
                LeaseView(
                    run.run,
                    run.workflow,
                    author_of(token.node),
                    decode(token.scope),
                    base_queue(token.queue),
                    token.attempt,
                    None if worker is None else worker.id,
                    None if worker is None else worker.name,
                    token.taken_ms,
                    token.due_ms,
                )
            )
    return Leases(tuple(found[:limit]), looked_at, len(found) <= limit)


def why_nobody(queue: str, workers: Sequence[WorkerView]) -> str:
    """Why no worker serves a queue, in words; "": one does."""
    if any(worker.takes and worker.serves(queue) for worker in workers):
        return ""
    if not workers:
        return "no worker is registered: start one with `minuet worker`"
    base, placement = base_queue(queue), read_placement(queue)
    having = [worker for worker in workers if base in worker.queues]
    live = [worker for worker in having if worker.takes]
    if not having:
        return f"no worker has {_thing(base)}"
    if not live:
        names = _names(having, lambda w: "is dead" if w.status == "dead" else "drains")
        return f"the workers that have {_thing(base)} are gone: {names}"
    if placement is None:
        return f"its workers take only from some runs: {_names(live, lambda w: '')}"
    return _names(live, lambda w: f"lacks {', '.join(unmet(placement, _offer(w)))}")


def _offer(worker: WorkerView) -> Offer:
    return Offer(worker.id, worker.name, frozenset(worker.executors), worker.capabilities)


def _thing(queue: str) -> str:
    """What a worker must have to serve a queue."""
    if queue.startswith(TYPE_QUEUE):
        return f"the node type {queue.removeprefix(TYPE_QUEUE)!r}"
    kind, _, handler = queue.partition(":")
    return f"the handler {handler!r}" if handler else f"the queue {kind!r}"


def _names(workers: Sequence[WorkerView], say: Callable[[WorkerView], str]) -> str:
    shown = "; ".join(f"{one.name} {say(one)}".strip() for one in workers[:NAMED_MAX])
    more = len(workers) - NAMED_MAX
    return shown if more <= 0 else f"{shown}; and {more} more"
