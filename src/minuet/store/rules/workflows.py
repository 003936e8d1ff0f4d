"""Deployed workflows: which version a call adds, and which one its tags name.

Versions are numbered without gaps; tags move. Of a version only the text may be replaced, by
another text of the same document. A version is loaded by its number, so a store loads the `Named`
row of a workflow first, then the versions that `compared` lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from minuet.store.records import Deployed, Record, WorkflowVersion


class Named(Record, frozen=True):
    """What changes of a workflow: the number of its newest version, and its tags."""

    newest: int = 0
    tags: dict[str, int] = msgspec.field(default_factory=dict)


class Deployment(Record, frozen=True):
    """What to write, and the answer."""

    deployed: Deployed
    named: Named


def compared(named: Named, new: WorkflowVersion, tags: Sequence[str]) -> list[int]:
    """The numbers of the versions that a new one may be the same as, in this order."""
    if new.version:
        return [new.version]
    tagged = [named.tags[tag] for tag in tags if tag in named.tags]
    return [number for number in dict.fromkeys([*tagged, named.newest]) if number]


def deploy(
    named: Named,
    versions: Mapping[int, WorkflowVersion],
    new: WorkflowVersion,
    tags: Sequence[str],
    now_ms: int,
) -> Deployment | None:
    """Deploy a version beside those that `compared` listed; None: it cannot have its number."""
    same = next(
        (
            versions[number]
            for number in compared(named, new, tags)
            if number in versions and is_same(versions[number], new)
        ),
        None,
    )
    if same is None:
        if new.version not in (0, named.newest + 1):
            return None
        if not new.version:
            new = msgspec.structs.replace(new, version=named.newest + 1, created_ms=now_ms)
    kept = same or new
    source_changed = same is not None and new.source not in ("", same.source)
    if source_changed:
        kept = msgspec.structs.replace(kept, source=new.source)
    moved = {**named.tags, **dict.fromkeys(tags, kept.version)}
    return Deployment(
        Deployed(kept, is_new=same is None, source_changed=source_changed),
        Named(max(named.newest, kept.version), moved),
    )


def is_same(one: WorkflowVersion, other: WorkflowVersion) -> bool:
    """Whether two versions of a workflow have the same content."""
    return (one.plan, one.document) == (other.plan, other.document)


def number_of(named: Named, at: int | str | None) -> int | None:
    """The number of the version that a caller names; None: there is none."""
    if at is None:
        return named.newest or None
    number = named.tags.get(at) if isinstance(at, str) else at
    return number if number is not None and 1 <= number <= named.newest else None
