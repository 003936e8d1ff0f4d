"""Workflows that are written inside others: documents in the config of `workflow` nodes.

Each is compiled into a plan of its own. The plan around it names it by its digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from minuet.errors import DocumentError
from minuet.model import workflow as model
from minuet.model.document import Document, read_within
from minuet.plan.digest import digest_plan, encode_plan
from minuet.plan.plan import Plan
from minuet.plan.problems import Problems

#: The node type, and the field of its config that names a workflow or is one.
TYPE, FIELD = "workflow", "workflow"


class ChildPlan(NamedTuple):
    """The plan of a workflow that is written inside another."""

    digest: str
    data: bytes
    plan: Plan


def find_inner(document: Document) -> Iterator[tuple[int, Document | DocumentError]]:
    """The documents inside a document, or why they cannot be read, by the place of their node."""
    for place, node in enumerate(document.workflow.nodes):
        if node.type == TYPE and isinstance(node.config.get(FIELD), dict):
            try:
                yield place, read_within(document, ("nodes", place, "config", FIELD))
            except DocumentError as error:
                yield place, error


def compile_inner(
    document: Any, compiler: Callable[[Document], Any], problems: Problems
) -> tuple[model.Workflow, tuple[ChildPlan, ...]]:
    """Compile the documents inside a document. The workflow, with digests in their place, and
    all plans; their problems are reported where they are."""
    workflow: model.Workflow = document.workflow
    nodes = list(workflow.nodes)
    found: dict[str, ChildPlan] = {}
    for place, inner in find_inner(document) if isinstance(document, Document) else ():
        digest = ""
        try:
            if isinstance(inner, DocumentError):
                raise inner
            compiled = compiler(inner)
            data = encode_plan(compiled.plan)
            digest = digest_plan(data)
            found |= {child.digest: child for child in compiled.children}
            found[digest] = ChildPlan(digest, data, compiled.plan)
            problems.take(compiled.diagnostics)
        except DocumentError as error:
            problems.take(error.diagnostics)
        config = {**nodes[place].config, FIELD: digest}
        nodes[place] = msgspec.structs.replace(nodes[place], config=config)
    return msgspec.structs.replace(workflow, nodes=tuple(nodes)), tuple(found.values())
