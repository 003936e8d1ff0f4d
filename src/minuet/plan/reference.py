"""Which nodes templates and conditions name, and which of their outputs a node reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, NamedTuple

from minuet.errors import ConditionError, TemplateError
from minuet.model.diagnostics import quote
from minuet.model.workflow import Node, Workflow
from minuet.plan.ancestor import find_ancestors
from minuet.plan.catalog import Catalog
from minuet.plan.enclosing import Enclosing, count_common
from minuet.plan.graph import Graph
from minuet.plan.loop import Loops
from minuet.plan.plan import Read
from minuet.plan.policy import RENDERED, agent_fields, reassigned_to
from minuet.plan.problems import Problems
from minuet.plan.text import is_template, strings
from minuet.types import Path

#: Stands for all nodes before the one that reads, where its code names them as it runs.
ALL = "*"

#: The field of a node that has its compensator.
UNDOING = "compensator"

#: Nodes that `ALL` may stand for: each of their outputs comes with the token.
ALL_MAX = 100


class Reference(NamedTuple):
    """A node's name inside a template or condition, or `ALL`."""

    name: str
    path: Path
    #: Conditions and compensators are used when their node's output is known, so they may name
    #: that node.
    knows_output: bool = False

    @property
    def is_undoing(self) -> bool:
        """Whether it is in the node's compensator."""
        return self.path[2:3] == (UNDOING,)


class References(NamedTuple):
    """Every name in the document that must be a node."""

    #: By the position of the reading node.
    of_nodes: list[list[Reference]]
    of_output: list[Reference]


def collect_references(workflow: Workflow, catalog: Catalog, problems: Problems) -> References:
    """Compile every template and condition once, and list the nodes that they name."""
    reader = _Reader(problems)
    of_nodes = []
    for place, node in enumerate(workflow.nodes):
        kind = catalog.get(node.type)
        expressions = kind.expression_fields if kind is not None else ()
        of_nodes.append(list(_collect_node(reader, place, node, expressions)))
    references = References(of_nodes, list(reader.templates(workflow.output, ("output",))))
    _check_names(workflow, references, problems)
    return references


def _collect_node(
    reader: _Reader, place: int, node: Node, expressions: tuple[str, ...]
) -> Iterator[Reference]:
    at: Path = ("nodes", place)
    item = None
    if node.foreach is not None:
        item = node.foreach.as_
        yield from reader.templates(node.foreach.items, (*at, "foreach", "items"))
    for field, value in node.config.items():
        path = (*at, "config", field)
        if field in expressions and isinstance(value, str):
            yield from reader.expression(value, path)
        else:
            yield from reader.templates(value, path, item)
    for path, value in rendered_parts(place, node):
        yield from reader.templates(value, path, item)
    if node.concurrency is not None:
        yield from reader.templates(node.concurrency.key, (*at, "concurrency", "key"), item)
    if node.branch is not None:
        for number, rule in enumerate(node.branch.rules):
            path = (*at, "branch", "rules", number, "condition")
            yield from reader.condition(rule.condition, path)
    if node.loop is not None:
        yield from reader.condition(node.loop.condition, (*at, "loop", "condition"))
    if node.compensator is not None and node.compensator.config is not None:
        path = (*at, UNDOING, "config")
        yield from reader.templates(node.compensator.config, path, item, knows_output=True)


def rendered_parts(place: int, node: Node) -> Iterator[tuple[Path, Any]]:
    """The parts of a node beside its config whose templates are rendered."""
    if node.type == "human" and node.human_config is not None:
        for field in RENDERED:
            yield ("nodes", place, "human_config", field), getattr(node.human_config, field)
        others = reassigned_to(node.human_config)
        if others is not None:
            yield ("nodes", place, "human_config", "escalation_policy", "reassign"), others
    for field, value in agent_fields(node).items():
        yield ("nodes", place, "agent_config", field), value


