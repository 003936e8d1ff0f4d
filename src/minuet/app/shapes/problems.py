"""Errors, as a command prints them and as problem+json."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from minuet.app.shapes.approvals import approval
from minuet.app.shapes.base import Shape
from minuet.app.shapes.workflows import diagnostics
from minuet.errors import (
    AlreadyDecidedError,
    DocumentError,
    InputError,
    MinuetError,
    RunConflictError,
)
from minuet.outcomes import outcome_of

if TYPE_CHECKING:
    from minuet.model.diagnostics import Diagnostic


def error(found: MinuetError) -> Shape:
    """An error as a command prints it: as the errors of runs and nodes are written."""
    shape: Shape = {"code": found.code, "message": _message(found)}
    if isinstance(found, DocumentError):
        shape["diagnostics"] = diagnostics(found.diagnostics, found.source)
    if isinstance(found, AlreadyDecidedError):
        shape["approval"] = approval(found.approval)
    return shape


def problem(found: MinuetError, *, instance: str | None = None) -> Shape:
    """An error as problem+json (RFC 9457)."""
    outcome = outcome_of(found)
    shape: Shape = {
        "type": f"urn:minuet:problem:{found.code}",
        "title": outcome.title,
        "status": outcome.http_status,
        "detail": _message(found),
        "code": found.code,
        "instance": instance,
    }
    if isinstance(found, DocumentError):
        shape["diagnostics"] = diagnostics(found.diagnostics, found.source)
    if isinstance(found, InputError):
        shape["problems"] = list(found.problems)
    if isinstance(found, AlreadyDecidedError):
        shape["approval"] = approval(found.approval)
    if isinstance(found, RunConflictError):
        shape |= {"run_status": found.status, "seq": found.seq}
    fields = {name: value for name, value in vars(found).items() if _is_plain(value)}
    if fields:
        shape["fields"] = fields
    return shape


def _is_plain(value: object) -> bool:
    """Whether a field of an error is the same after it was sent as JSON."""
    if isinstance(value, list | tuple):
        return all(isinstance(one, str) for one in value)
    return value is None or isinstance(value, str | int | float)


def _message(found: MinuetError) -> str:
    """The problem; those of a document are listed beside it."""
    if isinstance(found, DocumentError):
        return f"{found.source}: {count_errors(found.diagnostics)}"
    return str(found)


def count_errors(found: Iterable[Diagnostic]) -> str:
    """How many errors there are among the problems of a document, in words."""
    errors = sum(one.severity == "error" for one in found)
    return f"{errors} error{'s' if errors != 1 else ''}"
