"""Workflows: deployed versions, problems of documents, node types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minuet.app.shapes.base import Shape, moment
from minuet.model import dump_document

if TYPE_CHECKING:
    from minuet.app.compiling import CompiledWorkflow
    from minuet.app.workflows import WorkflowView
    from minuet.model.diagnostics import Diagnostic
    from minuet.nodes.spec import NodeTypeInfo


def workflow(found: WorkflowView) -> Shape:
    """A version of a deployed workflow."""
    return {
        "name": found.name,
        "version": found.version,
        "newest": found.newest,
        "digest": found.digest,
        "tags": dict(found.tags),
        "created_at": moment(found.created_ms),
        "created_by": found.created_by or None,
        "message": found.message or None,
        "description": found.description,
        "document": found.document,
        "source": found.source,
    }


def deployed(found: WorkflowView) -> Shape:
    """A version, and what deploying has done."""
    return {**workflow(found), "is_new": found.is_new, "source_changed": found.source_changed}


def node_type(found: NodeTypeInfo) -> Shape:
    """A node type."""
    return {
        "name": found.name,
        "version": found.version,
        "display_name": found.display_name or found.name,
        "summary": found.summary,
        "description": found.description,
        "icon": found.icon or None,
        "image": found.image or None,
        "queue": found.queue,
        "capabilities": {
            "supports_retry": found.kind != "inline",
            "takes_secrets": found.takes_secrets,
            **found.capabilities,
        },
        "config_schema": found.config_schema,
        "input_schema": found.input_schema,
        "output": found.output,
        "output_schema": found.output_schema,
        "example": found.example,
        "created_at": moment(found.created_ms),
    }


def diagnostics(found: Iterable[Diagnostic], file: str) -> list[Shape]:
    """Problems of a document."""
    return [
        {
            "file": file,
            "line": one.line,
            "column": one.column,
            "severity": one.severity,
            "code": one.code,
            "message": one.message,
            "path": one.path,
            "hint": one.hint,
        }
        for one in found
    ]


def validated(compiled: CompiledWorkflow | None, found: list[Shape]) -> Shape:
    """What is to be said about a document; None: it is not valid."""
    from minuet.plan.render import to_graph

    if compiled is None:
        unknown = ("workflow", "plan", "graph", "input_schema", "document")
        return {"valid": False, "diagnostics": found, **dict.fromkeys(unknown)}
    return {
        "valid": True,
        "diagnostics": found,
        "workflow": compiled.plan.name,
        "plan": compiled.digest,
        "graph": to_graph(compiled.plan),
        "input_schema": compiled.plan.input_schema,
        "document": dump_document(compiled.workflow),
    }
