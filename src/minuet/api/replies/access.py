"""Who may do what, and who did: API keys and the audit log."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply
from minuet.app.roles import Role


class Key(Reply, frozen=True):
    """An API key, without the key itself."""

    id: str
    prefix: Annotated[str, Meta(description="The key begins with this.")]
    name: str
    tenant: str
    roles: list[Role]
    groups: list[str]
    trusted: bool
    created_at: Moment
    created_by: str | None
    expires_at: Moment | None
    revoked_at: Moment | None
    used_at: Annotated[
        Moment | None, Meta(description="When it was last used, to ten minutes; null: never.")
    ]


class NewKey(Key, frozen=True):
    """An API key that was just created."""

    key: Annotated[str, Meta(description="The key. It is never shown again.")]


class Sender(Reply, frozen=True):
    """Who sends a request, and what it may do."""

    name: Annotated[str | None, Meta(description="null: nobody knows; the request may say so.")]
    tenant: str
    roles: Annotated[list[Role], Meta(description="With those that they include.")]
    groups: list[str]
    trusted: Annotated[bool, Meta(description="It may act in the name of others.")]


class AuditEntry(Reply, frozen=True):
    """A change that somebody has asked for."""

    id: str
    at: Moment
    by: Annotated[str | None, Meta(description="Whose key it was; null: nobody knows.")]
    credential: Annotated[
        str | None, Meta(description="What the sender has shown.", examples=["key:k3b5x2qpa7ho"])
    ]
    address: Annotated[str | None, Meta(description="The address that sent it.")]
    action: Annotated[str, Meta(examples=["POST /runs/{run_id}/cancel"])]
    path: str
    status: Annotated[int | None, Meta(description="Of the answer; null: the server ended before.")]
