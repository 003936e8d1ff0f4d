"""Changes that a world makes to its own Python process, and reverts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from minuet.kernel import settle
from minuet.simulation.checker import BrokenRule


@contextmanager
def small_parts(sends_max: int) -> Iterator[None]:
    """Send fan-outs in small parts, so that even these worlds have several."""
    before = settle.SENDS_PER_EXCHANGE_MAX
    settle.SENDS_PER_EXCHANGE_MAX = sends_max
    try:
        yield
    finally:
        settle.SENDS_PER_EXCHANGE_MAX = before


class _Errors(logging.Handler):
    """A worker that logs an error has hit a bug in Minuet."""

    def __init__(self, fail: Callable[[BrokenRule], None]) -> None:
        super().__init__(logging.ERROR)
        self._fail = fail

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._fail(BrokenRule("logged", f"{record.getMessage()}: {error!r}"))


@contextmanager
def errors_logged(fail: Callable[[BrokenRule], None], name: str = "minuet") -> Iterator[None]:
    """Fail if something below this logger logs an error."""
    logger = logging.getLogger(name)
    handler = _Errors(fail)
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
