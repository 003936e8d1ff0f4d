"""`minuet.Workflow`: a document that is written in Python, or loaded and changed there."""

from __future__ import annotations

import copy
import difflib
import os
from collections.abc import Iterator, Mapping
from contextvars import Token
from types import TracebackType
from typing import Any, Self, overload

from minuet.builder.editing import edit_text
from minuet.builder.node import Node, name_handler
from minuet.builder.places import PythonPlaces, caller, refuse
from minuet.builder.references import Expression
from minuet.builder.spelling import Root
from minuet.builder.values import (
    encode,
    names_in_conditions,
    names_in_expressions,
    names_in_templates,
)
from minuet.builder.wiring import Step, Wiring, ids_in, wire
from minuet.model import (
    Document,
    DocumentSource,
    Position,
    read_document,
    read_file,
    read_mapping,
    write_yaml,
)
from minuet.model.table import NODE, WORKFLOW
from minuet.nodes.building import BUILDING, Building
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import AnyTask
from minuet.nodes.values import schema_of
from minuet.types import InputT, Json, OutputT, Path

_NODE_ORDER = {field.name: number for number, field in enumerate(NODE.fields)}
#: The output stands at the end, because it names nodes.
_ORDER = [field.name for field in WORKFLOW.fields if field.name != "output"] + ["output"]


