"""The process around a command that runs handlers: signals, and what handlers print."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator


class StopSignals:
    """The first signal asks to stop, the second one stops."""

    def __init__(self) -> None:
        #: Set by the first signal.
        self.came = asyncio.Event()
        #: Which one it was.
        self.number: int | None = None

    @contextlib.contextmanager
    def heeded(self) -> Iterator[None]:
        """Heed SIGINT and SIGTERM."""
        loop = asyncio.get_running_loop()
        added = []
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self._stop, int(number))
                added.append(number)
        try:
            yield
        finally:
            for number in added:
                loop.remove_signal_handler(number)

    def _stop(self, number: int) -> None:
        if self.number is not None:
            if sys.stderr.isatty():
                sys.stderr.write("\x1b[?25h")  # the cursor, which a live picture hides
            sys.stderr.flush()
            os._exit(128 + number)
        self.number = number
        self.came.set()


@contextlib.contextmanager
def handlers_print_to_stderr(wanted: bool) -> Iterator[None]:
    """What handlers print must not stand between the JSON."""
    if not wanted:
        yield
        return
    with contextlib.redirect_stdout(sys.stderr):
        yield
