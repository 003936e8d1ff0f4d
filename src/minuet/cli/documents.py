"""`minuet validate` and `minuet graph`: workflows as text. Nothing is run or stored."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.compiling import compile_source, document_schema
from minuet.app.handlers import make_handlers
from minuet.cli.handlers import load_handlers
from minuet.cli.output import note, print_json
from minuet.cli.problems import print_diagnostics
from minuet.cli.sources import find_source
from minuet.errors import DocumentError
from minuet.nodes.handler import Handlers


def validate(arguments: Namespace) -> int:
    """Report all problems of all files."""
    as_json = arguments.output == "json"
    handlers = None
    if arguments.handlers:
        handlers = make_handlers(load_handlers(arguments.handlers))
    checked = [_validate_one(file, handlers, quiet=as_json) for file in arguments.files]
    wrong = sum(not record["valid"] for record in checked)
    if as_json:
        print_json({"valid": not wrong, "files": checked})
    elif wrong and len(checked) > 1:
        note(f"{wrong} of {len(checked)} files have errors")
    return outcomes.INVALID if wrong else outcomes.COMPLETED


def _validate_one(file: str, handlers: Handlers | None, *, quiet: bool) -> dict[str, Any]:
    try:
        compiled = compile_source(find_source(file), handlers=handlers)
    except DocumentError as error:
        print_diagnostics(file, error.diagnostics)
        note(f"{file}: {shapes.count_errors(error.diagnostics)}")
        return {
            "file": file,
            "valid": False,
            "diagnostics": shapes.diagnostics(error.diagnostics, file),
        }
    print_diagnostics(file, compiled.warnings)
    plan = compiled.plan
    nodes = len(compiled.workflow.nodes)
    if not quiet:
        print(f"{file}: valid: {plan.name}, {nodes} node{'s' if nodes != 1 else ''}")
    return {
        "file": file,
        "valid": True,
        "workflow": plan.name,
        "nodes": nodes,
        "plan": compiled.digest,
        "diagnostics": shapes.diagnostics(compiled.warnings, file),
    }


def graph(arguments: Namespace) -> int:
    """Draw a workflow."""
    from minuet.plan.render import to_graph, to_mermaid

    compiled = compile_source(find_source(arguments.file))
    print_diagnostics(compiled.document.source, compiled.warnings)
    if arguments.output == "json" or arguments.format == "json":
        print_json(to_graph(compiled.plan))
    else:
        print(to_mermaid(compiled.plan), end="")
    return outcomes.COMPLETED


def schema(arguments: Namespace) -> int:
    """Print the JSON Schema of documents."""
    print_json(document_schema())
    return outcomes.COMPLETED
