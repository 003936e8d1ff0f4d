"""Wrong versions of agents, for `tests.planted.bugs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.planted.functions import replaced

from minuet.functions.function import Function
from minuet.functions.journal import Entry
from minuet.nodes.context import Context
from minuet.nodes.flowing import FLOWING, Body
from minuet.nodes.io.agent import Agent
from minuet.nodes.io.spending import Spending
from minuet.simulation.agents import TOOLS
from minuet.worker.agents import WorkerAgents
from minuet.worker.flow_journal import FlowJournal


def _anew(right: Any) -> Any:
    async def wrong(self: WorkerAgents, context: Context, body: Body, *, resumed: bool) -> Any:
        function: Function[Any, Any] = Function(body, name=context.node_id)
        return await self._flows.run(function, {}, context, is_new=True, was_left=resumed)

    return wrong


#: An agent that is taken up after a crash asks its model from the beginning.
begins_anew = replaced(WorkerAgents, "run_in_steps", _anew)


def _without_last_tool(right: Callable[[FlowJournal], Any]) -> Any:
    async def wrong(self: FlowJournal) -> list[Entry]:
        entries: list[Entry] = await right(self)
        return entries[:-1] if entries and entries[-1].name in TOOLS else entries

    return wrong


#: An agent that is taken up after a crash calls the tool again whose result was kept last.
tool_again = replaced(FlowJournal, "load", _without_last_tool)


def _unspent(right: Callable[..., Any]) -> Any:
    async def wrong(self: Agent, *about: Any) -> Any:
        flowing: Any = FLOWING.get()
        is_repeating = flowing.is_repeating
        reply = await right(self, *about)
        if is_repeating:
            self._spent = Spending()
        return reply

    return wrong


#: What an agent has spent before it is taken up again does not count.
unspent = replaced(Agent, "_ask", _unspent)
