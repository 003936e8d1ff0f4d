"""`app.runs.attempts`: everything about one node instance, attempt by attempt."""

from __future__ import annotations

from minuet.app.arguments import checked
from minuet.app.given import find_given
from minuet.app.statistics import Statistics
from minuet.bridge.attempts import Attempt as Attempt
from minuet.bridge.attempts import InstanceDetails as InstanceDetails
from minuet.bridge.attempts import find_attempts, find_instance
from minuet.nodes.context import make_key
from minuet.plan.plan import author_of
from minuet.scopes import decode


class Attempts(Statistics):
    """Asks about single node instances."""

    @checked
    async def attempts(self, run_id: str, node: str) -> InstanceDetails:
        """What a node instance was given, and its attempts. `node` may name an instance
        (`check[2]`); without that, it is the last one. RunConflictError when there is none yet."""
        run = await self.get(run_id)
        program = await self.program(run_id, run.plan)
        tokens = await self._store.read_tokens(self._tenant, run_id)
        token = find_instance(program, run, tokens, node)
        names = {worker.session: worker.name for worker in await self._workers.list()}
        name = author_of(token.node)
        return InstanceDetails(
            name,
            decode(token.scope),
            make_key(run_id, name, token.scope),
            None if token.skip else await find_given(self._behind, token.key),
            find_attempts(await self.history(run_id), token, names),
        )
