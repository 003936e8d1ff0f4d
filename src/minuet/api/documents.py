"""Documents that clients send, and what they want to run.

Nothing that a client sends is ever taken as the path of a file.
"""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.api.requests import StartRun
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.compiling import CompiledWorkflow, compile_source, is_name, read_text
from minuet.errors import DocumentError, InputError


def compile_document(facade: Facade, document: dict[str, Any] | str) -> CompiledWorkflow:
    """Read and verify a document. Handlers are not checked: workers elsewhere may have them."""
    source = document if isinstance(document, dict) else read_text(document)
    return compile_source(source, retry=facade.options.retry_policy)


async def source_of(facade: Facade, asked: StartRun) -> CompiledWorkflow | str:
    """What to run: a compiled document, or the name of a deployed workflow."""
    if asked.document is not None and asked.workflow is not None:
        raise _wrong("workflow, document: only one of them says what to run")
    document = asked.workflow if isinstance(asked.workflow, dict) else asked.document
    if document is not None:
        if asked.tag is not None:
            raise _wrong("tag: a document has no tags; `tags` are those of the run")
        return compile_document(facade, document)
    name = asked.workflow
    assert not isinstance(name, dict)
    if name is None:
        if asked.tag is None:
            raise _wrong("body: one of workflow, document and tag must say what to run")
        return await facade.workflows.find_tagged(_checked(asked.tag, "tag"))
    if asked.tag is not None:
        if "@" in name:
            raise _wrong("workflow, tag: both say which version to run")
        name = f"{name}@{asked.tag}"
    return _checked(name, "workflow")


def _checked(name: str, field: str) -> str:
    if not is_name(name):
        raise _wrong(
            f"{field}: expected the name of a deployed workflow (name, name@tag or name@version), "
            f"got {name!r:.100}; send a document in `document`"
        )
    return name


def _wrong(problem: str) -> InputError:
    return InputError([problem], argument=problem.partition(":")[0])


async def find_warnings(facade: Facade, compiled: CompiledWorkflow) -> list[shapes.Shape]:
    """Warnings about a document, and about handlers that no worker has at the moment."""
    document = compiled.document
    unserved = await facade.workers.find_unserved(compiled.plan)
    found = list(compiled.warnings)
    for number, node in enumerate(document.workflow.nodes):
        queue = unserved.get(node.id)
        if queue is not None:
            message = (
                f"no worker serves the queue {queue!r} at the moment: runs wait at this node until "
                "one does"
            )
            warning = document.diagnose("unserved-handler", message, ("nodes", number))
            found.append(msgspec.structs.replace(warning, severity="warning"))
    return shapes.diagnostics(found, document.source)


async def validate(facade: Facade, document: dict[str, Any] | str) -> shapes.Shape:
    """Everything that is to be said about a document, whether it is valid or not."""
    try:
        compiled = compile_document(facade, document)
    except DocumentError as error:
        return shapes.validated(None, shapes.diagnostics(error.diagnostics, error.source))
    return shapes.validated(compiled, await find_warnings(facade, compiled))
