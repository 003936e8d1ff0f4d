"""The log of runs: joins that wait, approvals that were created, runs that ended.

Each line comes from the process whose worker did it, so that a fleet writes each once. What the
lines need is read from the store after the exchange, at most once in a while: a join that fires at
once is never said to wait. Nothing is read unless the log "minuet.runs" has the level INFO.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any

import msgspec

from minuet.bridge.snapshot import read_event
from minuet.errors import StoreError
from minuet.plan.plan import author_of
from minuet.scopes import decode
from minuet.store.base import Store
from minuet.store.exchange import Done, Failed, Grant, Item, RunHeader, Waiting
from minuet.store.records import APPROVAL_WAIT, Run
from minuet.telemetry.observer import Observer
from minuet.types import TERMINAL

log = logging.getLogger("minuet.runs")

#: How often to look.
LOOK_S = 1.0

#: Runs that are remembered until the next look, and joins that were said to wait.
REMEMBERED_MAX = 1_000

#: Joins of runs with more events are not looked at: it would take too long.
EVENTS_MAX = 5_000


class RunLog(Observer):
    """Logs what becomes of the runs that one worker works on."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store, self._tenant = store, tenant
        #: By run: instances that may have ended it, and joins that something has reached.
        self._touched: OrderedDict[str, tuple[set[tuple[str, str]], set[tuple[str, str]]]]
        self._touched = OrderedDict()
        #: How many arrivals each waiting join had when it was logged.
        self._waiting: OrderedDict[tuple[str, str, str], int] = OrderedDict()
        self._looking: asyncio.Task[None] | None = None

    def settled(self, grant: Grant, header: RunHeader, item: Item) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        if isinstance(item, Waiting):
            if item.kind == APPROVAL_WAIT:
                _approval(grant, header, item)
            return
        if isinstance(item, Done):
            joins = {(one.node, one.scope) for one in item.deliveries if one.total > 1}
            may_end = not any(one.live for one in item.deliveries)
        else:
            joins, may_end = set(), isinstance(item, Failed) and not item.hold
        if joins or may_end:
            enders, reached = self._touched.setdefault(grant.run, (set(), set()))
            reached |= joins
            if may_end:
                enders.add((grant.node, grant.scope))
            if len(self._touched) > REMEMBERED_MAX:
                self._touched.popitem(last=False)
            if self._looking is None or self._looking.done():
                self._looking = asyncio.get_running_loop().create_task(self._look_later())

    async def _look_later(self) -> None:
        await asyncio.sleep(LOOK_S)
        await self.look()

    async def end(self) -> None:
        """Log what is left. No worker reports anything any more."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        await self.look()

    async def look(self) -> None:
        """Log what has become of the runs that were worked on."""
        touched, self._touched = self._touched, OrderedDict()
        for run, (enders, joins) in touched.items():
            try:
                await self._look_at(run, enders, joins)
            except StoreError as error:
                log.debug("run %s could not be looked at: %s", run, error)

    async def _look_at(
        self, name: str, enders: set[tuple[str, str]], joins: set[tuple[str, str]]
    ) -> None:
        run = await self._store.read_run(self._tenant, name)
        if run is None:
            return
        if run.status in TERMINAL:
            last = await self._store.read_events(self._tenant, name, max(run.seq - 2, 0), 2)
            before = read_event(last[0]) if len(last) == 2 else None
            if (getattr(before, "node", ""), getattr(before, "scope", "")) in enders:
                log_end(run)
            return
        if not joins or run.seq > EVENTS_MAX:
            return
        snapshot = await self._store.read_snapshot(self._tenant, name)
        for join in snapshot.joins if snapshot is not None else ():
            arrived = join.live + join.skipped
            if join.fired or (join.node, join.scope) not in joins:
                continue
            if self._waiting.get(join.key) == arrived:
                continue
            self._waiting[join.key] = arrived
            if len(self._waiting) > REMEMBERED_MAX:
                self._waiting.popitem(last=False)
            place = _place(join.node, join.scope)
            facts = {"received": arrived, "expected": join.total}
            _say("join waiting", name, run.workflow, place, facts)


def log_end(run: Run) -> None:
    """Log that a run has ended, if it has."""
    if run.status in TERMINAL:
        took_ms = (run.ended_ms or run.created_ms) - run.created_ms
        facts: dict[str, Any] = {"status": run.status, "took_ms": took_ms}
        if run.error is not None:
            facts["error"] = run.error
        _say("run ended", run.run, run.workflow, {}, facts)


def _approval(grant: Grant, header: RunHeader, item: Waiting) -> None:
    asked = msgspec.json.decode(item.data)
    if asked.get("decisions") or asked.get("round"):
        return  # It was there before.
    facts = {"title": asked["title"]} if asked.get("title") else {}
    place = _place(grant.node, grant.scope)
    _say("approval created", grant.run, header.workflow, place, facts)


def _place(node: str, scope: str) -> dict[str, Any]:
    return {"node_id": author_of(node), "scope": decode(scope)}


def _say(what: str, run: str, workflow: str, place: dict[str, Any], facts: dict[str, Any]) -> None:
    """A line for people, whose facts are fields of a line of JSON."""
    words = ", ".join(f"{name} {value}" for name, value in facts.items())
    log.info(
        f"{what} (%s){': ' if words else ''}%s",
        *(workflow, words),
        extra={
            "run_id": run,
            "node_id": None,
            "scope": None,
            "attempt": None,
            **place,
            "facts": {"event": what, "workflow": workflow, **facts},
        },
    )
