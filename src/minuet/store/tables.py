"""Tables in memory: dictionaries that also know their rows by some part of the key.

So reading the rows of one run does not scan those of others, and reading what is alive does not
scan what has ended.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from minuet.store.records import LIVE_STATES, Key, Run, Token
from minuet.types import TERMINAL, RunStatus

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Table(dict[K, V], Generic[K, V]):
    """Rows by key, and by parts of the key: `Table(run=lambda key: key[0])`."""

    def __init__(self, **parts: Callable[[K], Hashable]) -> None:
        super().__init__()
        self._parts = parts
        self._groups: dict[tuple[str, Hashable], dict[K, V]] = {}

    def of(self, part: str, value: Hashable) -> Mapping[K, V]:
        """The rows whose keys have this part."""
        return self._groups.get((part, value), {})

    def __setitem__(self, key: K, row: V) -> None:
        super().__setitem__(key, row)
        for part, value in self._parts.items():
            self._groups.setdefault((part, value(key)), {})[key] = row

    def __delitem__(self, key: K) -> None:
        super().__delitem__(key)
        for part, value in self._parts.items():
            group = self._groups[part, value(key)]
            del group[key]
            if not group:
                del self._groups[part, value(key)]

    def update(self, rows: Any = (), /, **_: Any) -> None:
        for key, row in dict(rows).items():
            self[key] = row

    def clear(self) -> None:
        super().clear()
        self._groups.clear()

    def remove(self, part: str, values: Iterable[Hashable]) -> None:
        """Remove the rows whose keys have one of these parts."""
        for value in values:
            for key in list(self.of(part, value)):
                del self[key]


class TokenTable(Table[Key, Token]):
    """Tokens, by run and by node, and those that are alive."""

    def __init__(self) -> None:
        super().__init__(run=lambda key: key[0], node=lambda key: key[:2])
        self.live: dict[Key, Token] = {}

    def __setitem__(self, key: Key, row: Token) -> None:
        super().__setitem__(key, row)
        if row.state in LIVE_STATES:
            self.live[key] = row
        else:
            self.live.pop(key, None)

    def __delitem__(self, key: Key) -> None:
        super().__delitem__(key)
        self.live.pop(key, None)

    def clear(self) -> None:
        super().clear()
        self.live.clear()


def newest_runs(
    rows: Iterable[Run],
    tenant: str,
    statuses: Collection[RunStatus],
    workflow: str | None,
    before: str | None,
    limit: int,
) -> list[Run]:
    """What `list_runs` lists of these runs."""
    found = [
        row
        for row in rows
        if row.tenant == tenant
        and (not statuses or row.status in statuses)
        and (workflow is None or row.workflow == workflow)
        and (before is None or row.run < before)
    ]
    found.sort(key=lambda row: row.run, reverse=True)
    return [copy.copy(row) for row in found[:limit]]


class RunTable(Table[str, Run]):
    """Runs, and those that are not over."""

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[str, Run] = {}
        self.unreported: set[str] = set()
        self.notable: set[str] = set()
        #: Who has an idempotency key, by tenant and key.
        self.owners: dict[tuple[str, str], str] = {}

    def __setitem__(self, key: str, row: Run) -> None:
        self._free_key(key)
        super().__setitem__(key, row)
        if row.status in TERMINAL:
            self.open.pop(key, None)
        else:
            self.open[key] = row
        if row.unreported:
            self.unreported.add(key)
        else:
            self.unreported.discard(key)
        if row.notable:
            self.notable.add(key)
        else:
            self.notable.discard(key)
        if row.idempotency_key is not None:
            self.owners[row.tenant, row.idempotency_key] = key

    def __delitem__(self, key: str) -> None:
        self._free_key(key)
        super().__delitem__(key)
        self.open.pop(key, None)
        self.unreported.discard(key)
        self.notable.discard(key)

    def _free_key(self, run: str) -> None:
        row = self.get(run)
        if row is not None and row.idempotency_key is not None:
            owned = (row.tenant, row.idempotency_key)
            if self.owners.get(owned) == run:
                del self.owners[owned]

    def clear(self) -> None:
        super().clear()
        self.open.clear()
        self.unreported.clear()
        self.notable.clear()
        self.owners.clear()
