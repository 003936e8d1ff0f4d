"""What handlers print, and what any library logs while they run, is kept with their nodes.

For processes that are Minuet's own: a program that embeds it keeps its logging and its standard
streams as they are, and what it logs with `ctx.log` is kept anyway.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

from minuet.nodes.handler_log import HANDLER_LOG, current_context, keep_message

#: Loggers whose lines are kept where they are made.
KEPT_ELSEWHERE = (HANDLER_LOG, "minuet.function")


class KeepingHandler(logging.Handler):
    """Keeps the log records that are made while a handler runs."""

    def emit(self, record: logging.LogRecord) -> None:
        context = current_context()
        if context is not None and record.name not in KEPT_ELSEWHERE:
            message = f"{record.name}: {record.getMessage()}"
            keep_message(
                context, record.levelno, message, (), record.exc_info and record.exc_info[1]
            )


class _Passing(threading.local):
    """Whether this thread passes on what was kept already."""

    is_on = False


_passing = _Passing()


@contextlib.contextmanager
def not_kept() -> Iterator[None]:
    """What is written to the standard streams meanwhile is not kept."""
    before, _passing.is_on = _passing.is_on, True
    try:
        yield
    finally:
        _passing.is_on = before


class KeptStream:
    """A standard stream that also keeps what a handler writes to it, line by line."""

    def __init__(self, inner: Any, level: str) -> None:
        self.inner = inner
        self._level = level

    def write(self, text: str) -> int:
        context = None if _passing.is_on else current_context()
        if context is not None:
            context.keep_output(self._level, text)
        with not_kept():
            return int(self.inner.write(text) or 0)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextlib.contextmanager
def keeping_output() -> Iterator[None]:
    """Keep what handlers print. The innermost of several decides."""
    streams = sys.stdout, sys.stderr
    mine = KeptStream(sys.stdout, "stdout"), KeptStream(sys.stderr, "stderr")
    sys.stdout, sys.stderr = mine
    try:
        yield
    finally:
        if sys.stdout is mine[0]:
            sys.stdout = streams[0]
        if sys.stderr is mine[1]:
            sys.stderr = streams[1]
