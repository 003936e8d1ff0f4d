"""Deployed workflows of a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.store.fields import decoder, encoder, to_json
from minuet.store.records import Deployed, DeployedWorkflow, WorkflowVersion
from minuet.store.rules.workflows import Named, compared, deploy, number_of
from minuet.store.sqlite.columns import DIALECT, LISTS
from minuet.store.sqlite.statements import statement
from minuet.store.sqlite.writer import Change

if TYPE_CHECKING:
    import apsw

_READ_NAMED = statement("read_named")
_READ_VERSIONS = statement("read_versions")
_WRITE_NAMED = statement("write_named")
_INSERT_VERSION = statement("insert_version")
_REPLACE_SOURCE = statement("replace_source")
_DELETE_NAMED = statement("delete_named")
_DELETE_VERSIONS = statement("delete_versions")
_LIST_WORKFLOWS = statement("list_workflows")
_LIST_VERSIONS = statement("list_versions")

_version_of = decoder(WorkflowVersion, LISTS["workflow_version"], DIALECT)
_version_row = encoder(WorkflowVersion, LISTS["workflow_version"], DIALECT)
_tags_of = msgspec.json.Decoder(dict[str, int]).decode


def deploy_workflow(change: Change, new: WorkflowVersion, tags: Sequence[str]) -> Deployed | None:
    named = _read_named(change.db, new.tenant, new.name)
    numbers = compared(named, new, tags)
    known = _read_versions(change.db, new.tenant, new.name, numbers)
    made = deploy(named, known, new, tags, change.now_ms)
    if made is None:
        return None
    if made.deployed.is_new:
        change.db.execute(_INSERT_VERSION, _version_row(made.deployed.version))
    elif made.deployed.source_changed:
        place = {"tenant": new.tenant, "name": new.name, "version": made.deployed.version.version}
        change.db.execute(_REPLACE_SOURCE, {**place, "source": new.source})
    if made.named != named:
        row = {"newest": made.named.newest, "tags": to_json(made.named.tags)}
        change.db.execute(_WRITE_NAMED, {"tenant": new.tenant, "name": new.name, **row})
    return made.deployed


def _read_named(db: apsw.Connection, tenant: str, name: str) -> Named:
    for newest, tags in db.execute(_READ_NAMED, {"tenant": tenant, "name": name}):
        return Named(newest, _tags_of(tags))
    return Named()


def _read_versions(
    db: apsw.Connection, tenant: str, name: str, numbers: Sequence[int]
) -> dict[int, WorkflowVersion]:
    wanted = {"tenant": tenant, "name": name, "numbers": to_json(numbers)}
    found = map(_version_of, db.execute(_READ_VERSIONS, wanted))
    return {version.version: version for version in found}


def read_workflow(
    db: apsw.Connection, tenant: str, name: str, at: int | str | None
) -> DeployedWorkflow | None:
    named = _read_named(db, tenant, name)
    number = number_of(named, at)
    if number is None:
        return None
    version = _read_versions(db, tenant, name, [number]).get(number)
    # None: it was deleted between the two reads.
    return None if version is None else DeployedWorkflow(version, named.newest, named.tags)


def delete_workflow(change: Change, tenant: str, name: str) -> bool:
    change.db.execute(_DELETE_VERSIONS, {"tenant": tenant, "name": name})
    change.db.execute(_DELETE_NAMED, {"tenant": tenant, "name": name})
    return change.db.changes() > 0


def list_workflows(
    db: apsw.Connection, tenant: str, after: str, limit: int
) -> list[DeployedWorkflow]:
    page = {"tenant": tenant, "after": after, "limit": max(limit, 0)}
    rows: list[tuple[Any, ...]] = db.execute(_LIST_WORKFLOWS, page).fetchall()
    return [
        DeployedWorkflow(_version_of(row), newest, _tags_of(tags)) for newest, tags, *row in rows
    ]


def list_versions(
    db: apsw.Connection, tenant: str, after: tuple[str, int], limit: int
) -> list[WorkflowVersion]:
    name, version = after
    page = {"tenant": tenant, "name": name, "version": version, "limit": max(limit, 0)}
    return [_version_of(row) for row in db.execute(_LIST_VERSIONS, page)]
