"""Find the handlers that a command runs."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from minuet.app.finder import Run
from minuet.cli.output import note
from minuet.cli.stores import command_line, is_server
from minuet.errors import DocumentError
from minuet.model import Document
from minuet.nodes.handler import Handlers
from minuet.nodes.loading import load_module

#: The tag of a run that says where its handlers were when it was started.
HANDLERS_TAG = "minuet.handlers"


def find_beside(file: str) -> list[str]:
    """The Python file of the same name beside a workflow file, if there is one."""
    beside = Path(file).with_suffix(".py")
    if not beside.is_file():
        return []
    note(f"handlers: {beside}")
    return [str(beside)]


def load_handlers(names: Sequence[str]) -> list[ModuleType]:
    """Import modules and files; ConfigError when that fails.

    For their own imports, the current folder and the files' folders are searched last, so that
    nothing there can replace a library.
    """
    folders = [Path(name).resolve().parent for name in names if name.endswith(".py")]
    for folder in (Path.cwd(), *folders):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    return [load_module(name) for name in names]


def with_places(
    error: DocumentError, document: Document, names: Sequence[str], handlers: Handlers
) -> DocumentError:
    """Say in which Python files beside the document the handlers are that were not found."""
    here = {function.partition(":")[2] for function in handlers.functions()}
    placed = []
    for found in error.diagnostics:
        node = re.fullmatch(r"nodes\[(\d+)\]\.handler", found.path)
        if found.code == "unknown-handler" and node is not None:
            handler = document.workflow.nodes[int(node[1])].handler or ""
            if handler not in here:
                place = _find_definition(document.source, handler, names)
                found = msgspec.structs.replace(found, hint=place or found.hint)
        placed.append(found)
    return DocumentError(placed, error.source)


def _find_definition(source: str, handler: str, names: Sequence[str]) -> str | None:
    """Where a function of this name is that was not loaded, and what to write to load it."""
    pattern = re.compile(rf"^(?:async\s+)?def\s+{re.escape(handler)}\b", re.MULTILINE)
    loaded = {Path(name).resolve() for name in names}
    for path in sorted(Path(source).parent.glob("*.py")):
        if path.resolve() not in loaded and pattern.search(_text_of(path)):
            options = " ".join(f"--handlers {shlex.quote(name)}" for name in (*names, str(path)))
            return f"{path} defines {handler!r}: add {options}"
    return None


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""


# ── where the handlers of a run were ────────────────────────────────────────────────────


def remember(names: Sequence[str]) -> dict[str, Any]:
    """Tags of a run that say where its handlers are. They are for people: nothing is ever imported
    because a store says so."""
    places = [str(Path(name).resolve()) if name.endswith(".py") else name for name in names]
    return {HANDLERS_TAG: places} if places else {}


def recall(tags: Mapping[str, Any]) -> list[str]:
    """Where the handlers of a run were when it was started; nothing if that is not known."""
    places = tags.get(HANDLERS_TAG)
    return [str(place) for place in places] if isinstance(places, list) else []


def resume_command(store: str, runs: Sequence[str], handlers: Sequence[str]) -> str:
    """The command that continues these runs."""
    words = [word for name in handlers for word in ("--handlers", name)]
    return command_line(store, "resume", *runs, *words)


def goes_on(place: str, run: Run, *, what: str = "it") -> str:
    """Who goes on with a run that was changed."""
    if is_server(place):
        return f"A worker goes on with {what}."
    command = resume_command(place, [run.run], recall(run.tags))
    return f"A worker goes on with {what}, or: {command}"
