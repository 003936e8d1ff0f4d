"""Turn what callers pass into what can run: documents into plans, values into inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from minuet.app.handlers import all_types
from minuet.bridge.values import encode, needs_blob
from minuet.errors import DocumentError, HandlerError, InputError, OutputError
from minuet.model import (
    Diagnostic,
    Document,
    DocumentSource,
    read_document,
    read_file,
    read_mapping,
)

# The schema of documents, for editors.
from minuet.model.schema import document_schema as document_schema
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.flowing import DurableFunction
from minuet.nodes.handler import REGISTERED, AnyTask, Handlers
from minuet.nodes.io.tools import WORKFLOW_TOOL, find_task
from minuet.plan.catalog import Catalog, NodeKind
from minuet.plan.child import ChildPlan, find_inner
from minuet.plan.compile import compile_workflow
from minuet.plan.digest import digest_plan, encode_plan
from minuet.plan.plan import AGENT, RETRY_DEFAULT, Plan, Retry
from minuet.plan.policy import agent_fields
from minuet.plan.schema import find_input_problems
from minuet.plan.text import is_template
from minuet.store.blob import blob_ref, blob_value
from minuet.types import TYPE_QUEUE, Json

if TYPE_CHECKING:
    from minuet.model.workflow import Workflow


#: How the names of files with documents end.
_SUFFIXES = (".yaml", ".yml", ".json")


#: What a workflow can be given as, beside a `Workflow`: a path, the text of a document, the name
#: of a deployed one, or data.
AnyDocument: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | Document | CompiledWorkflow"


class CompiledWorkflow(msgspec.Struct, frozen=True):
    """A workflow, ready to be started."""

    document: Document
    plan: Plan
    #: The plan's stored bytes, and its digest.
    data: bytes
    digest: str
    warnings: tuple[Diagnostic, ...] = ()
    #: The plans of workflows that are written inside it.
    children: tuple[ChildPlan, ...] = ()

    @property
    def workflow(self) -> Workflow:
        return self.document.workflow


def read_source(source: Any) -> Document:
    """Read what a caller passed; DocumentError with all problems if it is not a workflow."""
    if isinstance(source, CompiledWorkflow):
        return source.document
    if isinstance(source, Document):
        return source
    try:
        if isinstance(source, DocumentSource):
            return source.read()
        if isinstance(source, Mapping):
            return read_mapping(dict(source))
        return read_document(source) if is_text(source) else read_file(source)
    except DocumentError as error:
        raise _with_meaning(error) from None


def read_text(text: str) -> Document:
    """Read a text that is no path, with or without a line break; DocumentError as above."""
    try:
        return read_document(text)
    except DocumentError as error:
        raise _with_meaning(error) from None


def is_text(source: Any) -> bool:
    """Whether a caller passed the text of a document: it has a line break."""
    return isinstance(source, str) and ("\n" in source or "\r" in source)


def is_name(source: Any) -> bool:
    """Whether a caller passed the name of a deployed workflow: neither a text nor a path.

    What is a path is decided by how it is written, and not by which files there are. A name has
    no slash.
    """
    if not isinstance(source, str) or is_text(source):
        return False
    return not ("/" in source or os.sep in source or source.lower().endswith(_SUFFIXES))


def compile_source(
    source: Any, *, handlers: Handlers | None = None, retry: Retry | None = None
) -> CompiledWorkflow:
    """Read and compile; with `handlers`, also check that the handlers named exist and take what
    the nodes' configs have.

    `retry` applies where neither a node nor the document's defaults set a policy.
    """
    if isinstance(source, CompiledWorkflow):
        return source
    document = read_source(source)
    problems = _check_handlers(document, handlers) if handlers is not None else []
    try:
        compiled = compile_workflow(document, catalog(document, handlers), retry or RETRY_DEFAULT)
    except DocumentError as error:
        raise _with_more(error, problems) from None
    if problems:
        raise DocumentError(problems, document.source)
    data = encode_plan(compiled.plan)
    return CompiledWorkflow(
        document,
        compiled.plan,
        data,
        digest_plan(data),
        tuple(compiled.diagnostics),
        compiled.children,
    )


#: Problems of meaning that are certain even while other fields could not be read.
_CERTAIN = frozenset(
    {
        *("unknown-node", "duplicate-node", "self-dependency", "cycle", "unknown-reference"),
        *(
            "undeclared-secret",
            "secret-not-available",
            "node-type-unavailable",
            "feature-unavailable",
            "empty-branch",
        ),
        *("bad-condition", "bad-template", "bad-expression", "bad-config", "bad-input-schema"),
    }
)


def _with_meaning(error: DocumentError) -> DocumentError:
    """Add certain problems of meaning in the fields that could be read, so that an author
    sees everything at once. Nodes with unreadable fields are left alone: what such a field
    would have said is not known."""
    if error.remainder is None:
        return error
    try:
        compile_workflow(error.remainder, catalog(error.remainder, None))
    except DocumentError as more:
        unread = {_node_of(diagnostic.path) for diagnostic in error.diagnostics} - {""}
        certain = [
            diagnostic
            for diagnostic in more.diagnostics
            if diagnostic.code in _CERTAIN and _node_of(diagnostic.path) not in unread
        ]
        return _with_more(error, certain)
    return error


def _with_more(error: DocumentError, more: list[Diagnostic]) -> DocumentError:
    found = sorted([*error.diagnostics, *more], key=lambda d: (d.line or 0, d.column or 0))
    return DocumentError(found, error.source)


def _node_of(path: str) -> str:
    """`nodes[3]` of `nodes[3].branch.default`."""
    node, bracket, _ = path.partition("]")
    return node + bracket if node.startswith("nodes[") else ""


def _check_handlers(document: Document, handlers: Handlers) -> list[Diagnostic]:
    """Handlers that this process does not have, and arguments that do not fit them."""
    found: list[Diagnostic] = []
    for number, node in enumerate(document.workflow.nodes):
        node_type = NODE_TYPES.get(node.type)
        if node.type == AGENT:
            found += _check_tools(document, number, handlers)
        if node.handler is None or node_type is None:
            continue
        if node_type.kind not in ("handler", "flow"):
            continue
        at = ("nodes", number)
        try:
            task: AnyTask | DurableFunction
            if node_type.kind == "flow":
                task = handlers.find_function(node.handler)
            else:
                task = handlers.find(node.handler)
        except HandlerError as error:
            found.append(document.diagnose("unknown-handler", str(error), (*at, "handler")))
            continue
        # The content of a blob is known only when the node runs.
        for misfit in task.misfits(node.config, complete=node.config_ref is None):
            code = "missing-argument" if misfit.is_missing else "unknown-argument"
            where = (*at, "config") if misfit.is_missing else (*at, "config", misfit.argument)
            found.append(document.diagnose(code, misfit.message, where))
    for _, inner in find_inner(document):
        if isinstance(inner, Document):
            found += _check_handlers(inner, handlers)
    return found


def _check_tools(document: Document, number: int, handlers: Handlers) -> Iterator[Diagnostic]:
    """Tools of an agent that this process does not have. Workflows may be deployed later."""
    node = document.workflow.nodes[number]
    told = agent_fields(node)
    field = "agent_config" if "available_tools" in told else "config"
    names = {**node.config, **told}.get("available_tools")
    for place, name in enumerate(names if isinstance(names, list) else []):
        if isinstance(name, str) and not (name.startswith(WORKFLOW_TOOL) or is_template(name)):
            try:
                find_task(name, handlers)
            except HandlerError as error:
                where = ("nodes", number, field, "available_tools", place)
                yield document.diagnose("unknown-tool", str(error), where)


def catalog(document: Document, handlers: Handlers | None) -> Catalog:
    """The node types, in the compiler's terms. Without `handlers`, the document may run elsewhere:
    types that are not known here may be registered there."""
    found = all_types(handlers or REGISTERED)
    kinds = {
        t.name: NodeKind(
            name=t.name,
            queue=t.queue,
            available=t.kind != "later",
            config_schema=t.config_schema,
            needs_handler=t.kind in ("handler", "flow"),
            takes_secrets=t.takes_secrets,
            expression_fields=t.expression_fields,
        )
        for t in found.values()
    }
    if handlers is None:
        for node in document.workflow.nodes:
            if node.type not in kinds:
                kinds[node.type] = NodeKind(
                    name=node.type, queue=f"{TYPE_QUEUE}{node.type}", is_elsewhere=True
                )
    return kinds


class EncodedInput(msgspec.Struct, frozen=True):
    """An input that fits a workflow, as a run of it will store it.

    `start` accepts one in place of the value, so that nothing is checked or encoded twice.
    """

    #: The plan that it was checked for.
    plan: Plan
    #: The value, or the reference to its blob.
    data: bytes
    #: The value, if it is large.
    blobs: tuple[bytes, ...] = ()


def encode_input(plan: Plan, value: Any) -> EncodedInput:
    """Check and encode a run's input; InputError with all problems unless it can be stored and
    fits the workflow's schema."""
    if isinstance(value, EncodedInput):
        if value.plan != plan:
            raise InputError(["the input was encoded for another workflow"], argument="input")
        return value
    try:
        data, plain = encode(value)
    except OutputError as error:
        raise InputError([str(error)]) from error
    check_input(plan, plain)
    if not needs_blob(data):
        return EncodedInput(plan, data)
    return EncodedInput(plan, blob_value(blob_ref(data), len(data)), (data,))


def encode_inputs(plan: Plan, values: Sequence[Any]) -> list[EncodedInput]:
    """The inputs of several runs; InputError says which one is wrong."""
    encoded = []
    for number, value in enumerate(values):
        try:
            encoded.append(encode_input(plan, value))
        except InputError as error:
            if len(values) == 1:
                raise
            problems = [f"inputs[{number}]: {problem}" for problem in error.problems]
            raise InputError(problems) from None
    return encoded


def check_input(plan: Plan, value: Json) -> None:
    """Check a value against the workflow's input schema; InputError with all problems."""
    problems = find_input_problems(plan.input_schema, value) if plan.input_schema else []
    if problems:
        raise InputError(problems)


def compile_child(source: Any) -> list[tuple[str, bytes]]:
    """The plan of a workflow that a durable function starts, and those written inside it: their
    digests and bytes."""
    compiled = compile_source(source)
    inner = [(child.digest, child.data) for child in compiled.children]
    return [(compiled.digest, compiled.data), *inner]
