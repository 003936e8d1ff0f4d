"""Workflows: deployed versions, problems of documents, node types."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from minuet.api.replies.base import Moment, Reply
from minuet.api.replies.graphs import Graph


class Diagnostic(Reply, frozen=True):
    """A problem of a document."""

    file: str
    line: int | None
    column: int | None
    severity: Literal["error", "warning"]
    code: str
    message: str
    path: str
    hint: str | None


class Validated(Reply, frozen=True):
    """What is to be said about a document."""

    valid: bool
    diagnostics: list[Diagnostic]
    workflow: Annotated[str | None, Meta(description="Its name; null: it is not valid.")]
    plan: str | None
    graph: Graph | None
    input_schema: dict[str, Any] | None
    document: Annotated[
        dict[str, Any] | None, Meta(description="As data, with the names of fields as usual.")
    ]


class Workflow(Reply, frozen=True):
    """A version of a deployed workflow."""

    name: str
    version: int
    newest: Annotated[int, Meta(description="The workflow's newest version.")]
    digest: str
    tags: dict[str, int]
    created_at: Moment
    created_by: str | None
    message: str | None
    description: str | None
    document: dict[str, Any] | None
    source: Annotated[
        str | None,
        Meta(description="Its text as it was deployed last, in YAML or JSON; null: as data."),
    ] = None
    is_new: Annotated[bool, Meta(description="Whether deploying made it.")] = False
    source_changed: Annotated[
        bool, Meta(description="Whether it was there, and deploying has replaced its text.")
    ] = False
    diagnostics: list[Diagnostic] = []


class NodeType(Reply, frozen=True):
    """A node type."""

    name: str
    version: str
    display_name: str
    summary: str
    description: str
    icon: str | None
    image: str | None
    queue: str
    capabilities: dict[str, Any]
    config_schema: dict[str, Any]
    input_schema: dict[str, Any]
    output: str
    output_schema: dict[str, Any]
    example: Any
    created_at: Annotated[
        Moment | None, Meta(description="When a worker first announced this version.")
    ]


class BlobReference(Reply, frozen=True):
    """Where a content is kept."""

    cas_ref: Annotated[str, Meta(examples=["cas://sha256:9f86d081884c7d65…"])]
    bytes: int
