"""A run that a program has started: its id, with the verbs of `app.runs` on it.

A handle *is* the id: text that compares, hashes, prints and encodes as the id does. So everything
that takes a run's id takes a handle, and a program that only keeps the id can ignore the rest. The
facade itself stores and sends the plain text (`RunHandle.id`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Generic

from minuet.app.results import RunResult, rebuild_output
from minuet.nodes.values import Decode
from minuet.types import OutputT

if TYPE_CHECKING:
    from minuet.app.options import Seconds
    from minuet.app.runs import Runs
    from minuet.kernel.explain.answer import Explanation
    from minuet.kernel.fold import NumberedEvent
    from minuet.store.records import Run
    from minuet.worker.raised import Raised


#: The reason of a cancellation, if the caller gives none.
CANCEL_REASON = "cancelled"


class RunHandle(str, Generic[OutputT]):
    """A run's id that can be waited for, asked and changed."""

    __slots__ = ("_decode", "_raised", "_row", "_runs")
    _runs: Runs
    #: Rebuilds the run's output.
    _decode: Decode
    #: Has what the run's handlers raise here, while the handle is held.
    _raised: Raised
    _row: Run | None

    def __new__(
        cls, run_id: str, runs: Runs, decode: Decode, raised: Raised, row: Run | None = None
    ) -> RunHandle[Any]:
        handle = super().__new__(cls, run_id)
        handle._runs = runs
        handle._decode = decode
        handle._raised = raised
        handle._row = row
        return handle

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # A copy, or what another process gets, is the id alone: the App stays here.
        return str, (self.id,)

    @property
    def id(self) -> str:
        """The run's id as plain text."""
        return str.__str__(self)

    @property
    def row(self) -> Run | None:
        """The run's row when it was started here; None: it was not."""
        return self._row

    async def get(self) -> Run:
        """The run's row: its status and times, without its nodes."""
        return await self._runs.get(self.id)

    async def show(self) -> RunResult[OutputT]:
        """How the run stands, node by node."""
        return rebuild_output(await self._runs.show(self.id), self._decode)

    async def wait(self, *, timeout: Seconds | None = None) -> RunResult[OutputT]:
        """Wait until the run is over, however it ends; RunTimeoutError if that takes too long."""
        return rebuild_output(await self._runs.wait(self.id, timeout=timeout), self._decode)

    async def result(self, *, timeout: Seconds | None = None) -> RunResult[OutputT]:
        """As `wait`; RunFailed unless the run completes."""
        return rebuild_output(await self._runs.result(self.id, timeout=timeout), self._decode)

    def follow(self, *, after: int = 0) -> AsyncIterator[NumberedEvent]:
        """The run's events as they happen, until it is over."""
        return self._runs.follow(self.id, after=after)

    async def events(self, *, after: int = 0) -> list[dict[str, Any]]:
        """The run's events so far, as data."""
        return await self._runs.events(self.id, after=after)

    async def explain(self, node: str) -> Explanation:
        """Why a node has not run, or is in its state."""
        return await self._runs.explain(self.id, node)

    async def cancel(self, *, reason: str = CANCEL_REASON) -> Run:
        """End the run as CANCELLED."""
        return await self._runs.cancel(self.id, reason=reason)

    async def pause(self) -> Run:
        """Start nothing more of the run; handlers that are running may finish."""
        return await self._runs.pause(self.id)

    async def resume(self) -> Run:
        """Continue the paused run."""
        return await self._runs.resume(self.id)

    async def retry(self) -> Run:
        """Run again what failed or was cut off."""
        return await self._runs.retry(self.id)

    async def rollback(self, *, to: str | None = None) -> Run:
        """Undo the run, which is over: all of it, or what completed after the node `to`."""
        return await self._runs.rollback(self.id, to=to)

    async def signal(
        self, name: str, data: Any = None, *, idempotency_key: str | None = None
    ) -> Run:
        """Send the run a signal."""
        return await self._runs.signal(self.id, name, data, idempotency_key=idempotency_key)
