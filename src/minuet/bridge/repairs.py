"""What a repair changes in a run's rows, in words. The repair itself is `bridge.rebuild`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from minuet.store.records import Arrival, DeadLetter, Join, Key, Snapshot, Token


class Repaired(msgspec.Struct, frozen=True):
    """One change that a repair has made."""

    what: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.what}: {self.before} → {self.after}"


def compare(before: Snapshot, after: Snapshot) -> list[Repaired]:
    """What a repair changes, row by row and field by field."""
    found = list(_fields("run", before.run, after.run))
    for kind in ("tokens", "joins", "arrivals", "dead_letters", "signals"):
        ours = {_name(row): row for row in getattr(before, kind)}
        theirs = {_name(row): row for row in getattr(after, kind)}
        for key in sorted(ours.keys() | theirs.keys(), key=str):
            what = f"{kind[:-1].replace('_', ' ')} {' '.join(str(part) for part in key)}".rstrip()
            if key not in theirs:
                found.append(Repaired(what, _brief(ours[key]), "removed"))
            elif key not in ours:
                found.append(Repaired(what, "missing", _brief(theirs[key])))
            else:
                found += _fields(what, ours[key], theirs[key])
    steps = {step[:3]: step[3] for step in before.steps}
    for key in sorted(steps.keys() | {step[:3] for step in after.steps}):
        now = {step[:3]: step[3] for step in after.steps}.get(key)
        if steps.get(key) != now:
            found.append(Repaired(f"step {' '.join(key)}", _text(steps.get(key)), _text(now)))
    return found


def _name(row: Any) -> tuple[Any, ...]:
    if isinstance(row, Arrival):
        return (row.node, row.scope, row.source)
    if isinstance(row, DeadLetter):
        return (row.node, row.scope, row.generation)
    key: Key = row.key
    return key[1:]


def _fields(what: str, before: Any, after: Any) -> Iterator[Repaired]:
    for name in before.__struct_fields__:
        ours, theirs = getattr(before, name), getattr(after, name)
        if ours != theirs:
            yield Repaired(f"{what}: {name}", _text(ours), _text(theirs))


def _brief(row: Any) -> str:
    """A row in a few words."""
    if isinstance(row, Token):
        return " ".join(filter(None, (row.state, row.outcome)))
    if isinstance(row, Join):
        return f"{row.live} live and {row.skipped} skipped of {row.total}"
    return "there"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "none" if value is None else str(value) or "''"
