"""Compile a workflow: verify all of it, then make a plan.

The compiler looks for all problems before it refuses a document: in the edges, the node types,
the templates and conditions and, if the graph has an order, in its loops, joins and reads. Each
of these has its own module; this one only calls them.
"""

from __future__ import annotations

import msgspec

from minuet.model import workflow as model
from minuet.model.diagnostics import Diagnostic, quote
from minuet.plan.assembly import make_plan
from minuet.plan.catalog import Catalog, check_kinds
from minuet.plan.child import ChildPlan, compile_inner
from minuet.plan.foreach import check_foreach
from minuet.plan.graph import build_graph
from minuet.plan.isolation import check_attempts
from minuet.plan.placement import check_placements
from minuet.plan.plan import RETRY_DEFAULT, Plan, Retry
from minuet.plan.problems import Document, Problems
from minuet.plan.reference import collect_references
from minuet.plan.schema import check_input_schema
from minuet.plan.secret import check_secrets
from minuet.plan.structure import Structure, find_structure


class Compiled(msgspec.Struct, frozen=True):
    """A plan, and the warnings about its document."""

    plan: Plan
    diagnostics: tuple[Diagnostic, ...] = ()
    #: The plans of workflows that are written inside it.
    children: tuple[ChildPlan, ...] = ()


def compile_workflow(
    document: Document, catalog: Catalog, retry: Retry = RETRY_DEFAULT
) -> Compiled:
    """Compile a document into a plan. DocumentError lists all its problems.

    `retry` supplies what neither a node nor the document's defaults set.
    """
    problems = Problems(document)
    workflow, children = compile_inner(
        document, lambda inner: compile_workflow(inner, catalog, retry), problems
    )
    graph = build_graph(workflow, problems)
    check_kinds(workflow, catalog, problems)
    check_input_schema(workflow, problems)
    check_branches(workflow, problems)
    check_placements(workflow, problems)
    check_foreach(workflow, problems)
    check_attempts(workflow, catalog, problems)
    check_secrets(workflow, catalog, problems)
    references = collect_references(workflow, catalog, problems)
    structure = find_structure(graph, references, problems) if graph is not None else None
    if structure is not None and workflow.output is not None:
        check_output(structure, problems)
    problems.stop()
    assert structure is not None  # without a graph there was an error
    made = make_plan(workflow, structure, references, catalog, retry)
    return Compiled(made, problems.listed(), children)


def check_branches(workflow: model.Workflow, problems: Problems) -> None:
    """Refuse branches that have nothing to choose from."""
    for place, node in enumerate(workflow.nodes):
        branch = node.branch
        if branch is None or branch.default:
            continue
        agent = branch.type == "agent_driven"
        if not (branch.available_next_nodes if agent else branch.rules):
            missing = "'available_next_nodes'" if agent else "'rules'"
            problems.error(
                "empty-branch",
                f"the branch of node {quote(node.id)} has neither {missing} nor 'default'",
                ("nodes", place, "branch"),
            )


def check_output(structure: Structure, problems: Problems) -> None:
    """Refuse an output that would be rendered once per arrival of an `each` join."""
    for number, node in enumerate(structure.graph.nodes):
        if not structure.graph.targets[number] and structure.nests.eaches[number]:
            problems.error(
                "join-nest-mismatch",
                f"'output' is rendered once, and node {quote(node.id)} runs once per arrival at "
                f"{quote(structure.nests.names[number][0])}",
                ("output",),
                hint="without 'output' a run's output is that of its last nodes",
            )
            return
