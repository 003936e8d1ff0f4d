"""What people and programs may do: roles, and what each includes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

Role: TypeAlias = Literal["viewer", "operator", "editor", "approver", "worker", "admin"]

ROLES: tuple[Role, ...] = get_args(Role)

#: What a role lets somebody do, in a few words; the guide's table is made from this.
MEANING: Mapping[Role, str] = {
    "viewer": "look at runs, workflows, approvals, dead letters and workers",
    "operator": "also start deployed workflows, change runs, retry dead letters, drain workers",
    "editor": "also deploy workflows, and start documents",
    "approver": "look, and decide approvals",
    "worker": "register as a worker over HTTP and take tasks; nothing else",
    "admin": "everything, API keys and the audit log included",
}

#: The roles that somebody with a role has as well.
_INCLUDED: Mapping[Role, frozenset[Role]] = {
    "viewer": frozenset({"viewer"}),
    "operator": frozenset({"viewer", "operator"}),
    "editor": frozenset({"viewer", "operator", "editor"}),
    "approver": frozenset({"viewer", "approver"}),
    "worker": frozenset({"worker"}),
    "admin": frozenset(ROLES),
}


def included(roles: Iterable[Role]) -> frozenset[Role]:
    """These roles, and those that they include."""
    return frozenset().union(*(_INCLUDED[role] for role in roles))
