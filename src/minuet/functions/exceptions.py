"""Exceptions of steps: as data in the journal, and back.

An exception arrives in the function as what the task raised: its class is looked up in the modules
that this process has imported, never imported by what a journal names.
"""

from __future__ import annotations

import builtins
import sys
from typing import Any

import msgspec

from minuet.errors import ChildFailedError, StepFailed

#: Attributes that an exception is rebuilt with; more is not an exception but a container.
ATTRIBUTES_MAX = 20


def class_of(error: BaseException) -> str:
    """Where the class of an exception is found: `module:name`."""
    kind = type(error)
    return f"{kind.__module__}:{kind.__qualname__}"


def contents_of(error: BaseException) -> dict[str, Any]:
    """What an exception was made of, if that is JSON."""
    found: dict[str, Any] = {"class": class_of(error)}
    args = _plain(list(error.args))
    if args is not None:
        found["args"] = args
    own = {name: value for name, value in vars(error).items() if not name.startswith("_")}
    if own and len(own) <= ATTRIBUTES_MAX:
        kept = {name: _plain(value) for name, value in own.items()}
        found["attributes"] = {name: value for name, value in kept.items() if value is not None}
    return found


def _plain(value: Any) -> Any:
    """A value if it is plain JSON; else None."""
    try:
        back = msgspec.json.decode(msgspec.json.encode(value))
    except Exception:
        return None
    return back if back == value else None


def rebuild(name: str, error: dict[str, Any]) -> BaseException:
    """The exception that a step has raised; StepFailed if its class is not at hand."""
    if "child" in error:
        child = error["child"]
        return ChildFailedError(child["run_id"], child["status"], child)
    kind = _find(str(error.get("class", "")))
    if kind is None or "args" not in error:
        return StepFailed(name, error)
    try:
        # Not by calling the class: its parameters need not be its args.
        made = kind.__new__(kind, *error["args"])
        made.args = tuple(error["args"])
        for attribute, value in error.get("attributes", {}).items():
            setattr(made, attribute, value)
        return made
    except Exception:
        return StepFailed(name, error)


def _find(path: str) -> type[Exception] | None:
    module_name, _, qualname = path.partition(":")
    found: Any = builtins if module_name == "builtins" else sys.modules.get(module_name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
