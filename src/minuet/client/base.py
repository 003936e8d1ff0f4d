"""What the nouns of a client share: their way to the server, and the rules of their arguments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeVar

from minuet.app.arguments import checked
from minuet.client.transport import Transport
from minuet.errors import ConfigError

Noun = TypeVar("Noun", bound=type)

#: Items asked for at once, at most: what a server gives.
PAGE_MAX = 1_000

#: More than a list has.
EVERYTHING = 1_000_000_000


def remote(cls: Noun) -> Noun:
    """Check the arguments of the methods that a noun overrides as those of the noun in `app`.

    A noun of a client is a subclass of that one: so both have the same signatures, and what is
    written in terms of other methods is not written again.
    """
    for name, method in list(vars(cls).items()):
        if name.startswith("_") or not callable(method):
            continue
        for base in cls.__mro__[1:]:
            theirs = vars(base).get(name)
            if theirs is not None and hasattr(theirs, "__wrapped__"):
                setattr(cls, name, checked(method, like=theirs))
                break
    return cls


async def pages(
    get: Callable[..., Awaitable[Any]],
    path: str,
    limit: int,
    cursor: str | None = None,
    **params: Any,
) -> list[dict[str, Any]]:
    """At most so many items of a list that comes in pages, from the cursor on."""
    found: list[dict[str, Any]] = []
    while len(found) < limit:
        most = min(limit - len(found), PAGE_MAX)
        page = await get(path, **params, limit=most, cursor=cursor)
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    return found


class Remote:
    """Has a way to the server."""

    _transport: Transport

    async def _get(self, path: str, **params: Any) -> Any:
        return await self._transport.get(path, **params)

    async def _post(self, path: str, body: Any = None, *, again: bool = False) -> Any:
        return await self._transport.post(path, body, again=again)


def only_local(what: str, instead: str) -> NoReturn:
    """ConfigError for what only a process with the store can do."""
    raise ConfigError(f"{what} is not possible through a server: {instead}")
