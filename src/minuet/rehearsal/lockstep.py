"""Sync handlers in virtual time.

A sync handler gets a thread, because it may wait (`ctx.step`) for something that the loop does.
But only one of the two runs at a time: the loop stops until the handler returns or waits, and
the handler stops while it waits. So nothing depends on how fast threads are.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from minuet.errors import HandlerError, LeaseLost
from minuet.nodes.context import Context
from minuet.simulation.loop import SimLoop

T = TypeVar("T")

#: Real seconds that a handler may take before the rehearsal is aborted.
PATIENCE_S = 60.0


class _Asked:
    """A handler waits for something."""

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self.awaitable = awaitable


class _Ended:
    """A handler has ended, with a result or an error."""

    def __init__(self, result: Any, error: BaseException | None) -> None:
        self.result = result
        self.error = error


class SteppedContext(Context):
    """A context whose waiting is done by the loop, in lockstep."""

    def __init__(self, context: Context, lockstep: Lockstep) -> None:
        self.__dict__.update(context.__dict__)
        self._loop = asyncio.get_running_loop()
        self._lockstep = lockstep

    def _wait(self, awaitable: Awaitable[T]) -> T:
        return cast("T", self._lockstep.ask(awaitable))


async def run_stepped(
    name: str,
    context: Context,
    bind: Callable[[Context], tuple[Callable[..., Any], dict[str, Any]]],
) -> Any:
    """Call a sync function in lockstep; `bind` gives it and its arguments for a context."""
    lockstep = Lockstep(name)
    stepped = SteppedContext(context, lockstep)
    try:
        return await lockstep.run(*bind(stepped))
    finally:
        # What the worker must know of the call.
        context.outage, context.revealed = stepped.outage, stepped.revealed


class Lockstep:
    """One call of a sync handler."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._to_loop: queue.SimpleQueue[_Asked | _Ended] = queue.SimpleQueue()
        self._to_thread: queue.SimpleQueue[_Ended] = queue.SimpleQueue()

    def ask(self, awaitable: Awaitable[Any]) -> Any:
        """In the handler's thread: let the loop wait, and block meanwhile."""
        self._to_loop.put(_Asked(awaitable))
        answer = self._to_thread.get()
        if answer.error is not None:
            raise answer.error
        return answer.result

    async def run(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        """On the loop: call the handler, and perform its waits."""
        thread = threading.Thread(
            target=self._work, args=(function, arguments), name="minuet-rehearsal", daemon=True
        )
        thread.start()
        try:
            while True:
                message = self._receive()
                if isinstance(message, _Ended):
                    if message.error is not None:
                        raise message.error
                    return message.result
                try:
                    answer = _Ended(await message.awaitable, None)
                except (Exception, LeaseLost) as error:
                    answer = _Ended(None, error)
                self._to_thread.put(answer)
        finally:
            # The worker was killed while the handler waits: let the handler end.
            self._to_thread.put(_Ended(None, LeaseLost("its worker is dead")))
            thread.join(1.0)

    def _work(self, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
        try:
            ended = _Ended(function(**arguments), None)
        except BaseException as error:
            ended = _Ended(None, error)
        self._to_loop.put(ended)

    def _receive(self) -> _Asked | _Ended:
        try:
            return self._to_loop.get(timeout=PATIENCE_S)
        except queue.Empty:
            error = HandlerError(
                f"handler {self._name!r} did not return within {PATIENCE_S:g} s of real time; "
                "a sync handler stops the simulated world while it runs: use --stubs, or make "
                "it async and let it sleep with asyncio.sleep"
            )
            loop = asyncio.get_running_loop()
            assert isinstance(loop, SimLoop)
            loop.fail(error)
            raise error from None
