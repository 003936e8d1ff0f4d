"""The exceptions that handlers raise, for programs in the same process that wait for their runs.

What is stored of an exception is data. A program that started the run here can also have the
exception, as the cause of `RunFailed`: a debugger and `except*` can do more with it than with text.

An exception keeps the frames of its handler alive, with everything in them. So it is kept only
for runs that the program watches, and for as long as it does.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Iterator
from typing import Any

#: Exceptions kept of one run: those that its last attempts raised. Which of them ended the run is
#: known once the run is over.
KEPT_MAX = 8

#: Exceptions kept while runs are being started, of all runs.
EARLY_MAX = 64


class Raised:
    """What was raised in a run, while somebody holds this."""

    __slots__ = ("__weakref__", "_kept")

    def __init__(self) -> None:
        self._kept: deque[tuple[dict[str, Any], BaseException]] = deque(maxlen=KEPT_MAX)

    def add(self, record: dict[str, Any], error: BaseException) -> None:
        """Note an exception, and what is stored of it."""
        self._kept.append((record, error))

    def find(self, stored: dict[str, Any] | None) -> BaseException | None:
        """The exception that the stored error of a run was made from, if it was raised here."""
        for record, error in list(self._kept)[::-1]:
            if stored and all(stored.get(name) == value for name, value in record.items()):
                return error
        return None


class RaisedHere:
    """What the handlers of one worker raised in runs that are watched."""

    def __init__(self) -> None:
        self._watched: weakref.WeakValueDictionary[str, Raised] = weakref.WeakValueDictionary()
        self._starting = 0
        self._early: deque[tuple[str, dict[str, Any], BaseException]] = deque(maxlen=EARLY_MAX)

    def note(self, run: str, record: dict[str, Any], error: BaseException) -> None:
        """Keep an exception if somebody watches its run, or may be about to."""
        watched = self._watched.get(run)
        if watched is not None:
            watched.add(record, error)
        elif self._starting:
            self._early.append((run, record, error))

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Keep what is raised while runs are being started: one may fail before its starter
        knows its id."""
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1
            if not self._starting:
                self._early.clear()

    def of(self, run: str) -> Raised:
        """Keep what a run raises, until nobody holds the answer."""
        found = self._watched.get(run)
        if found is None:
            found = self._watched[run] = Raised()
            for early, record, error in self._early:
                if early == run:
                    found.add(record, error)
        return found