class _Reader:
    """Compiles texts. Equal texts are compiled once."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._known: dict[tuple[str, str, str | None, bool], tuple[str, ...]] = {}

    def templates(
        self, value: Any, path: Path, item: str | None = None, *, knows_output: bool = False
    ) -> Iterator[Reference]:
        """The names in templates. `item` is what the items of a foreach are called there."""
        compiler = partial(_compile_template, item=item, knows_output=knows_output)
        for where, text in strings(value, path):
            if is_template(text):
                names = self._compile("bad-template", text, where, compiler, item, knows_output)
                yield from (Reference(name, where, knows_output) for name in names)

    def expression(self, source: str, path: Path) -> Iterator[Reference]:
        names = self._compile("bad-expression", source, path, _compile_expression)
        return (Reference(name, path) for name in names)

    def condition(self, source: Any, path: Path) -> Iterator[Reference]:
        names = self._compile("bad-condition", source, path, _compile_condition)
        return (Reference(name, path, knows_output=True) for name in names)

    def _compile(
        self,
        code: str,
        source: Any,
        path: Path,
        compiler: Callable[[Any], frozenset[str]],
        item: str | None = None,
        knows_output: bool = False,
    ) -> tuple[str, ...]:
        key = (code, source, item, knows_output) if isinstance(source, str) else None
        if key in self._known:
            return self._known[key]
        try:
            names = tuple(sorted(compiler(source)))
        except (ConditionError, TemplateError) as error:
            self._problems.error(code, str(error), path)
            return ()
        if key is not None:
            self._known[key] = names
        return names


def _compile_template(source: str, *, item: str | None, knows_output: bool) -> frozenset[str]:
    from minuet.templates import compile_template

    template = compile_template(source, item=item or "item", knows_output=knows_output)
    for name in ("item", "item_index") if item is None else ():
        if name in template.uses:
            raise TemplateError(f"{name!r} has a value only inside a 'foreach'", source=source)
    return template.references


def _compile_expression(source: str) -> frozenset[str]:
    from minuet.conditions import compile_expression

    return compile_expression(source).references


def _compile_condition(source: Any) -> frozenset[str]:
    from minuet.conditions import compile_condition

    condition = compile_condition(source)
    return condition.references | {ALL} if condition.reads_all else condition.references


def _check_names(workflow: Workflow, references: References, problems: Problems) -> None:
    names = {node.id for node in workflow.nodes}
    meant = names | {"input", "run"}
    for listed in (*references.of_nodes, references.of_output):
        for reference in listed:
            if reference.name not in names and reference.name != ALL:
                problems.error(
                    "unknown-reference",
                    f"there is no node {quote(reference.name)} to read from",
                    reference.path,
                    hint=problems.suggest(reference.name, meant),
                )


def find_reads(
    graph: Graph, loops: Loops, nests: Enclosing, references: References, problems: Problems
) -> list[tuple[Read, ...]]:
    """Resolve every reference. Refuse one that does not name an ancestor."""
    wanted: list[dict[int, Reference]] = []
    pairs: set[tuple[int, int]] = set()
    for number, place in enumerate(graph.places):
        others: dict[int, Reference] = {}
        for reference in references.of_nodes[place]:
            if reference.name == ALL:
                for above in _all_above(graph, number, reference, problems):
                    others.setdefault(above, reference)
                continue
            other = graph.numbers.get(reference.name)
            own = other == number and reference.knows_output
            if other is not None and not own:
                others.setdefault(other, reference)
        wanted.append(others)
        pairs.update((number, other) for other in others)
    ancestors = find_ancestors(graph, pairs)
    reads = []
    for number, others in enumerate(wanted):
        found = []
        for other in sorted(others):
            keep = count_common(nests.names[number], nests.names[other])
            if (number, other) in ancestors:
                found.append(Read(node=graph.nodes[other].id, keep=keep))
            elif set(loops.around(number)) & set(loops.around(other)):
                # Because of the back edge, everything in a body is above everything else in it;
                # the innermost loop around both is the last construct that they share.
                found.append(Read(node=graph.nodes[other].id, keep=keep, previous=True))
            elif graph.complete:
                _report_unrelated(graph, number, other, others[other], problems)
        reads.append(tuple(found))
    return reads


def _all_above(
    graph: Graph, number: int, reference: Reference, problems: Problems
) -> Collection[int]:
    """The ancestors of a node whose condition may read any of them."""
    found: set[int] = set()
    pending = list(graph.sources[number])
    while pending and len(found) <= ALL_MAX:
        above = pending.pop()
        if above not in found:
            found.add(above)
            pending.extend(graph.sources[above])
    if len(found) > ALL_MAX:
        problems.error(
            "bad-condition",
            f"the condition may read any of more than {ALL_MAX} nodes that come before "
            f"{quote(graph.nodes[number].id)}",
            reference.path,
            hint="list those that its code reads in 'nodes'",
        )
        return ()
    return found


def _report_unrelated(
    graph: Graph, number: int, other: int, reference: Reference, problems: Problems
) -> None:
    name, read = graph.nodes[number].id, graph.nodes[other].id
    if number == other:
        message = f"node {quote(name)} reads its own output before it has one"
        hint = "inside a loop it would be its output of the previous round"
    else:
        message = f"node {quote(name)} reads {quote(read)}, which does not come before it"
        hint = f"add {quote(read)} to the dependencies of {quote(name)}"
    problems.error("not-an-ancestor", message, reference.path, hint=hint)


def named(reads: tuple[Read, ...], references: Collection[Reference]) -> tuple[Read, ...]:
    """The reads that these references need."""
    names = {reference.name for reference in references}
    return reads if ALL in names else tuple(read for read in reads if read.node in names)
