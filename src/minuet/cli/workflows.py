"""`minuet deploy` and `minuet workflows`: workflows that are stored under their names."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path

import msgspec

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.compiling import CompiledWorkflow, compile_source
from minuet.app.options import worker_settings
from minuet.app.workflows import WorkflowView
from minuet.cli.output import (
    brief,
    clean,
    format_age,
    format_moment,
    format_short_age,
    note,
    print_json,
    print_table,
)
from minuet.cli.problems import print_diagnostics
from minuet.cli.sources import find_source, python_file
from minuet.cli.stores import Place, command_line, is_memory, open_place, with_app
from minuet.cli.user import user_name
from minuet.errors import ConfigError, DocumentError, MinuetError, StoreUnusableError
from minuet.model import dump_document, read_mapping, write_yaml
from minuet.types import Json

_LOST = "the store has lost its document: deploy the same file again"


def deploy(arguments: Namespace) -> int:
    """Store workflows as new versions: all of them, or none if one has a problem."""
    if is_memory(arguments.store):
        raise ConfigError("memory:// ends with this process: nobody would find what is deployed")
    app = open_place(arguments.store, **worker_settings(arguments.settings))
    compiled: list[CompiledWorkflow] = []
    wrong: list[DocumentError] = []
    for file in arguments.files:
        try:
            source = find_source(file) if python_file(file) else Path(file)
            found = compile_source(source, retry=app.options.retry_policy)
        except DocumentError as error:
            wrong.append(error)
            continue
        print_diagnostics(file, found.warnings)
        compiled.append(found)
    if wrong:
        return _print_wrong(arguments, wrong)
    _check_names(compiled)
    deployed = asyncio.run(_deploy(app, arguments, compiled))
    if arguments.output == "json":
        print_json([shapes.deployed(view) for view in deployed])
        return outcomes.COMPLETED
    for view in deployed:
        print(clean(_describe_deployed(view, arguments.tag)))
    if len(deployed) == 1:
        at = "" if arguments.tag == "main" else f"@{arguments.tag}"
        word = f"{deployed[0].name}{at}"
        note(f"Start a run of it with: {command_line(arguments.store, 'start', word)}")
    return outcomes.COMPLETED


async def _deploy(
    app: Place, arguments: Namespace, compiled: list[CompiledWorkflow]
) -> list[WorkflowView]:
    done: list[WorkflowView] = []
    async with app:
        for one in compiled:
            try:
                view = await app.workflows.deploy(
                    one, arguments.tag, arguments.message, by=user_name()
                )
            except MinuetError:
                if done:
                    names = ", ".join(view.name for view in done)
                    note(f"Deployed before this: {names}. Run the same command again.")
                raise
            done.append(view)
    return done


def _print_wrong(arguments: Namespace, wrong: list[DocumentError]) -> int:
    """All problems of all files. Nothing was deployed."""
    for error in wrong:
        print_diagnostics(error.source, error.diagnostics)
    found = [one for error in wrong for one in error.diagnostics]
    files = f"{len(wrong)} of {len(arguments.files)} files" if len(arguments.files) > 1 else "it"
    message = f"{shapes.count_errors(found)} in {files}: nothing was deployed"
    if len(arguments.files) == 1:
        message = f"{wrong[0].source}: {shapes.count_errors(found)}: nothing was deployed"
    if arguments.output == "json":
        listed = [
            shape
            for error in wrong
            for shape in shapes.diagnostics(error.diagnostics, error.source)
        ]
        code = DocumentError.code
        print_json({"error": {"code": code, "message": message, "diagnostics": listed}})
    note(message)
    return outcomes.INVALID


def _check_names(compiled: list[CompiledWorkflow]) -> None:
    """Refuse two documents of one name: one would be hidden behind the other."""
    counts = Counter(one.plan.name for one in compiled)
    for name, number in counts.items():
        if number > 1:
            files = [one.document.source for one in compiled if one.plan.name == name]
            raise ConfigError(
                f"{' and '.join(files)} have the same name, {name!r}: nothing was deployed"
            )


def _describe_deployed(view: WorkflowView, tag: str) -> str:
    if view.is_new:
        return f"{view.name}: version {view.version} deployed as {tag}"
    text = ", and its text is replaced" if view.source_changed else ""
    return f"{view.name}: version {view.version} was there already; {tag} names it{text}"


def list_workflows(arguments: Namespace) -> int:
    """List deployed workflows by name."""

    async def ask(app: Facade) -> list[WorkflowView]:
        return await app.workflows.list(after=arguments.after, limit=arguments.limit)

    found = with_app(arguments, ask)
    if arguments.output == "json":
        print_json([shapes.workflow(view) for view in found])
    elif not found:
        print("No workflows are deployed. `minuet deploy FILE` deploys one.")
    else:
        rows = [
            (
                clean(view.name),
                str(view.version),
                _tags_text(view),
                format_short_age(view.created_ms),
                brief(view.description or ""),
            )
            for view in found
        ]
        titles = ("workflow", "version", "tags", "age", "description")
        print_table(titles, rows, names=("workflow", "tags"))
    return outcomes.COMPLETED


def _tags_text(view: WorkflowView) -> str:
    """Tags; those that do not name this version with the number that they name."""
    return ", ".join(
        tag if number == view.version else f"{tag} → {number}" for tag, number in view.tags.items()
    )


def show(arguments: Namespace) -> int:
    """Show a version of a workflow and its document, or the text of the document alone."""

    async def ask(app: Facade) -> WorkflowView:
        return await app.workflows.get(arguments.workflow)

    view = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.workflow(view))
        return outcomes.COMPLETED
    if arguments.source:
        _print_source(view)
        return outcomes.COMPLETED
    by = f" by {view.created_by}" if view.created_by else ""
    created = f"{format_moment(view.created_ms)[:16]}{by} ({format_age(view.created_ms)})"
    lines = [
        f"{view.name}, version {view.version} of {view.newest}",
        f"tags: {_tags_text(view) or 'none'}",
        f"deployed: {created}",
        *([f"message: {view.message}"] if view.message else []),
        f"plan: {view.digest}",
        "",
        _document_text(view),
    ]
    print(clean("\n".join(lines)))
    return outcomes.COMPLETED


def tag(arguments: Namespace) -> int:
    """Have a tag name a version that is deployed."""

    async def ask(app: Facade) -> WorkflowView:
        return await app.workflows.tag(arguments.workflow, arguments.tag)

    view = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.workflow(view))
    else:
        print(clean(f"{view.name}: {arguments.tag} names version {view.version}"))
    return outcomes.COMPLETED


def delete(arguments: Namespace) -> int:
    """Delete a workflow with all its versions."""

    async def ask(app: Facade) -> WorkflowView:
        return await app.workflows.delete(arguments.name)

    view = with_app(arguments, ask)
    if arguments.output == "json":
        print_json(shapes.workflow(view))
    else:
        versions = "its only version" if view.newest == 1 else f"all {view.newest} versions"
        print(clean(f"{view.name}: {versions} deleted; runs keep their plans"))
    return outcomes.COMPLETED


def _print_source(view: WorkflowView) -> None:
    """The text alone, as it can be deployed again."""
    text = view.source
    if text is None:
        if view.document is None:
            raise StoreUnusableError(f"{view.name}@{view.version}: {_LOST}")
        note("It was deployed as data: this text was made of it.")
        text = write_yaml(_ordered(view.document))
    sys.stdout.write(clean(text) if sys.stdout.isatty() else text)


def _document_text(view: WorkflowView) -> str:
    """The document as it was written, or as JSON."""
    if view.source is not None:
        return view.source.replace("\r\n", "\n").rstrip("\n")
    if view.document is None:
        return f"{_LOST[0].upper()}{_LOST[1:]}."
    return msgspec.json.format(msgspec.json.encode(_ordered(view.document)), indent=2).decode()


def _ordered(document: dict[str, Json]) -> dict[str, Json]:
    """A document with its fields in the usual order: a name first."""
    try:
        return dump_document(read_mapping(document).workflow)
    except DocumentError:
        return document  # Another version of Minuet wrote it.
