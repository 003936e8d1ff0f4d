"""Build the plan of a verified workflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from minuet.model import workflow as model
from minuet.plan import plan, policy
from minuet.plan.catalog import Catalog, NodeKind
from minuet.plan.enclosing import count_common
from minuet.plan.foreach import expand
from minuet.plan.graph import Graph
from minuet.plan.placement import place
from minuet.plan.reference import Reference, References, named
from minuet.plan.structure import Structure
from minuet.plan.undo import find_undo_on, make_undos

#: The hidden node that renders the document's `output`. No node of an author can have this id.
OUTPUT_NODE = "$output"


def make_plan(
    workflow: model.Workflow,
    structure: Structure,
    references: References,
    catalog: Catalog,
    retry: plan.Retry,
) -> plan.Plan:
    """Build the plan."""
    graph = structure.graph
    has_output = workflow.output is not None
    of_nodes = {graph.nodes[n].id: references.of_nodes[p] for n, p in enumerate(graph.places)}
    nodes = [
        _make_node(workflow, structure, of_nodes, catalog, retry, number)
        for number in range(len(graph.nodes))
    ]
    terminals = [number for number, node in enumerate(nodes) if is_terminal(node)]
    if has_output:
        named = sorted({graph.numbers[reference.name] for reference in references.of_output})
        sources = find_output_sources(structure, named)
        for number in sources:
            onward = plan.Edge(target=OUTPUT_NODE)
            nodes[number] = msgspec.structs.replace(
                nodes[number], edges=(onward, *nodes[number].edges)
            )
        nodes.append(_make_output_node(workflow, graph, named, catalog, len(sources)))
    limits = workflow.limits
    mapped = {node.id for node in graph.nodes if node.foreach is not None}
    authors = {node.id: node for node in graph.nodes}
    maps: dict[str, plan.ConstructKind] = {plan.item_id(name): "map" for name in mapped}
    if mapped:
        nodes = expand(nodes, authors, of_nodes, _inline_queue(workflow, catalog))
    all_reads = {node.id: structure.reads[number] for number, node in enumerate(graph.nodes)}
    undos = make_undos(workflow, nodes, of_nodes, all_reads)
    undo_on = find_undo_on(workflow)
    undo_format = plan.UNDO_FORMAT if undos or undo_on else 1
    is_isolated = any(node.isolation == "process" for node in nodes)
    limit_format = plan.LIMIT_FORMAT if is_isolated or limits.max_bytes is not None else 1
    return plan.Plan(
        format=max(_format(nodes), undo_format, limit_format),
        name=workflow.name,
        nodes=tuple(nodes),
        constructs=structure.nests.constructs | maps,
        entries=tuple(
            plan.items_id(node.id) if node.id in mapped else node.id
            for node, sources in zip(graph.nodes, graph.sources, strict=True)
            if not sources
        ),
        terminals=tuple(graph.nodes[number].id for number in terminals),
        output_node=OUTPUT_NODE if has_output else None,
        input_schema=workflow.input,
        deadline_ms=policy.to_ms(limits.deadline_s),
        max_hops=limits.max_hops,
        max_fanout=limits.max_fanout,
        max_output_bytes=limits.max_output_bytes,
        max_bytes=limits.max_bytes,
        dlq_policy=workflow.dlq_policy,
        description=workflow.description,
        undos=undos,
        undo_on=undo_on,
    )


def _format(nodes: Iterable[plan.Node]) -> int:
    """The oldest format that can say what these nodes say."""
    if any(node.hold for node in nodes):
        return plan.HOLD_FORMAT
    return plan.FOREACH_FORMAT if any(node.foreach for node in nodes) else 1


def _queue(workflow: model.Workflow, node: model.Node, kind: NodeKind) -> str:
    """The queue of the node's tokens. Each handler has its own queue, so that a token only
    goes to a worker that can run it."""
    if workflow.defaults.queue is not None:
        return workflow.defaults.queue
    if kind.needs_handler and node.handler is not None:
        return f"{kind.queue}:{node.handler}"
    return kind.queue


def _inline_queue(workflow: model.Workflow, catalog: Catalog) -> str:
    """The queue of the hidden nodes, which compute at once."""
    return workflow.defaults.queue or catalog["transform"].queue


def is_terminal(node: plan.Node) -> bool:
    """Whether nothing follows the node if it completes."""
    return all(set(edge.roles) <= {"error", "reject", "back"} for edge in node.edges)


def _make_node(
    workflow: model.Workflow,
    structure: Structure,
    references: Mapping[str, list[Reference]],
    catalog: Catalog,
    retry: plan.Retry,
    number: int,
) -> plan.Node:
    node = structure.graph.nodes[number]
    limits = node.limits or model.NodeLimits()
    return plan.Node(
        id=node.id,
        type=node.type,
        handler=node.handler,
        config=policy.collect_config(node),
        config_ref=node.config_ref.cas_ref if node.config_ref is not None else None,
        queue=place(workflow.name, node, _queue(workflow, node, catalog[node.type])),
        nest=structure.nests.names[number],
        edges=_make_edges(structure, number),
        need=structure.needs[number],
        expects=structure.expects[number],
        cancels=structure.cancels.get(number, ()),
        reads=named(structure.reads[number], [r for r in references[node.id] if not r.is_undoing]),
        branch=_make_branch(structure.graph, number),
        loop=_make_loop(node, workflow.limits),
        retry=policy.complete_retry(node.retry, workflow.defaults.retry, retry),
        retry_by=policy.find_retry_author(node.retry, workflow.defaults.retry, retry),
        timeout_ms=policy.find_timeout_ms(node, workflow.defaults),
        soft_timeout_ms=policy.to_ms(node.soft_timeout_seconds),
        isolation=node.isolation,
        max_memory_mb=limits.max_memory_mb,
        on_error=policy.find_on_error(node),
        # The code of a durable function says what a failure leads to.
        hold=(node.on_dlq or workflow.on_dlq) == "hold" and node.type != plan.FLOW,
        max_hops=limits.max_hops,
        max_fanout=limits.max_fanout,
        max_output_bytes=limits.max_output_bytes,
        concurrency=_make_concurrency(node),
        secrets=node.secrets,
        extra=policy.collect_extra(node, workflow),
    )


def _make_edges(structure: Structure, number: int) -> tuple[plan.Edge, ...]:
    """Build a node's edges in the order of their targets, the back edge last."""
    graph, nests = structure.graph, structure.nests.names
    edges = []
    for target in graph.targets[number]:
        keep = count_common(nests[number], nests[target])
        enter = [0] * (len(nests[target]) - keep)
        if target in structure.nests.arrivals:
            # Loops are never around an `each` join, so its own number comes last.
            enter[-1] = structure.nests.arrivals[target][number]
        edges.append(
            plan.Edge(
                target=graph.nodes[target].id,
                roles=graph.roles(number, target),
                keep=keep,
                enter=tuple(enter),
            )
        )
    back = _make_back_edge(structure, number)
    return (*edges, back) if back is not None else tuple(edges)


