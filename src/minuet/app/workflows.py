"""From what a caller has (a file, a mapping, a document) to a program that can run."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.errors import DocumentError, HandlerError, InputError, OutputError
from minuet.model import Diagnostic, Document, read_file, read_mapping
from minuet.model import workflow as model
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import Handlers
from minuet.plan.catalog import Catalog, NodeKind
from minuet.plan.compile import compile_workflow
from minuet.plan.digest import digest_plan, encode_plan
from minuet.plan.plan import Plan, Retry
from minuet.plan.schema import find_input_problems
from minuet.types import Json
from minuet.worker.output import encode

if TYPE_CHECKING:
    from minuet.model.workflow import Workflow


class CompiledWorkflow(msgspec.Struct, frozen=True):
    """A workflow, ready to be started."""

    document: Document
    plan: Plan
    #: The plan as it is stored, and its digest.
    data: bytes
    digest: str
    warnings: tuple[Diagnostic, ...] = ()

    @property
    def workflow(self) -> Workflow:
        return self.document.workflow


def read_source(source: Any) -> Document:
    """Read whatever a caller has; DocumentError with all problems if it is no workflow."""
    if isinstance(source, CompiledWorkflow):
        return source.document
    if isinstance(source, Document):
        return source
    try:
        return read_mapping(dict(source)) if isinstance(source, Mapping) else read_file(source)
    except DocumentError as error:
        raise _with_meaning(error) from None


def compile_source(
    source: Any, *, handlers: Handlers | None = None, retry: Retry | None = None
) -> CompiledWorkflow:
    """Read and compile; with `handlers`, also check that the handlers named exist.

    `retry` is for what neither a node nor the document's defaults say.
    """
    if isinstance(source, CompiledWorkflow):
        return source
    document = read_source(source)
    compiled = compile_workflow(_with_retry(document, retry), catalog())
    if handlers is not None:
        missing = _missing_handlers(document, handlers)
        if missing:
            raise DocumentError(missing, document.source)
    data = encode_plan(compiled.plan)
    return CompiledWorkflow(
        document, compiled.plan, data, digest_plan(data), tuple(compiled.diagnostics)
    )


def _with_retry(document: Document, retry: Retry | None) -> Document:
    """The document with a default policy for what it leaves open."""
    if retry is None or retry == Retry():
        return document
    defaults = document.workflow.defaults
    own = msgspec.structs.asdict(defaults.retry) if defaults.retry is not None else {}
    said = {field: value for field, value in own.items() if value is not None}
    policy = model.Retry(**{**msgspec.structs.asdict(retry), **said})
    filled = copy.copy(document)
    filled.workflow = msgspec.structs.replace(
        document.workflow, defaults=msgspec.structs.replace(defaults, retry=policy)
    )
    return filled


#: Problems of meaning that are certain even while other fields could not be read.
_CERTAIN = frozenset(
    {
        *("unknown-node", "duplicate-node", "self-dependency", "cycle", "unknown-reference"),
        *("unknown-node-type", "node-type-unavailable", "feature-unavailable", "empty-branch"),
        *("bad-condition", "bad-template", "bad-expression", "bad-config", "bad-input-schema"),
    }
)


def _with_meaning(error: DocumentError) -> DocumentError:
    """Add what is certainly wrong with the meaning of what could be read, so that an author
    sees everything at once. Nodes with unreadable fields are left alone: what such a field
    would have said is not known."""
    if error.remainder is None:
        return error
    try:
        compile_workflow(error.remainder, catalog())
    except DocumentError as more:
        unread = {_node_of(diagnostic.path) for diagnostic in error.diagnostics} - {""}
        certain = [
            diagnostic
            for diagnostic in more.diagnostics
            if diagnostic.code in _CERTAIN and _node_of(diagnostic.path) not in unread
        ]
        found = sorted([*error.diagnostics, *certain], key=lambda d: (d.line or 0, d.column or 0))
        return DocumentError(found, error.source)
    return error


def _node_of(path: str) -> str:
    """`nodes[3]` of `nodes[3].branch.default`."""
    node, bracket, _ = path.partition("]")
    return node + bracket if node.startswith("nodes[") else ""


def _missing_handlers(document: Document, handlers: Handlers) -> list[Diagnostic]:
    """Handlers that this process does not have, each reported where it is named."""
    found = []
    for number, node in enumerate(document.workflow.nodes):
        if node.handler is None or NODE_TYPES[node.type].kind != "handler":
            continue
        try:
            handlers.find(node.handler)
        except HandlerError as error:
            path = ("nodes", number, "handler")
            found.append(document.diagnose("unknown-handler", str(error), path))
    return found


@lru_cache(maxsize=1)
def catalog() -> Catalog:
    """The node types, as the compiler wants to know them."""
    return {
        t.name: NodeKind(
            name=t.name,
            queue=t.queue,
            available=t.kind != "later",
            config_schema=t.config_schema,
            needs_handler=t.kind == "handler",
            expression_fields=t.expression_fields,
        )
        for t in NODE_TYPES.values()
    }


def encode_input(plan: Plan, value: Any) -> tuple[bytes, Json]:
    """A run's input as it is stored and as its nodes will see it; InputError with all problems
    unless it can be kept and fits the workflow's schema."""
    try:
        data, plain = encode(value)
    except OutputError as error:
        raise InputError([str(error)]) from error
    check_input(plan, plain)
    return data, plain


def check_input(plan: Plan, value: Json) -> None:
    """Check a value against the workflow's input schema; InputError with all problems."""
    problems = find_input_problems(plan.input_schema, value) if plan.input_schema else []
    if problems:
        raise InputError(problems)
