"""A run that a program without an event loop has started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, cast

from minuet.app.finder import Run
from minuet.app.handle import RunHandle
from minuet.app.options import Seconds
from minuet.app.portal import Portal
from minuet.app.results import RunResult
from minuet.app.twins import Twin, blocking, iterating
from minuet.types import OutputT


class SyncRunHandle(str, Generic[OutputT]):
    """A run's id that can be waited for, asked and changed, without `await`."""

    __slots__ = ("_find", "_portal")
    _portal: Portal
    _find: Callable[[], RunHandle[OutputT]]

    def __new__(cls, handle: RunHandle[OutputT], portal: Portal) -> Self:
        twin = super().__new__(cls, handle.id)
        twin._portal = portal
        twin._find = lambda: handle
        return twin

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # As with the other handle.
        return str, (self.id,)

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        return Twin(self._portal, self._find)._call(name, *arguments, **named)

    @property
    def id(self) -> str:
        """The run's id as plain text."""
        return str.__str__(self)

    @property
    def row(self) -> Run | None:
        """The run's row when it was started here; None: it was not."""
        return self._find().row

    def show(self) -> RunResult[OutputT]:
        """How the run stands, node by node."""
        return cast(RunResult[OutputT], self._call("show"))

    def wait(self, *, timeout: Seconds | None = None) -> RunResult[OutputT]:
        """Wait until the run is over, however it ends; RunTimeoutError if that takes too long."""
        return cast(RunResult[OutputT], self._call("wait", timeout=timeout))

    def result(self, *, timeout: Seconds | None = None) -> RunResult[OutputT]:
        """As `wait`; RunFailed unless the run completes."""
        return cast(RunResult[OutputT], self._call("result", timeout=timeout))

    get = blocking(RunHandle.get)
    follow = iterating(RunHandle.follow)
    events = blocking(RunHandle.events)
    explain = blocking(RunHandle.explain)
    cancel = blocking(RunHandle.cancel)
    pause = blocking(RunHandle.pause)
    resume = blocking(RunHandle.resume)
    retry = blocking(RunHandle.retry)
    rollback = blocking(RunHandle.rollback)
    signal = blocking(RunHandle.signal)
