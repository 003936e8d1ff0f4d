"""A node with `foreach` as three nodes of the plan.

    N$items ─► N$item (once per item) ─► N

The first renders the list and starts the items: it takes the edges that lead to N. The second does
what the author's node does, in a scope that ends with the number of the item. The third collects
the outputs, in the order of the items. It is what others know as N: it has N's edges, branch, loop
and `on_error`, and its output is the list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from minuet.model import workflow as model
from minuet.model.diagnostics import quote
from minuet.plan import plan
from minuet.plan.plan import GATHER_TYPE, ITEMS_TYPE, item_id, items_id
from minuet.plan.problems import Problems
from minuet.plan.reference import Reference, named
from minuet.templates import VARIABLES

#: They compute nothing that another attempt would compute differently.
_ONCE = plan.Retry(max_attempts=1)


def check_foreach(workflow: model.Workflow, problems: Problems) -> None:
    """Refuse names of items that mean something else."""
    ids = {node.id for node in workflow.nodes}
    reserved = (set(VARIABLES) | {"nodes"}) - {"item"}
    for place, node in enumerate(workflow.nodes):
        if node.foreach is None:
            continue
        items = node.foreach.items
        if isinstance(items, str) and not (items.strip().startswith("{{") and "}}" in items):
            problems.error(
                "foreach-not-a-list",
                f"the items of node {quote(node.id)} are the text {quote(items)}, not a list",
                ("nodes", place, "foreach", "items"),
                hint='write a list, or one template that gives a list: "{{ input.list }}"',
            )
        name = node.foreach.as_
        path = ("nodes", place, "foreach", "as")
        if name in reserved or name in ids:
            meaning = "a node" if name in ids else "a variable"
            problems.error(
                "foreach-name-taken",
                f"the items of node {quote(node.id)} cannot be called {quote(name)}: "
                f"that is {meaning}",
                path,
                hint="choose another name in 'as'",
            )


def expand(
    nodes: list[plan.Node],
    authors: Mapping[str, model.Node],
    references: Mapping[str, list[Reference]],
    inline_queue: str,
) -> list[plan.Node]:
    """Replace each node that has a foreach by its three nodes, and lead edges to the first."""
    mapped = {name for name, node in authors.items() if node.foreach is not None}
    found: list[plan.Node] = []
    for node in nodes:
        node = _redirect(node, mapped)
        if node.id in mapped:
            found += _split(node, authors[node.id], references[node.id], inline_queue)
        else:
            found.append(node)
    return found


def _redirect(node: plan.Node, mapped: Collection[str]) -> plan.Node:
    """Lead the node's edges to the nodes that take the place of their targets."""

    def replaced(name: str) -> str:
        return items_id(name) if name in mapped else name

    change = msgspec.structs.replace
    cancels = [
        one
        for name in node.cancels
        for one in ((items_id(name), item_id(name), name) if name in mapped else (name,))
    ]
    # A branch keeps the names that its author, or an agent, chooses from.
    return change(
        node,
        edges=tuple(change(edge, target=replaced(edge.target)) for edge in node.edges),
        cancels=tuple(cancels),
    )


def _split(
    node: plan.Node, author: model.Node, references: list[Reference], inline_queue: str
) -> tuple[plan.Node, plan.Node, plan.Node]:
    assert author.foreach is not None
    foreach, keep, change = author.foreach, len(node.nest), msgspec.structs.replace
    parts = plan.Foreach(
        node=node.id,
        max_parallel=foreach.max_parallel,
        need=foreach.need,
        on_item_error=foreach.on_item_error,
        alias=foreach.as_,
    )
    references = [r for r in references if not r.is_undoing]
    of_list = [r for r in references if r.path[2] == "foreach"]
    of_conditions = [r for r in references if r.knows_output]
    of_item = [r for r in references if r not in of_list and r not in of_conditions]
    gathered = plan.Edge(target=node.id, keep=keep)
    items = plan.Node(
        id=items_id(node.id),
        type=ITEMS_TYPE,
        config={"items": foreach.items},
        queue=inline_queue,
        nest=node.nest,
        edges=(gathered, plan.Edge(target=item_id(node.id), keep=keep, enter=(0,))),
        need=node.need,
        expects=node.expects,
        cancels=node.cancels,
        reads=named(node.reads, of_list),
        retry=_ONCE,
        retry_by="document",
        hold=node.hold,
        foreach=change(parts, role="items"),
        max_hops=node.max_hops,
        max_fanout=node.max_fanout,
        max_output_bytes=node.max_output_bytes,
    )
    item = change(
        node,
        id=item_id(node.id),
        nest=(*node.nest, item_id(node.id)),
        edges=(gathered,),
        need=0,
        expects=(1,),
        cancels=(),
        reads=named(node.reads, of_item),
        branch=None,
        loop=None,
        on_error="fail",
        foreach=change(parts, role="item"),
    )
    every = plan.Read(node=item.id, keep=keep, every=True)
    gather = plan.Node(
        id=node.id,
        type=GATHER_TYPE,
        queue=inline_queue,
        nest=node.nest,
        edges=node.edges,
        expects=(1,),
        reads=(every, *named(node.reads, of_conditions)),
        branch=node.branch,
        loop=node.loop,
        retry=_ONCE,
        retry_by="document",
        on_error=node.on_error,
        hold=node.hold,
        foreach=change(parts, role="gather"),
        max_hops=node.max_hops,
        max_fanout=node.max_fanout,
        max_output_bytes=node.max_output_bytes,
    )
    return items, item, gather
