"""Make the twin of something async: a method that waits of one that is awaited.

Everything that `sync` has is the twin of something async, with the same name, arguments, result
and errors. It calls the method of the same name of the object behind it, which is a noun of an App
or of a client. So the two have one sync side. A test compares the sides, so that neither has what
the other lacks.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast, overload

from minuet.app.handle import RunHandle
from minuet.app.portal import Portal
from minuet.errors import StartError
from minuet.types import OutputT

if TYPE_CHECKING:
    from minuet.app.sync_handle import SyncRunHandle

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class Twin:
    """Calls the methods of an object that lives in the loop of a portal."""

    def __init__(self, portal: Portal, find: Callable[[], Any]) -> None:
        self._portal = portal
        #: Gives the object. Called in the loop: an App that is not open says so there.
        self._find = find

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Have a method called in the loop, and wait for what it gives."""

        async def call() -> Any:
            given = getattr(self._find(), name)(*arguments, **named)
            return await given if inspect.isawaitable(given) else given

        try:
            return self._twin_of(self._portal.call(call))
        except StartError as error:
            error.answers = tuple(map(self._twin_of, error.answers))
            raise

    def _twin_of(self, value: Any) -> Any:
        """What the caller gets for something that belongs to the loop."""
        from minuet.app.sync_handle import SyncRunHandle

        if isinstance(value, RunHandle):
            return SyncRunHandle(value, self._portal)
        if isinstance(value, list) and value and isinstance(value[0], RunHandle):
            return [SyncRunHandle(one, self._portal) for one in value]
        return value


@overload
def blocking(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, RunHandle[OutputT]]],
) -> Callable[Concatenate[Any, Parameters], SyncRunHandle[OutputT]]: ...


@overload
def blocking(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Result]],
) -> Callable[Concatenate[Any, Parameters], Result]: ...


def blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    """The twin of an async method: it waits."""
    name = method.__name__

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return self._call(name, *arguments, **named)

    return _like(method, call)


@overload
def passing(
    method: Callable[Concatenate[Any, Parameters], RunHandle[OutputT]],
) -> Callable[Concatenate[Any, Parameters], SyncRunHandle[OutputT]]: ...


@overload
def passing(
    method: Callable[Concatenate[Any, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Result]: ...


def passing(method: Callable[..., Any]) -> Callable[..., Any]:
    """The twin of a method that waits for nothing. It can be called before the App is open, if the
    method can."""
    name = method.__name__

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if self._portal.is_open:
            return self._call(name, *arguments, **named)
        return getattr(self._find(), name)(*arguments, **named)

    return _like(method, call)


def iterating(
    method: Callable[Concatenate[Any, Parameters], AsyncIterator[Result]],
) -> Callable[Concatenate[Any, Parameters], Iterator[Result]]:
    """The twin of a method that gives an async iterator: an iterator."""
    name = method.__name__

    def call(self: Any, *arguments: Any, **named: Any) -> Iterator[Any]:
        find = self._find
        portal = cast(Portal, self._portal)
        return portal.iterate(lambda: getattr(find(), name)(*arguments, **named))

    made: Any = _like(method, call)
    return made  # type: ignore[no-any-return]


def _like(method: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    functools.update_wrapper(call, method)
    cast(Any, call).__signature__ = inspect.signature(method)
    # It is not what it looks like beneath: that is awaited.
    del cast(Any, call).__wrapped__
    cast(Any, call).twin_of = method
    return call