class Workflow(DocumentSource[InputT, OutputT]):
    """A workflow, written in Python or loaded from a document.

    Inside `with minuet.Workflow("order") as order:`, calling a task adds a node. Its arguments
    may be values, or references to what a run will have: `order.input.x`, `fetched.output.lines`.
    Edges follow from the references. Everything that takes a document takes a workflow.

    `input` is what a run takes: a class, whose JSON Schema the document then has, or a JSON Schema.
    `output` is the class of what a run gives: `result.output` is rebuilt as one. What the output
    consists of is set with `order.set(output=…)`, once there are nodes.
    """

    @overload
    def __init__(
        self: Workflow[Any, Any],
        name: str,
        *,
        input: dict[str, Any] | None = None,
        output: None = None,
        description: str | None = None,
        limits: dict[str, Any] | None = None,
        defaults: dict[str, Any] | None = None,
        on_failure: dict[str, Any] | None = None,
        on_cancel: dict[str, Any] | None = None,
        dlq_policy: str | None = None,
        on_dlq: str | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: Workflow[InputT, Any],
        name: str,
        *,
        input: type[InputT],
        output: None = None,
        description: str | None = None,
        limits: dict[str, Any] | None = None,
        defaults: dict[str, Any] | None = None,
        on_failure: dict[str, Any] | None = None,
        on_cancel: dict[str, Any] | None = None,
        dlq_policy: str | None = None,
        on_dlq: str | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: Workflow[Any, OutputT],
        name: str,
        *,
        input: dict[str, Any] | None = None,
        output: type[OutputT],
        description: str | None = None,
        limits: dict[str, Any] | None = None,
        defaults: dict[str, Any] | None = None,
        on_failure: dict[str, Any] | None = None,
        on_cancel: dict[str, Any] | None = None,
        dlq_policy: str | None = None,
        on_dlq: str | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        name: str,
        *,
        input: type[InputT],
        output: type[OutputT],
        description: str | None = None,
        limits: dict[str, Any] | None = None,
        defaults: dict[str, Any] | None = None,
        on_failure: dict[str, Any] | None = None,
        on_cancel: dict[str, Any] | None = None,
        dlq_policy: str | None = None,
        on_dlq: str | None = None,
    ) -> None: ...

    def __init__(
        self,
        name: str,
        *,
        input: Any = None,
        output: Any = None,
        description: str | None = None,
        limits: dict[str, Any] | None = None,
        defaults: dict[str, Any] | None = None,
        on_failure: dict[str, Any] | None = None,
        on_cancel: dict[str, Any] | None = None,
        dlq_policy: str | None = None,
        on_dlq: str | None = None,
    ) -> None:
        self._nodes: list[Node] = []
        self._by_id: dict[str, Node] = {}
        self._fields: dict[str, Any] = {}
        self._places: dict[Path, Position | None] = {(): caller()}
        self._loaded: Document | None = None
        #: Fields of a loaded document that were set again.
        self._changed: set[str] = set()
        self._tokens: list[Token[Building | None]] = []
        fields = {
            "name": name,
            "description": description,
            "input": input if isinstance(input, Mapping | None) else _schema(input),
            "limits": limits,
            "defaults": defaults,
            "on_failure": on_failure,
            "on_cancel": on_cancel,
            "dlq_policy": dlq_policy,
            "on_dlq": on_dlq,
        }
        self.set(**{field: value for field, value in fields.items() if value is not None})
        if output is not None:
            self.output_type = _output_type(output)

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any]) -> Workflow[Any, Any]:
        """Read a workflow from a file, from the text of a document (it has a line break), or from
        plain data. DocumentError with all problems."""
        if isinstance(source, Mapping):
            document = read_mapping(dict(source))
        elif isinstance(source, str) and "\n" in source:
            document = read_document(source)
        else:
            document = read_file(source)
        made: Workflow[Any, Any] = cls.__new__(cls)
        raw = copy.deepcopy(document.raw)
        made._nodes = [Node(made, fields, None, loaded=True) for fields in raw.pop("nodes")]
        made._by_id = {node.id: node for node in made._nodes}
        made._fields = raw
        made._places = {}
        made._loaded = document
        made._changed = set()
        made._tokens = []
        return made

    def __repr__(self) -> str:
        return f"<workflow {self.name}: {len(self._nodes)} nodes>"

    @property
    def name(self) -> str:
        """The workflow's name."""
        return str(self._fields.get("name"))

    # ── what a run has ──────────────────────────────────────────────────────────────────

    @property
    def input(self) -> Any:
        """The run's input: a reference."""
        return Expression(Root("input", self))

    @property
    def run(self) -> Any:
        """The run itself, such as `order.run.id`: a reference."""
        return Expression(Root("run", self))

    @property
    def item(self) -> Any:
        """The item, inside a node that runs once per item: a reference."""
        return Expression(Root("item", self))

    @property
    def item_index(self) -> Any:
        """The number of the item, inside a node that runs once per item: a reference."""
        return Expression(Root("item_index", self))

    @property
    def secrets(self) -> Any:
        """The values of secrets, such as `order.secrets.TOKEN`: a reference."""
        return Expression(Root("secrets", self))

    @property
    def iteration(self) -> Any:
        """The number of the round, inside a loop: a reference."""
        return Expression(Root("iteration", self))

    # ── writing ─────────────────────────────────────────────────────────────────────────

    def __enter__(self) -> Self:
        self._tokens.append(BUILDING.set(self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        BUILDING.reset(self._tokens.pop())

    def __getitem__(self, node_id: str) -> Node:
        """The node with this id."""
        found = self._by_id.get(node_id)
        if found is None:
            close = difflib.get_close_matches(str(node_id), self._by_id, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "add it first"
            refuse("unknown-node", f"there is no node {node_id!r} in {self.name!r}", hint)
        return found

    def __iter__(self) -> Iterator[Node]:
        """The nodes, in the order in which they were added."""
        return iter(self._nodes)

    def set(self, **fields: Any) -> Self:
        """Set any field of the document: `output`, `description`, `limits`, `defaults`, …"""
        place = caller()
        for name, value in fields.items():
            if name == "nodes":
                refuse("bad-argument", "nodes are added one by one", "call tasks inside `with`")
            self._fields[name] = encode(value, self)
            self._places[(name,)] = place
            self._changed.add(name)
        return self

    def add(self, node_id: str, fields: Mapping[str, Any]) -> Node:
        """Add a node with these fields of the document."""
        place = caller()
        known = self._by_id.get(node_id) if isinstance(node_id, str) else None
        if known is not None:
            first = known._places.get(())
            where = f" (the first is in line {first.line})" if first else ""
            refuse(
                "duplicate-node",
                f"there is a node {node_id!r} in {self.name!r} already{where}",
                f'give one of them another id: task.named("{node_id}_2")(…)',
            )
        written = {"id": encode(node_id, self)} | {
            name: encode(value, self) for name, value in fields.items() if value is not None
        }
        node = Node(self, written, place, loaded=False)
        self._nodes.append(node)
        self._by_id[node.id] = node
        return node

    def add_task(
        self, task: AnyTask, node_id: str, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Node:
        """Add a node that calls the task."""
        handler, config = name_handler(task, positional, dict(named))
        return self.add(node_id, {"handler": handler, "config": config or None})

    def add_foreach(
        self,
        task: AnyTask,
        node_id: str,
        positional: tuple[Any, ...],
        named: Mapping[str, Any],
        options: Mapping[str, int | None],
    ) -> Node:
        """Add a node that calls the task once for each item of its first argument."""
        handler, config = name_handler(task, positional, dict(named))
        if not config:
            refuse(
                "bad-argument",
                f"{task.name}.map(…) needs a list",
                "pass it as the first argument: task.map(line=fetched.output.lines)",
            )
        first = next(iter(config))
        items, config[first] = config[first], self.item
        given = {name: value for name, value in options.items() if value is not None}
        fields = {"handler": handler, "config": config, "foreach": {"items": items} | given}
        return self.add(node_id, fields)

    # ── the document ────────────────────────────────────────────────────────────────────

    def to_dict(self) -> dict[str, Any]:
        """The document as plain data."""
        listed = _list_sources(self._nodes, self._fields.get("edges"))
        wiring = wire({node.id: _step(node, listed.get(node.id, set())) for node in self._nodes})
        nodes = [_written(node, wiring) for node in self._nodes]
        if self._loaded is not None:
            # In the author's order; what was set later comes at the end.
            fields = dict.fromkeys(self._loaded.raw) | self._fields
            return copy.deepcopy(fields | {"nodes": nodes})
        known = [name for name in _ORDER if name in self._fields or name == "nodes"]
        order = [*known, *(name for name in self._fields if name not in known)]
        return copy.deepcopy(
            {name: nodes if name == "nodes" else self._fields[name] for name in order}
        )

    def to_yaml(self) -> str:
        """The document as YAML. Of a loaded document, what has not changed keeps its text, with its
        comments."""
        data = self.to_dict()
        text = self._loaded.text if self._loaded is not None else ""
        return edit_text(text, data) or write_yaml(data)

    def read(self) -> Document:
        """The document, for whatever takes a workflow. DocumentError with all problems, each at
        the line of Python that made it."""
        if self._tokens:
            refuse(
                "open-workflow",
                f"the workflow {self.name!r} is still being written here",
                "use it after the `with` block",
            )
        source = self._source()
        places = _WorkflowPlaces(source, self._loaded)
        data = self.to_dict()
        self._note_places(places, (), data)
        return read_mapping(data, source=source, places=places)

    def _note_places(self, places: PythonPlaces, at: Path, data: dict[str, Any]) -> None:
        """Note which line wrote which part of a document at this path."""
        for path, place in self._places.items():
            places.note((*at, *path), place)
        for number, (node, fields) in enumerate(zip(self._nodes, data["nodes"], strict=True)):
            here = (*at, "nodes", number)
            for path, place in node._places.items():
                places.note((*here, *path), place)
            spelling = node._spelling("dependencies")
            for index, name in enumerate(fields.get(spelling) or ()):
                places.note((*here, spelling, index), node._after.get(name))
            if node._inner is not None:
                inner = fields["config"]["workflow"]
                node._inner._note_places(places, (*here, "config", "workflow"), inner)

    def _source(self) -> str:
        """The file that messages are about."""
        if self._loaded is not None:
            return self._loaded.source
        place = self._places[()]
        return (place.file if place else None) or "<workflow>"


class _WorkflowPlaces(PythonPlaces):
    """Lines of Python, or of the text of a loaded document where Python has said nothing."""

    def __init__(self, source: str, loaded: Document | None) -> None:
        super().__init__(source)
        self._loaded = loaded

    def find(self, path: Path, *, at_key: bool = False) -> Position | None:
        found = super().find(path, at_key=at_key)
        if found is None and self._loaded is not None:
            return self._loaded.locate(path)
        return found


def _schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of what a workflow takes."""
    found = schema_of(kind)
    if not found:
        refuse(
            "bad-argument",
            f"{kind!r:.100} has no JSON Schema",
            "pass a dataclass, a model, a TypedDict or a JSON Schema as input",
        )
    return found


def _output_type(kind: Any) -> Any:
    if isinstance(kind, str | Mapping | list | Expression | Node):
        refuse(
            "bad-argument",
            "output is the class of what a run gives",
            "call .set(output=…) to say what it consists of",
        )
    return kind


def _list_sources(nodes: list[Node], edges: Json) -> dict[str, set[str]]:
    """The sources of nodes that the document lists elsewhere than at the node."""
    found: dict[str, set[str]] = {}
    for edge in edges if isinstance(edges, list) else ():
        if isinstance(edge, dict):
            found.setdefault(str(edge.get("to")), set()).add(str(edge.get("from")))
    for node in nodes:
        for target in ids_in(node._read("dependents")):
            found.setdefault(target, set()).add(node.id)
    return found


def _step(node: Node, listed: set[str]) -> Step:
    """What the wiring must know of a node."""
    branch, loop = node._read("branch"), node._read("loop")
    chosen: frozenset[str] | None = None
    conditions: list[Json] = []
    if isinstance(branch, dict) and branch.get("enabled") is not False:
        rules = [rule for rule in branch.get("rules") or () if isinstance(rule, dict)]
        lists = [rule.get("next_nodes") for rule in rules]
        chosen = ids_in(*lists, branch.get("default"), branch.get("available_next_nodes"))
        conditions += [rule.get("condition", rule.get("when")) for rule in rules]
    chooses = (chosen or frozenset()) | ids_in(node._read("on_error"), node._read("rejection_path"))
    entry = None
    if isinstance(loop, dict) and loop.get("enabled") is not False:
        chooses |= ids_in(loop.get("break_path"), loop.get("timeout_path"))
        back = loop.get("loop_back_to")
        entry = back if isinstance(back, str) and back != "self" else node.id
        conditions.append(loop.get("condition", loop.get("while")))
    reads: frozenset[str] = frozenset()
    if not node._loaded:
        reads = _names_in_fields(node) | names_in_conditions(conditions)
    written = ids_in(node._read("dependencies")) | listed
    return Step(reads, frozenset(node._after), written, chooses, chosen, entry)


def _names_in_fields(node: Node) -> frozenset[str]:
    """The nodes that a node's fields read, its conditions aside."""
    node_type = NODE_TYPES.get(str(node._read("type")))
    config, foreach = node._read("config"), node._read("foreach")
    templates: list[Json] = [node._read("concurrency")]
    if node._read("type") == "human":
        asked = node._read("human_config")
        templates.append({**asked, "form": None} if isinstance(asked, dict) else None)
    expressions: list[str] = []
    for field, value in config.items() if isinstance(config, dict) else ():
        if node_type is not None and field in node_type.expression_fields and type(value) is str:
            expressions.append(value)
        elif field != "workflow" or node_type is None or node_type.name != "workflow":
            # A child's document reads the nodes of the child.
            templates.append(value)
    item = "item"
    if isinstance(foreach, dict):
        templates.append(foreach.get("items"))
        item = str(foreach.get("as", item))
    return names_in_templates(templates, item) | names_in_expressions(expressions)


def _written(node: Node, wiring: Wiring) -> dict[str, Any]:
    """A node's fields, with the edges that follow from what nodes read."""
    fields = dict(node._fields)
    if node._inner is not None:
        fields["config"] = {**fields["config"], "workflow": node._inner.to_dict()}
    more = wiring.dependencies.get(node.id)
    if more:
        spelling = node._spelling("dependencies")
        fields[spelling] = [*(fields.get(spelling) or ()), *more]
    always = wiring.always.get(node.id)
    if always:
        fields["branch"] = _with_targets(fields["branch"], always)
    if node._loaded:
        return fields
    return dict(sorted(fields.items(), key=lambda field: _NODE_ORDER.get(field[0], 99)))


def _with_targets(branch: dict[str, Any], always: list[str]) -> dict[str, Any]:
    """A branch that leads to some nodes whatever it chooses."""
    if branch.get("type") == "agent_driven":
        return branch
    rules = [
        {**rule, "next_nodes": [*rule["next_nodes"], *always]} for rule in branch.get("rules") or ()
    ]
    return {**branch, "rules": rules, "default": [*(branch.get("default") or ()), *always]}
