"""A node of a workflow that is written in Python, and what can be said about it."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from minuet.builder.places import caller, refuse
from minuet.builder.references import Expression, Referable
from minuet.builder.spelling import Root
from minuet.builder.values import encode, encode_condition
from minuet.errors import HandlerError
from minuet.model import Position
from minuet.model.table import NODE
from minuet.nodes.handler import REGISTERED, AnyTask
from minuet.types import Json, Path

if TYPE_CHECKING:
    from minuet.builder.workflow import Workflow

Value = TypeVar("Value", covariant=True)

#: A condition: an expression, CEL text, or an object with a `type`.
Condition: TypeAlias = "Expression | str | bool | dict[str, Any]"

#: What a retry policy names: an exception class, an error code, or an HTTP status.
ErrorName: TypeAlias = "str | int | type[BaseException]"


#: Every spelling of a field, by any of them.
_SPELLINGS = {
    spelling: tuple(field.spellings) for field in NODE.fields for spelling in field.spellings
}


class Node(Referable):
    """A step of a workflow. Every verb returns the node, so that they can be chained; `then`
    returns the node that comes next."""

    def __init__(
        self, workflow: Workflow, fields: dict[str, Any], place: Position | None, *, loaded: bool
    ) -> None:
        self._workflow = workflow
        self._fields = fields
        self._loaded = loaded
        #: Whether a loaded node differs from its text.
        self._changed = not loaded
        #: Where fields were written, by their path below the node.
        self._places: dict[Path, Position | None] = {} if loaded else {(): place}
        #: The workflow that it runs as a child, if that is written in Python too.
        self._inner: Workflow | None = None
        #: Nodes that come before, without data, and where that was said.
        self._after: dict[str, Position | None] = {}

    def __repr__(self) -> str:
        return f"<node {self.id} of {self._workflow.name}>"

    @property
    def id(self) -> str:
        """The node's id in the document."""
        return str(self._fields.get(self._spelling("id")))

    @property
    def output(self) -> Any:
        """What the node will return: a reference. Attributes and items lead further into it."""
        return Expression(Root(self.id, self._workflow, is_node=True))

    # ── where the run goes ──────────────────────────────────────────────────────────────

    def then(self, *nodes: Node) -> Node:
        """Let nodes come after this one, without data. Returns the last of them."""
        place = caller()
        for node in self._own(nodes):
            node._after.setdefault(self.id, place)
        return nodes[-1] if nodes else self

    def branch(
        self,
        *rules: tuple[Condition, Node | Sequence[Node]],
        default: Node | Sequence[Node] | None = None,
        available_next_nodes: Sequence[Node] | None = None,
    ) -> Node:
        """Choose where the run goes when the output is known: the first rule that holds decides.

        A rule is a condition and the node or nodes that it leads to. With
        `available_next_nodes`, an agent chooses from them instead.
        """
        written: dict[str, Any] = {}
        if available_next_nodes is not None:
            written["type"] = "agent_driven"
            written["available_next_nodes"] = self._ids(available_next_nodes)
        if rules:
            written["rules"] = [self._rule(rule) for rule in rules]
        if default is not None:
            written["default"] = self._ids(default)
        return self._write("branch", written)

    def loop(
        self,
        *,
        while_: Condition,
        max_iterations: int | None = None,
        back_to: Node | None = None,
        exit: Node | Sequence[Node] | None = None,
        timeout: Node | Sequence[Node] | None = None,
    ) -> Node:
        """Go back while a condition holds: to this node, or to an earlier one.

        `exit` is where the run goes when it no longer holds; what reads this node goes on anyway.
        `timeout` is where it goes when the iterations are used up; without it, the node fails.
        """
        written = {"condition": encode_condition(while_, self._workflow, self.id)}
        if max_iterations is not None:
            written["max_iterations"] = encode(max_iterations, self._workflow)
        if back_to is not None and back_to is not self:
            (written["loop_back_to"],) = self._ids(back_to)
        if exit is not None:
            written["break_path"] = self._ids(exit)
        if timeout is not None:
            written["timeout_path"] = self._ids(timeout)
        return self._write("loop", written)

    def rejected(self, node: Node | Sequence[Node]) -> Node:
        """Where the run goes when a person rejects."""
        return self._write("rejection_path", self._ids(node))

    def on_error(self, to: Node | Sequence[Node] | Literal["continue", "fail"]) -> Node:
        """What a failure does: go to other nodes, continue, or fail the run."""
        return self._write("on_error", to if isinstance(to, str) else self._ids(to))

    # ── how it runs ─────────────────────────────────────────────────────────────────────

    def foreach(
        self,
        items: Any,
        *,
        max_parallel: int | None = None,
        need: int | None = None,
        as_: str | None = None,
        on_item_error: Literal["fail", "continue"] | None = None,
    ) -> Node:
        """Run the node once for each item of a list; `{{ item }}` is the item.

        With `on_item_error="continue"`, an item that fails has `{"error": …}` in its place of the
        output, and the others go on.
        """
        written = {
            "items": items,
            "max_parallel": max_parallel,
            "need": need,
            "as": as_,
            "on_item_error": on_item_error,
        }
        return self._write("foreach", _given(written))

    def retry(
        self,
        max_attempts: int | None = None,
        *,
        backoff_ms: int | None = None,
        multiplier: float | None = None,
        max_delay_ms: int | None = None,
        jitter: bool | None = None,
        retry_on: Sequence[ErrorName] | None = None,
        no_retry_on: Sequence[ErrorName] | None = None,
    ) -> Node:
        """How a failed attempt is repeated. `max_attempts` includes the first."""
        written: dict[str, Any] = {
            "max_attempts": max_attempts,
            "backoff_ms": backoff_ms,
            "multiplier": multiplier,
            "max_delay_ms": max_delay_ms,
            "jitter": jitter,
            "retry_on": _error_names(retry_on),
            "no_retry_on": _error_names(no_retry_on),
        }
        return self._write("retry", _given(written))

    def timeout(self, seconds: float | timedelta, *, soft: float | timedelta | None = None) -> Node:
        """How long one attempt may take. After `soft`, `ctx.out_of_time` tells the handler to come
        to an end."""
        if soft is not None:
            self._write("soft_timeout_seconds", _seconds(soft))
        return self._write("timeout_seconds", _seconds(seconds))

    def isolate(self, *, max_memory_mb: int | None = None) -> Node:
        """Run each attempt in a process of its own, which can be killed, with so much memory."""
        if max_memory_mb is not None:
            limits = {**self._fields.get("limits", {}), "max_memory_mb": max_memory_mb}
            self._write("limits", limits)
        return self._write("isolation", "process")

    def compensate(self, task: AnyTask | str, /, *arguments: Any, **config: Any) -> Node:
        """How the node is undone: a task, or a handler's name, and its arguments."""
        handler, config = name_handler(task, arguments, config)
        return self._write(
            "compensator", {"handler": handler} | ({"config": config} if config else {})
        )

    def set(self, **fields: Any) -> Node:
        """Set any other field of the document: `join`, `secrets`, `concurrency`, `limits`, …"""
        place = caller()
        for name, value in fields.items():
            self._write(name, value, place)
        return self

    # ── for the workflow ────────────────────────────────────────────────────────────────

    def _write(self, name: str, value: Any, place: Position | None = None) -> Node:
        spelling = self._spelling(name)
        if name == "join":
            self._fields.pop("wait_for_all", None)
        self._fields[spelling] = encode(value, self._workflow)
        self._places[(spelling,)] = place or caller()
        self._changed = True
        return self

    def _spelling(self, name: str) -> str:
        """The author's spelling of a field, if it is written; else its name."""
        spellings = _SPELLINGS.get(name, ())
        return next((spelling for spelling in spellings if spelling in self._fields), name)

    def _read(self, name: str) -> Json:
        """A field as written, or None."""
        return self._fields.get(self._spelling(name))

    def _rule(self, rule: Any) -> dict[str, Json]:
        if not isinstance(rule, tuple) or len(rule) != 2:
            refuse(
                "bad-rule",
                "a rule of a branch is a condition and where it leads to",
                "write .branch((condition, node), default=other)",
            )
        condition, nodes = rule
        return {
            "condition": encode_condition(condition, self._workflow, self.id),
            "next_nodes": self._ids(nodes),
        }

    def _ids(self, nodes: Any) -> list[str]:
        return [node.id for node in self._own([nodes] if isinstance(nodes, Node) else nodes)]

    def _own(self, nodes: Any) -> list[Node]:
        """Nodes of the same workflow."""
        if not isinstance(nodes, list | tuple):
            nodes = [nodes]
        for node in nodes:
            if not isinstance(node, Node):
                refuse(
                    "not-a-node",
                    f"expected a node, found {node!r:.80}",
                    "pass what a task or minuet.transform(…) returned inside this workflow",
                )
            if node._workflow is not self._workflow:
                refuse(
                    "foreign-reference",
                    f"node {node.id!r} belongs to another workflow",
                    "use minuet.child(…) to run another workflow",
                )
        return list(nodes)


