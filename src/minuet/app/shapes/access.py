"""Who may do what, and who did: API keys and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minuet.app.shapes.base import Shape, moment

if TYPE_CHECKING:
    from minuet.app.audit import AuditEntry
    from minuet.app.keys import NewKey, StoredKey


def key(found: StoredKey) -> Shape:
    """An API key."""
    return {
        "id": found.id,
        "prefix": found.prefix,
        "name": found.name,
        "tenant": found.tenant,
        "roles": list(found.roles),
        "groups": list(found.groups),
        "trusted": found.is_trusted,
        "created_at": moment(found.created_ms),
        "created_by": found.created_by or None,
        "expires_at": moment(found.expires_ms),
        "revoked_at": moment(found.revoked_ms),
        "used_at": moment(found.used_ms),
    }


def new_key(made: NewKey) -> Shape:
    """An API key that was just created, with its text."""
    return {**key(made.key), "key": made.text}


def audit_entry(found: AuditEntry) -> Shape:
    """A change that somebody has asked for over HTTP."""
    return {
        "id": found.id,
        "at": moment(found.at_ms),
        "by": found.by or None,
        "credential": found.shown or None,
        "address": found.address or None,
        "action": found.action,
        "path": found.path,
        "status": found.status,
    }
