"""`app.workflows`: read, check and compile workflows."""

from __future__ import annotations

from typing import Any

from minuet.app.arguments import checked
from minuet.app.compiling import CompiledWorkflow, EncodedInput, compile_source, encode_input
from minuet.app.handlers import all_types
from minuet.app.tenant import Tenant
from minuet.nodes.spec import NodeType
from minuet.plan.placement import read_placement, unmet
from minuet.plan.plan import Plan
from minuet.worker.identity import offer_of


class Workflows:
    """The workflows that an App can run. No store is needed for what is asked here."""

    def __init__(self, tenant: Tenant) -> None:
        self._engine = tenant.engine

    @checked
    def compile(self, source: Any) -> CompiledWorkflow:
        """Read and verify a workflow; DocumentError with all its problems.

        An App with a worker also checks that it has the handlers that the workflow names.
        """
        options = self._engine.options
        handlers = self._engine.handlers if options.worker else None
        return compile_source(source, handlers=handlers, retry=options.retry_policy)

    @checked
    def encode_input(self, workflow: Any, input: Any) -> EncodedInput:
        """Check an input before anything is started; InputError with all its problems.

        The answer can be given to `app.runs.start` as the input.
        """
        return encode_input(self.compile(workflow).plan, input)

    @checked
    def node_types(self) -> list[NodeType]:
        """The node types that workflows here can use: those that come with Minuet, and those that
        `@minuet.node_type` has registered."""
        found = all_types(self._engine.handlers)
        return [one for one in found.values() if one.kind != "later"]

    @checked
    def find_misplaced(self, plan: Plan) -> dict[str, str]:
        """Nodes that the worker of this App may not run, and what it lacks, in words."""
        offer = offer_of(self._engine.options.identity(), self._engine.handlers)
        placements = [read_placement(node.queue) for node in plan.nodes]
        return {
            placement.node: ", ".join(lacking)
            for placement in placements
            if placement is not None and (lacking := unmet(placement, offer))
        }
