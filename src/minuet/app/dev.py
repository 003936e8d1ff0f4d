"""What only a development server has: a sample whose worker can be killed."""

from __future__ import annotations

from typing import Protocol

import msgspec


class SampleView(msgspec.Struct, frozen=True):
    """How the sample is."""

    workflow: str
    run_id: str
    worker: str
    #: Of the worker's process; None: it is just being started again.
    pid: int | None
    #: How often it was killed.
    kills: int


class SampleControl(Protocol):
    """Who holds the worker of the sample."""

    def view(self) -> SampleView: ...

    def kill(self) -> int: ...
