"""Plain data from a Python program instead of a text. The same rules apply."""

from __future__ import annotations

import math
from typing import Any

from minuet.model.diagnostics import quote
from minuet.model.problem import BROKEN, Problem, Problems
from minuet.model.tree import DEPTH_MAX, WHOLE_MAX, WHOLE_MIN, find_unstorable
from minuet.types import Json, Path


def copy_plain(value: Any, problems: Problems, path: Path = ()) -> Json:
    """Copy a value as JSON would: tuples become lists. What is not JSON becomes a problem."""
    if len(path) > DEPTH_MAX:
        message = f"the document is nested more than {DEPTH_MAX} levels deep"
        problems.add(Problem("too-deep", message, path[:3]))
        return BROKEN
    if isinstance(value, dict):
        return _copy_dict(value, problems, path)
    if isinstance(value, (list, tuple)):
        return [copy_plain(item, problems, (*path, i)) for i, item in enumerate(value)]
    problem = _check_scalar(value, path)
    if problem is None:
        return value
    problems.add(problem)
    return BROKEN


def _copy_dict(value: dict[Any, Any], problems: Problems, path: Path) -> Json:
    copied: dict[str, Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            message = f"the key {quote(repr(key))} is not a string"
            problems.add(Problem("bad-key", message, path))
        else:
            problem = _check_scalar(key, path)
            if problem is not None:
                problems.add(problem)
            copied[key] = copy_plain(item, problems, (*path, key))
    return copied


def _check_scalar(value: Any, path: Path) -> Problem | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        found = find_unstorable(value)
        message = f"a string cannot hold the character U+{ord(found):04X}" if found else ""
        return Problem("bad-character", message, path) if found else None
    if isinstance(value, int):
        is_small = WHOLE_MIN <= value <= WHOLE_MAX
        return None if is_small else Problem("bad-number", "the number needs over 64 bits", path)
    if isinstance(value, float):
        is_finite = math.isfinite(value)
        return None if is_finite else Problem("bad-number", f"{value} is not a JSON number", path)
    return Problem("bad-value", f"a Python {type(value).__name__} is not a JSON value", path)
