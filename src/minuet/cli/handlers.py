"""Finding the handlers that a command is to run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from minuet.cli.output import note
from minuet.errors import HandlerError
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.handler import REGISTERED, Handlers, load_module
from minuet.plan.plan import Plan


def find_beside(file: str) -> list[str]:
    """The Python file of the same name beside a workflow file, if there is one."""
    beside = Path(file).with_suffix(".py")
    if not beside.is_file():
        return []
    note(f"handlers: {beside}")
    return [str(beside)]


def load_handlers(names: Sequence[str]) -> list[ModuleType]:
    """Import modules and files; ConfigError when that fails.

    What they import in turn is looked for in the current folder and beside the files, last, so
    that nothing there can stand in for a library.
    """
    folders = [Path(name).resolve().parent for name in names if name.endswith(".py")]
    for folder in (Path.cwd(), *folders):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    return [load_module(name) for name in names]


def make_handlers(modules: Sequence[ModuleType]) -> Handlers:
    """All handlers that a worker with these modules has."""
    handlers = Handlers(REGISTERED)
    for module in modules:
        handlers.allow(module)
    return handlers


def find_missing(plan: Plan, handlers: Handlers) -> str | None:
    """What a plan's first handler that is not there is called; None: all are there."""
    for node in plan.nodes:
        if node.handler is not None and NODE_TYPES[node.type].kind == "handler":
            try:
                handlers.find(node.handler)
            except HandlerError:
                return node.handler
    return None