def _make_back_edge(structure: Structure, number: int) -> plan.Edge | None:
    if structure.graph.nodes[number].loop is None:
        return None
    # A loop node's own loop is the innermost around it: a loop inside would contain it too.
    body = structure.loops.bodies[structure.loops.innermost[number]]
    keep = len(structure.nests.names[number])
    entered = len(structure.nests.names[body.entry]) - keep
    return plan.Edge(
        target=structure.graph.nodes[body.entry].id,
        roles=("back",),
        keep=keep,
        enter=(0,) * entered,
    )


def _make_branch(graph: Graph, number: int) -> plan.Branch | None:
    branch = graph.nodes[number].branch
    # A branch without targets at a node without targets decides nothing.
    if branch is None or not graph.targets[number]:
        return None
    return plan.Branch(
        type=branch.type,
        rules=tuple(
            plan.Rule(condition=rule.condition, targets=rule.next_nodes) for rule in branch.rules
        ),
        default=branch.default,
        available=branch.available_next_nodes,
    )


def _make_concurrency(node: model.Node) -> plan.Concurrency | None:
    if node.concurrency is None:
        return None
    return plan.Concurrency(key=node.concurrency.key, limit=node.concurrency.limit)


def _make_loop(node: model.Node, limits: model.Limits) -> plan.Loop | None:
    if node.loop is None:
        return None
    return plan.Loop(
        condition=node.loop.condition,
        max_iterations=policy.find_iterations(node.loop, limits),
        entry=node.loop.loop_back_to or node.id,
        has_timeout_path=node.loop.timeout_path is not None,
    )


def find_output_sources(structure: Structure, named: list[int]) -> list[int]:
    """The nodes that the output waits for: those without successors, and those that it names.

    It is known whether a named node has an output when that node settles; inside a loop, when
    the outermost loop around it ends; above a join that cancels the rest, when that join fires,
    because the node may be withdrawn until then, and would never settle.
    """
    graph, loops = structure.graph, structure.loops
    canceller: dict[str, int] = {}
    for join, members in structure.cancels.items():
        for member in members:
            canceller.setdefault(member, join)
    sources = {number for number in range(len(graph.nodes)) if not graph.targets[number]}
    for number in named:
        while True:
            around = loops.around(number)
            if around and number != loops.bodies[around[0]].loop:
                number = loops.bodies[around[0]].loop
            elif graph.nodes[number].id in canceller:
                number = canceller[graph.nodes[number].id]
            else:
                break
        sources.add(number)
    return sorted(sources)


def _make_output_node(
    workflow: model.Workflow,
    graph: Graph,
    named: list[int],
    catalog: Catalog,
    sources: int,
) -> plan.Node:
    return plan.Node(
        id=OUTPUT_NODE,
        type="transform",
        config={"value": workflow.output},
        queue=_inline_queue(workflow, catalog),
        expects=(sources,),
        reads=tuple(plan.Read(node=graph.nodes[number].id) for number in named),
    )
