"""The fields of a condition that is an object."""

from __future__ import annotations

from typing import Any

from minuet.errors import ConditionError


def read_form(
    source: dict[str, Any], *, required: tuple[str, ...] = (), optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The fields beside `type`; one that is unknown or missing is an error."""
    type_ = source["type"]
    known = (*required, *optional)
    for name in source:
        if name != "type" and name not in known:
            raise ConditionError(
                f"a {type_} condition has no {name!r}, only {', '.join(map(repr, known))}"
            )
    for name in required:
        if name not in source:
            raise ConditionError(f"a {type_} condition needs {_article(name)} {name!r}")
    return {name: source[name] for name in known if name in source}


def _article(name: str) -> str:
    return "an" if name[0] in "aeiou" else "a"
