"""Which role a route needs: one table.

A route that is not in the table is refused to everybody who has to show a key. A test walks the
router, so that a route cannot be forgotten.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.types import Scope

from minuet.api.errors import ForbiddenError
from minuet.api.identity import Identity
from minuet.app.audit import AuditWriter
from minuet.app.roles import Role

#: Where all routes are.
PREFIX = "/api/v1"

#: Routes that need no key: what watches the process has none.
EXEMPT = frozenset({"/health/live", "/health/ready"})

#: Their paths, exactly.
OPEN = frozenset(f"{PREFIX}{path}" for path in EXEMPT)

#: The web page, which holds no data: its routes, outside of the prefix.
PAGE = ("/", "/ui", "/ui/{path:path}")

#: The OpenAPI document: everybody who is known may read it.
DESCRIPTION = "/openapi.json"

#: By method and path: one of these roles is needed.
NEEDED: dict[str, tuple[Role, ...]] = {
    "POST /runs": ("operator",),
    "GET /runs": ("viewer",),
    "GET /counts": ("viewer",),
    "GET /runs/histogram": ("viewer",),
    "POST /runs/bulk": ("operator",),
    "POST /runs/bulk/delete": ("admin",),
    "POST /workflow": ("editor",),
    "POST /workflow/trigger/{execution_id}": ("operator",),
    "GET /runs/{run_id}": ("viewer",),
    "GET /runs/{run_id}/summary": ("viewer",),
    "DELETE /runs/{run_id}": ("admin",),
    "POST /runs/{run_id}/preview": ("viewer",),
    "POST /runs/{run_id}/start": ("operator",),
    "POST /runs/{run_id}/cancel": ("operator",),
    "POST /runs/{run_id}/pause": ("operator",),
    "POST /runs/{run_id}/resume": ("operator",),
    "POST /runs/{run_id}/retry": ("operator",),
    "POST /runs/{run_id}/rollback": ("operator",),
    "POST /runs/{run_id}/signals/{name:path}": ("operator",),
    "GET /runs/{run_id}/events": ("viewer",),
    "GET /events": ("viewer",),
    "GET /runs/{run_id}/graph": ("viewer",),
    "GET /runs/{run_id}/state": ("viewer",),
    "GET /runs/{run_id}/logs": ("viewer",),
    "GET /runs/{run_id}/nodes/{node}": ("viewer",),
    "GET /runs/{run_id}/nodes/{node}/attempts": ("viewer",),
    "GET /runs/{run_id}/why/{node}": ("viewer",),
    "GET /runs/{run_id}/tree": ("viewer",),
    "GET /runs/{run_id}/unserved": ("viewer",),
    "GET /runs/{run_id}/held": ("viewer",),
    "GET /runs/{run_id}/export": ("viewer",),
    "POST /runs/{run_id}/nodes/{node}/skip": ("operator",),
    "POST /runs/{run_id}/nodes/{node}/set-output": ("operator",),
    "POST /runs/{run_id}/nodes/{node}/take-back": ("operator",),
    "POST /workflows": ("editor",),
    "POST /workflows/validate": ("viewer",),
    "GET /schema": ("viewer",),
    "GET /workflows": ("viewer",),
    "GET /workflows/{name}": ("viewer",),
    "DELETE /workflows/{name}": ("editor",),
    "GET /workflows/{name}/graph": ("viewer",),
    "GET /workflows/{name}/versions": ("viewer",),
    "GET /workflows/{name}/tags/{tag}": ("viewer",),
    "PUT /workflows/{name}/tags/{tag}": ("editor",),
    "GET /approvals": ("viewer",),
    "GET /approvals/{id}": ("viewer",),
    "GET /approvals/{id}/decide": ("approver",),
    "POST /approvals/{id}/decide": ("approver",),
    "GET /dlq": ("viewer",),
    "GET /dlq/groups": ("viewer",),
    "GET /dlq/{id}": ("viewer",),
    "POST /dlq/retry": ("operator",),
    "GET /dlq/redrives": ("viewer",),
    "POST /dlq/redrives": ("operator",),
    "POST /dlq/redrives/{id}/stop": ("operator",),
    "POST /dlq/{id}/retry": ("operator",),
    # Another config can call other services with the secrets of the node.
    "POST /dlq/{id}/edit": ("editor",),
    "POST /dlq/{id}/discard": ("operator",),
    "POST /workers": ("worker",),
    "POST /workers/{id}/exchange": ("worker",),
    "GET /workers/{id}/tasks/{task}/steps/{name:path}": ("worker",),
    "PUT /workers/{id}/tasks/{task}/steps/{name:path}": ("worker",),
    "DELETE /workers/{id}": ("worker", "operator"),
    "GET /workers": ("viewer",),
    "GET /workers/{id}": ("viewer", "worker"),
    "POST /workers/{id}/drain": ("operator",),
    "GET /queues": ("viewer",),
    "GET /leases": ("viewer",),
    "GET /statistics": ("viewer",),
    "GET /overview": ("viewer",),
    "GET /doctor": ("viewer",),
    "POST /doctor/{run_id}/repair": ("admin",),
    "GET /workers/{id}/tasks": ("viewer", "worker"),
    # Addresses of receivers can be secrets.
    "GET /webhooks": ("operator",),
    "POST /webhooks/{name}/test": ("operator",),
    "GET /node-types": ("viewer",),
    "GET /node-types/{name}": ("viewer",),
    "GET /handlers": ("viewer",),
    "PUT /blobs": ("editor", "worker"),
    "PUT /blobs/{ref:path}": ("editor", "worker"),
    "GET /blobs/{ref:path}": ("viewer", "worker"),
    "GET /whoami": ("viewer", "approver", "worker"),
    "GET /keys": ("admin",),
    "POST /keys": ("admin",),
    "DELETE /keys/{id}": ("admin",),
    "GET /audit": ("admin",),
    "GET /metrics": ("viewer",),
    "GET /dev": ("viewer",),
    "POST /dev/kill-worker": ("admin",),
    # Rows as they are, with everything that runs were given.
    "GET /replica/changes": ("admin",),
    "GET /replica/runs": ("admin",),
    "GET /replica/runs/{run_id}": ("admin",),
    "GET /replica/blob": ("admin",),
    "GET /replica/workflows": ("admin",),
    "GET /replica/keys": ("admin",),
}


#: Changes without an entry in the audit log: the history of the run has them. Checks and
#: previews change nothing.
UNAUDITED = frozenset(
    {
        *("POST /workflows/validate", "POST /runs/{run_id}/preview"),
        *("POST /runs", "POST /workers/{id}/exchange"),
        "PUT /workers/{id}/tasks/{task}/steps/{name:path}",
    }
)


def is_open(path: str) -> bool:
    """Whether a path needs no key."""
    return path in OPEN or path in PAGE or path.startswith("/ui/")


class Call:
    """A request that was let in."""

    def __init__(self, identity: Identity, address: str) -> None:
        self.identity = identity
        self.address = address
        #: Writes what came of it into the audit log; None: it has no entry.
        self.end: Callable[[int], Awaitable[None]] | None = None


def call_of(scope: Scope) -> Call:
    """A request that was let in."""
    found: Call = scope["minuet.call"]
    return found


def identity_of(scope: Scope) -> Identity:
    """Who sends a request."""
    return call_of(scope).identity


def roles_of(name: str) -> tuple[Role, ...]:
    """One of these roles is needed for a route: `GET /runs`. The part of a name that says that
    its last parameter may have slashes can be left out."""
    return NEEDED.get(name) or NEEDED.get(f"{name.removesuffix('}')}:path}}", ())


def check_role(identity: Identity, roles: tuple[Role, ...]) -> None:
    """ForbiddenError unless somebody has one of these roles."""
    if identity.shown and identity.roles.isdisjoint(roles):
        needed = " or ".join(roles) if roles else "no role: it is in no table"
        raise ForbiddenError(f"this needs the role {needed}")


def check_route(scope: Scope, method: str, path: str) -> str:
    """ForbiddenError unless the sender may call a route. `path` is that of the route, with the
    names of its parameters. Return what the route is called in the table."""
    name = f"{method} {path.removeprefix(PREFIX)}"
    if path.removeprefix(PREFIX) not in EXEMPT:
        check_role(identity_of(scope), NEEDED.get(name, ()))
    return name


async def authorize(request: Request) -> None:
    """What every route of FastAPI begins with: may the sender call it? If it changes something,
    the audit log has it before it happens."""
    scope = request.scope
    name = check_route(scope, request.method, scope["route"].path)
    if request.method in ("GET", "HEAD") or name in UNAUDITED:
        return
    call, shared = call_of(scope), scope["minuet"]
    identity = call.identity
    writer = AuditWriter(shared.facade(request))
    entry = await writer.begin(
        by=identity.name,
        shown=identity.shown,
        address=call.address,
        action=name,
        path=scope["path"],
    )
    call.end = functools.partial(writer.end, entry)
