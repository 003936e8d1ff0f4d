"""What names a workflow on the command line: a document's file, or a workflow of a Python file."""

from __future__ import annotations

import difflib
import re
from typing import Any

from minuet.cli.handlers import load_handlers
from minuet.errors import ConfigError
from minuet.model import DocumentSource

#: `orders.py`, or `orders.py:order`.
_PYTHON = re.compile(r"(?P<file>.+\.py)(?::(?P<name>\w+))?")


def python_file(text: str) -> str | None:
    """The Python file that a workflow is to be taken from; None: it is a document's file."""
    found = _PYTHON.fullmatch(text)
    return None if found is None else found["file"]


def find_source(text: str) -> Any:
    """What `FILE` means: the path, or a workflow that a Python file defines.

    `orders.py:order` is the durable function or the `Workflow` of that name; `orders.py` is the
    only one that the file has.
    """
    found = _PYTHON.fullmatch(text)
    if found is None:
        return text
    (module,) = load_handlers([found["file"]])
    workflows = {
        name: value for name, value in vars(module).items() if isinstance(value, DocumentSource)
    }
    name = found["name"]
    if name is None and len(workflows) == 1:
        return next(iter(workflows.values()))
    if name in workflows:
        return workflows[name]
    raise ConfigError(f"{found['file']} {_problem(name, sorted(workflows))}")


def _problem(name: str | None, known: list[str]) -> str:
    if not known:
        return "has no workflow: a function with @minuet.workflow, or a minuet.Workflow"
    if name is None:
        return f"has several workflows: add one of :{', :'.join(known)}"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else f"; it has {', '.join(known)}"
    return f"has no workflow {name!r}{hint}"