if TYPE_CHECKING:

    class Mapped(Node, Coroutine[Any, Any, Value]):
        """What `task.map` returns, as far as a type checker can know: a node inside
        `with minuet.Workflow(…)`, and steps to be awaited inside a durable function."""


def name_handler(
    task: AnyTask | str, arguments: tuple[Any, ...], config: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """What a document calls a handler, and its arguments by name. A task is registered."""
    if isinstance(task, str):
        if arguments:
            refuse("bad-argument", f"the arguments of {task!r} need names", "write name=value")
        return task, config
    try:
        named = task.name_arguments(arguments)
    except HandlerError as error:
        refuse("bad-argument", str(error), "pass arguments by name")
    twice = sorted(named.keys() & config.keys())
    if twice:
        message = f"handler {task.name!r} gets the argument {twice[0]!r} twice"
        refuse("bad-argument", message, "pass it once")
    REGISTERED.add(task)
    return task.name, named | config


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _seconds(duration: float | timedelta) -> float:
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def _error_names(errors: Sequence[ErrorName] | None) -> list[str | int] | None:
    if errors is None:
        return None
    return [error if isinstance(error, str | int) else _class_name(error) for error in errors]


def _class_name(error: type[BaseException]) -> str:
    # A program that is run as a script has another module name in its workers.
    is_short = error.__module__ in ("builtins", "__main__")
    return error.__qualname__ if is_short else f"{error.__module__}.{error.__qualname__}"
