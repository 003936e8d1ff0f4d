"""`minuet keys` and `minuet audit`: a server's clients, and what they have changed."""

from __future__ import annotations

import asyncio
import time
from argparse import Namespace

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import App, Facade
from minuet.app.audit import AuditEntry
from minuet.app.keys import NewKey, StoredKey
from minuet.cli.output import clean, format_moment, format_short_age, note, print_json, print_table
from minuet.cli.stores import is_memory, open_place, with_app
from minuet.cli.user import user_name
from minuet.errors import ConfigError


def create(arguments: Namespace) -> int:
    """Create a key, and print it."""
    if is_memory(arguments.store):
        raise ConfigError("memory:// ends with this process: nobody could use the key")
    made = asyncio.run(_create(arguments))
    if arguments.output == "json":
        print_json(shapes.new_key(made))
    else:
        print(made.text)
        note(f"Keep it: it is never shown again. Its id is {made.key.id}.")
    return outcomes.COMPLETED


async def _create(arguments: Namespace) -> NewKey:
    async with open_place(arguments.store) as app:
        return await of_tenant(app, arguments.tenant).keys.create(
            arguments.name,
            arguments.roles,
            groups=arguments.groups,
            trusted=arguments.trusted,
            expires_seconds=None if arguments.expires is None else arguments.expires / 1000,
            by=user_name(),
        )


def of_tenant(app: Facade, tenant: str) -> Facade:
    """The facade of a tenant. A client of a server belongs to the tenant of its own key."""
    if isinstance(app, App):
        return app.for_tenant(tenant)
    if tenant != "default":
        raise ConfigError(
            "through a server, these are the keys of the tenant whose key you show (MINUET_API_KEY): "
            "leave out --tenant, or name the store with --store"
        )
    return app


def list_keys(arguments: Namespace) -> int:
    """List the keys of a tenant."""

    async def ask(app: Facade) -> list[StoredKey]:
        return await of_tenant(app, arguments.tenant).keys.list()

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json([shapes.key(one) for one in found])
    elif not found:
        print("There are no API keys. Create one with `minuet keys create NAME --role ROLE`.")
    else:
        rows = [
            (
                one.id,
                clean(one.name),
                ", ".join(one.roles) + (" (trusted)" if one.is_trusted else ""),
                clean(", ".join(one.groups)),
                _state(one),
                format_short_age(one.created_ms),
                "never" if one.used_ms is None else format_short_age(one.used_ms),
            )
            for one in found
        ]
        titles = ("id", "name", "roles", "groups", "state", "age", "last used")
        print_table(titles, rows, names=("name", "groups"))
    return outcomes.COMPLETED


def _state(key: StoredKey) -> str:
    if key.revoked_ms is not None:
        return "revoked"
    return "valid" if key.is_valid(time.time_ns() // 1_000_000) else "expired"


def revoke(arguments: Namespace) -> int:
    """End a key."""

    async def ask(app: Facade) -> StoredKey:
        return await of_tenant(app, arguments.tenant).keys.revoke(arguments.id)

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.key(found))
    else:
        print(clean(f"revoked {found.id} of {found.name}"))
    return outcomes.COMPLETED


def audit(arguments: Namespace) -> int:
    """List who has changed what over HTTP."""

    async def ask(app: Facade) -> list[AuditEntry]:
        return await of_tenant(app, arguments.tenant).audit.list(limit=arguments.limit)

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json([shapes.audit_entry(one) for one in found])
    elif not found:
        print("Nothing was changed over HTTP.")
    else:
        rows = [
            (
                format_moment(one.at_ms),
                clean(one.by or one.shown or "anonymous"),
                clean(one.address),
                "" if one.status is None else str(one.status),
                clean(f"{one.action.partition(' ')[0]} {one.path}"),
            )
            for one in found
        ]
        print_table(("at", "by", "from", "answer", "what"), rows, names=("by", "what"))
    return outcomes.COMPLETED
