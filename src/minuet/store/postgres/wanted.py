"""What a call will touch, worked out ahead, so that one statement can lock and load it.

A transition asks for rows one by one and cannot wait for an answer. So everything it may ask for
is named before; if it asks for something else all the same (`MissingRows`), the transaction is
given up and made again with that added. Nothing has been written by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from minuet.store.blob import blobs_of
from minuet.store.changes import (
    Cancel,
    Change,
    NewPlan,
    Pause,
    Repair,
    Resume,
    RetryRun,
    SendSignal,
    Start,
)
from minuet.store.exchange import Delivery, Done, Exchange, Failed, NewStep, Slot, Waiting
from minuet.store.families import named_children
from minuet.store.identifiers import slot_key
from minuet.store.records import FLOW_WAIT, SIGNAL_WAIT, Key

#: Run, node and scope of a join, and who arrives there.
ArrivalKey: TypeAlias = tuple[str, str, str, str]

#: Tenant and name of a concurrency slot.
SlotKey: TypeAlias = tuple[str, str]


class MissingRows(Exception):
    """A transition asks for rows that were not loaded."""

    def __init__(self, kind: str, key: Any) -> None:
        self.kind, self.key = kind, key
        super().__init__(f"{kind} {key}")


class Wanted:
    """Names of rows, each once."""

    def __init__(self, tenant: str | None = None) -> None:
        #: Rows of other tenants are not loaded; None: all tenants' are.
        self.tenant = tenant
        self.runs: dict[str, None] = {}
        self.tokens: dict[Key, None] = {}
        self.arrivals: dict[ArrivalKey, None] = {}
        #: Runs of which all tokens are wanted that are not done.
        self.whole: dict[str, None] = {}
        self.slots: dict[SlotKey, None] = {}
        #: Run and reference.
        self.blobs: dict[tuple[str, str], None] = {}
        #: Runs whose kept signals are wanted; signals by run and id; run and name of a signal that
        #: tokens wait for, functions included; kept signals and events by run and number.
        self.kept: dict[str, None] = {}
        self.signals: dict[tuple[str, str], None] = {}
        self.waiting: dict[tuple[str, str], None] = {}
        self.received: dict[tuple[str, int], None] = {}
        self.events: dict[tuple[str, int], None] = {}

    def arguments(self) -> tuple[list[Any], ...]:
        """As `load_rows` takes them: a list for each column."""
        return (
            list(self.runs),
            *_columns(self.tokens, 3),
            *_columns(self.arrivals, 4),
            list(self.whole),
            [tenant for tenant, _ in self.slots],
            [slot.encode() for _, slot in self.slots],
        )

    # ── by name ─────────────────────────────────────────────────────────────────────────

    def want_token(self, key: Key) -> None:
        self.runs[key[0]] = None
        self.tokens[key] = None

    def want_whole(self, run: str) -> None:
        self.runs[run] = None
        self.whole[run] = None

    def add(self, missing: MissingRows) -> None:
        """Want what was missing as well."""
        key = missing.key
        match missing.kind:
            case "run":
                self.runs[key] = None
            case "token":
                self.want_token(key)
            case "arrival":
                self.arrivals[key] = None
            case "whole":
                self.want_whole(key)
            case "slot":
                self.slots[key] = None
            case "blob":
                self.blobs[key] = None
            case "signal":
                self.signals[key] = None
            case "kept":
                self.kept[key] = None
            case "event":
                self.events[key] = None

    # ── by what is asked for ────────────────────────────────────────────────────────────

    def want_exchange(self, request: Exchange) -> None:
        """What an exchange hands in and renews, and where its results go."""
        for item in request.hand_in:
            self.want_token((item.run, item.node, item.scope))
            if isinstance(item, Done):
                self.want_deliveries(item.run, item.node, item.deliveries)
                for ref in blobs_of(item.node, item.output):
                    self.blobs[item.run, ref] = None
            elif isinstance(item, Failed):
                self.whole[item.run] = None
            elif isinstance(item, Waiting):
                self.runs |= dict.fromkeys(named_children(item.kind, item.key))
                if item.kind in (SIGNAL_WAIT, FLOW_WAIT):
                    self.kept[item.run] = None
            elif isinstance(item, Slot):
                self.slots[request.tenant, slot_key(item)] = None
        for held in request.renew:
            self.want_token((held.run, held.node, held.scope))

    def want_deliveries(self, run: str, source: str, deliveries: Iterable[Delivery]) -> None:
        """The targets of deliveries: whether they have a token, and what has arrived."""
        for d in deliveries:
            self.tokens[run, d.node, d.scope] = None
            if d.total > 1:
                self.arrivals[run, d.node, d.scope, source] = None
            if d.withdraws:
                self.whole[run] = None

    def want_steps(self, steps: Sequence[NewStep]) -> None:
        """The tokens of steps, and the signals that they receive."""
        for new in steps:
            self.want_token((new.run, new.node, new.scope))
            if new.signal:
                self.received[new.run, new.signal] = None

    def want_change(self, run: str, change: Change) -> None:
        """What a change of a run reads."""
        self.runs[run] = None
        match change:
            case Start():
                self.want_deliveries(run, "", change.entries)
            case NewPlan():
                for source, scope, delivery in change.deliveries:
                    self.tokens[run, source, scope] = None
                    self.want_deliveries(run, source, (delivery,))
            case SendSignal():
                self.kept[run] = None
                self.signals[run, change.id] = None
                self.waiting[run, change.name] = None
            case Repair():
                self.want_token((run, change.node, change.scope))
                self.whole[run] = None
            case Cancel() | Pause() | Resume() | RetryRun():
                self.whole[run] = None
        if isinstance(change, RetryRun) and change.parent is not None:
            self.want_token((change.parent.run, change.parent.node, change.parent.scope))


def _columns(rows: Iterable[tuple[str, ...]], width: int) -> list[list[str]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]
