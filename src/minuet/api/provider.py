"""A provider of OpenID Connect, as the settings describe it."""

from __future__ import annotations

import msgspec


class Provider(msgspec.Struct, frozen=True):
    """Who issues tokens, for whom, and what they say where."""

    issuer: str
    audience: str
    #: The claims with the caller's name, roles, groups and tenant; "" for the tenant: all are of
    #: the server's own. A dot leads into an object.
    name_claim: str = "sub"
    roles_claim: str = "roles"
    groups_claim: str = "groups"
    tenant_claim: str = ""
