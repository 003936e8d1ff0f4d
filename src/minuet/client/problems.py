"""What a server refuses (problem+json), as the exception that an App raises for the same."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

# With them, every code that a server can answer is known.
from minuet.api import errors as api_errors
from minuet.app.reading import read_approval
from minuet.errors import AlreadyDecidedError, DocumentError, InputError, MinuetError
from minuet.model.diagnostics import Diagnostic

#: Errors of which it is known that nothing was done: the call may go to another server.
ELSEWHERE = frozenset({api_errors.ReadOnlyError.code})


@functools.cache
def classes() -> dict[str, type[MinuetError]]:
    """The exceptions by their codes."""
    found: dict[str, type[MinuetError]] = {}
    left: list[type[MinuetError]] = [MinuetError]
    for kind in left:  # It grows while it is walked.
        left += [one for one in kind.__subclasses__() if one.__module__.startswith("minuet.")]
        # The code of a subclass that has none of its own is that of its base.
        if "code" in vars(kind):
            found.setdefault(kind.code, kind)
    return found


def error_of(status: int, data: bytes) -> MinuetError:
    """The error that an answer stands for."""
    try:
        problem = msgspec.json.decode(data, type=dict[str, Any])
        code, detail = str(problem["code"]), str(problem["detail"])
    except (msgspec.MsgspecError, KeyError):
        # Something between the client and the server has answered.
        text = data[:200].decode("utf-8", "replace").strip()
        return MinuetError(f"the server answered {status}{f': {text}' if text else ''}")
    kind = classes().get(code)
    if kind is DocumentError:
        return _document_error(problem)
    if kind is InputError:
        return InputError(problem.get("problems") or [detail], argument=_argument(problem))
    made: MinuetError = (kind or MinuetError).__new__(kind or MinuetError)
    Exception.__init__(made, detail)
    for name, value in (problem.get("fields") or {}).items():
        setattr(made, name, tuple(value) if isinstance(value, list) else value)
    if kind is None:
        made.code = code  # The server is newer than this client.
    if isinstance(made, AlreadyDecidedError):
        made.approval = read_approval(problem["approval"])
    return made


def _argument(problem: dict[str, Any]) -> str | None:
    found = (problem.get("fields") or {}).get("argument", "request")
    return None if found is None else str(found)


def _document_error(problem: dict[str, Any]) -> DocumentError:
    listed = problem.get("diagnostics") or []
    source = next((one["file"] for one in listed), "<document>")
    return DocumentError([_diagnostic(one) for one in listed], source)


def _diagnostic(shape: dict[str, Any]) -> Diagnostic:
    return msgspec.convert({k: v for k, v in shape.items() if k != "file"}, Diagnostic)
