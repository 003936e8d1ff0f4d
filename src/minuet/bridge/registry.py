"""Deployed workflows by what people write: `order`, `order@canary`, `order@3`.

One function finds the version that such a text names, for all that start runs: an App, a command,
a worker whose node starts a child run. It is asked each time: tags move, and a name that was
deleted can be used again.
"""

from __future__ import annotations

import difflib

import msgspec

from minuet.errors import WorkflowNotFoundError
from minuet.store.base import Store
from minuet.store.gathering import Reading
from minuet.store.records import DeployedWorkflow, WorkflowVersion

#: The tag that a name without one means, and that a version gets by default.
MAIN = "main"

#: No version has a number with more digits.
DIGITS_MAX = 9

#: Names that are compared with an unknown one.
NAMES_MAX = 1_000


class Resolved(msgspec.Struct, frozen=True):
    """The version that a text names."""

    version: WorkflowVersion
    #: The tag that led to it; None: the text has the number.
    tag: str | None


def read_reference(text: str) -> tuple[str, int | str]:
    """A name, and the number or the tag behind it."""
    name, at, rest = text.partition("@")
    if not at:
        return name, MAIN
    is_number = rest.isascii() and rest.isdecimal() and len(rest) <= DIGITS_MAX
    return name, int(rest) if is_number else rest


class Registry:
    """Finds versions in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading = Reading(self._read)

    async def find(self, tenant: str, text: str) -> Resolved:
        """The version that a text names; WorkflowNotFoundError with what there is instead."""
        name, at = read_reference(text)
        tag = at if isinstance(at, str) else None
        found = await self._reading.read((tenant, name, at))
        if found is None:
            raise await self.refusal(tenant, text)
        return Resolved(found.version, tag)

    async def _read(self, asked: tuple[str, str, int | str]) -> DeployedWorkflow | None:
        return await self._store.read_workflow(*asked)

    async def refusal(self, tenant: str, text: str) -> WorkflowNotFoundError:
        """The error for a text that names no version, with what there is instead."""
        name, at = read_reference(text)
        newest = await self._store.read_workflow(tenant, name)
        if newest is not None:
            return WorkflowNotFoundError(name, at=at, newest=newest.newest, tags=newest.tags)
        listed = await self._store.list_workflows(tenant, limit=NAMES_MAX)
        names = [one.version.name for one in listed]
        return WorkflowNotFoundError(name, close=difflib.get_close_matches(name, names, n=3))
