"""What a worker does for the agents that it runs (`nodes.agents`)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from minuet.bridge.history import HistoryReader
from minuet.functions.function import Function
from minuet.functions.steps import read_step
from minuet.kernel.fold import Fold, TokenView, replay
from minuet.kernel.scope import decode, show
from minuet.nodes.agents import Past, PastNode
from minuet.nodes.context import Context
from minuet.nodes.flowing import Body
from minuet.nodes.handler import Handlers
from minuet.plan.plan import HIDDEN
from minuet.store.base import Store
from minuet.store.blob import blob_of
from minuet.store.large import get_content
from minuet.types import Json
from minuet.worker.children import Children
from minuet.worker.flows import Flows


class WorkerAgents:
    """What agents ask of one worker."""

    def __init__(
        self, store: Store, tenant: str, handlers: Handlers, flows: Flows, children: Children
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._reader = HistoryReader(store, tenant)
        #: The handlers that can be tools.
        self.handlers = handlers
        self._flows = flows
        self._children = children

    async def run_in_steps(self, context: Context, body: Body, *, resumed: bool) -> Any:
        """Run the code of a node as a durable function."""
        function: Function[Any, Any] = Function(body, name=context.node_id)
        return await self._flows.run(function, {}, context, is_new=False, was_left=resumed)

    async def find_input_schema(self, context: Context, workflow: str) -> dict[str, Any]:
        """JSON Schema of the input of a deployed workflow."""
        return await self._children.find_input_schema(context, workflow)

    async def look_back(self, context: Context, steps: Collection[str]) -> Past:
        """What has happened in the run, with the results of all steps of these names."""
        fold = replay(await self._reader.history(context.run_id))
        over = [one for one in fold.state.tokens.values() if _is_over(one)]
        over.sort(key=lambda token: token.event)
        nodes = [
            PastNode(f"{one.node}{show(decode(one.scope))}", one.outcome.upper(), _output(one))
            for one in over
        ]
        return Past(nodes, await self._results(context, fold, steps))

    async def _results(self, context: Context, fold: Fold, names: Collection[str]) -> list[Json]:
        """The results of all steps of these names."""
        found: list[Json] = []
        for (_, _, key), value in fold.state.steps.items():
            # Most steps are ruled out by their key, which begins with their name.
            step = read_step(key, value) if key.startswith(tuple(names)) else None
            if step is None or step.error is not None or _plain_name(step.name) not in names:
                continue
            output = step.output
            if step.blob is not None:
                run, tenant = context.run_id, self._tenant
                data = await get_content(self._store, step.blob, run=run, tenant=tenant)
                output = None if data is None else msgspec.json.decode(data)
            found.append(output)
        return found


def _is_over(token: TokenView) -> bool:
    return token.state == "done" and not token.skip and HIDDEN not in token.node


def _output(token: TokenView) -> Json:
    if token.output is None or blob_of(token.output) is not None:
        return None
    return msgspec.json.decode(token.output)


def _plain_name(label: str) -> str:
    """The name of a step, without the number that tells it from others of that name."""
    return label.partition(" #")[0]
