"""What a worker reports about its work.

Every method is called between two exchanges, so it returns at once. None of them may raise.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from minuet.store.exchange import Grant, Item, Reply, RunHeader, Swept

#: The header of a request, and the tag of a run, with its place in a trace (W3C Trace Context).
TRACEPARENT = "traceparent"

#: Called with the error of an attempt that failed.
Fail = Callable[[dict[str, Any]], None]


class Observer:
    """Learns what one worker does. This one ignores it; others override what they need."""

    def exchanged(self, took_s: float, reply: Reply) -> None:
        """The store has answered a call."""

    def store_failed(self) -> None:
        """The store was not available for a call."""

    def swept(self, swept: Swept) -> None:
        """A sweep has made ready what was due."""

    def begun(self, grant: Grant, header: RunHeader) -> None:
        """The worker has begun with a token."""

    def settled(self, grant: Grant, header: RunHeader, item: Item) -> None:
        """The store has applied an item."""

    def watched(self, tenant: str, stalled: int, divergence: int) -> None:
        """Some open runs of a tenant were looked at: how many of all are known to be stalled, and
        by how much the counter of one differs from its live tokens at most."""


class Observers(Observer):
    """Several observers as one."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._all = tuple(observers)

    def exchanged(self, took_s: float, reply: Reply) -> None:
        for one in self._all:
            one.exchanged(took_s, reply)

    def store_failed(self) -> None:
        for one in self._all:
            one.store_failed()

    def swept(self, swept: Swept) -> None:
        for one in self._all:
            one.swept(swept)

    def begun(self, grant: Grant, header: RunHeader) -> None:
        for one in self._all:
            one.begun(grant, header)

    def settled(self, grant: Grant, header: RunHeader, item: Item) -> None:
        for one in self._all:
            one.settled(grant, header, item)

    def watched(self, tenant: str, stalled: int, divergence: int) -> None:
        for one in self._all:
            one.watched(tenant, stalled, divergence)


class Tracer:
    """Gives nodes a place in a trace. This one does not trace."""

    #: Whether it traces.
    is_on = False

    def executing(
        self, grant: Grant, header: RunHeader, node_type: str
    ) -> AbstractContextManager[Fail]:
        """The block executes a node; what it yields is called if the attempt fails."""
        return contextlib.nullcontext(_ignore)

    def tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        """The tags of a run that is started here, with its place in a trace."""
        return tags

    def child_tags(self, tags: dict[str, Any]) -> dict[str, Any]:
        """The tags of a child run, with its place in a trace: the node that is executed here."""
        return tags

    def headers(self) -> dict[str, str]:
        """What outgoing requests carry."""
        return {}


def current_trace() -> dict[str, str]:
    """The ids of the trace and span in which this code runs, if there are any."""
    # Looked up, not imported: without it nobody has begun a span.
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return {}
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }


def _ignore(_error: dict[str, Any]) -> None:
    pass
