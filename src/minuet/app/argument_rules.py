"""Kinds of rules: what a value has to be, and how large it may be.

A rule returns the value to use, or raises InvalidArgument. `arguments` says which rule an argument
has.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, cast

import msgspec

from minuet.app.compiling import CompiledWorkflow
from minuet.bridge.values import encode_value
from minuet.errors import OutputError
from minuet.model import Document, DocumentSource

#: Characters of names: idempotency keys, tenants, queues, workers, executors, workflows, nodes.
NAME_LENGTH_MAX = 255

#: Characters of a reason.
REASON_LENGTH_MAX = 1_000

#: Characters of what a person says about a decision.
COMMENTS_LENGTH_MAX = 10_000

#: Tags of a run, characters of a tag's name, and bytes of its value as JSON.
TAGS_MAX = 50
TAG_LENGTH_MAX = 100
TAG_BYTES_MAX = 1_000

#: A tag of a workflow.
TAG = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

#: Runs in one page, and inputs in one call of `start_many`.
PAGE_MAX = 10_000

#: Parts of a histogram.
BUCKETS_MAX = 500

#: Most ids in one call that goes through them one by one.
IDS_MAX = 1_000_000
START_MAX = 100_000

#: Longest duration in seconds: about thirty years.
SECONDS_MAX = 1_000_000_000

#: Largest number of an event.
SEQ_MAX = 2**31 - 1


class InvalidArgument(Exception):
    """A value breaks its rule; the message says what was expected."""


#: Returns the value to use, or raises InvalidArgument.
Rule = Callable[[Any], Any]


def is_storable(name: str) -> bool:
    """Whether every store can hold this text. Documents are read with the same care."""
    if name.isascii():
        return "\0" not in name
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def anything(value: Any) -> Any:
    """Checked elsewhere, or used unchanged."""
    return value


def optional(rule: Rule) -> Rule:
    """None, or what the rule says."""

    def check(value: Any) -> Any:
        return None if value is None else rule(value)

    return check


def text(length_max: int) -> Rule:
    """Text that every store can hold."""
    expected = f"expected text of 1 to {length_max:,} characters"

    def check(value: Any) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= length_max:
            raise InvalidArgument(expected)
        if not is_storable(value):
            raise InvalidArgument(
                "expected text without U+0000 and without halves of surrogate pairs"
            )
        # A subclass (such as an enum's member) becomes plain text here.
        return str.__str__(value)

    return check


def any_text(value: Any) -> str:
    """Text to search by: what no store can hold is not found."""
    if not isinstance(value, str):
        raise InvalidArgument("expected text")
    return str.__str__(value)


def whole(least: int, most: int) -> Rule:
    """A whole number; True and False are not numbers."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidArgument(f"expected a whole number from {least:,} to {most:,}")
        return int(value)

    return check


def seconds(least: float = 0.0, most: float = SECONDS_MAX) -> Rule:
    """A duration: a number of seconds, or a timedelta."""

    def check(value: Any) -> float:
        if isinstance(value, timedelta):
            value = value.total_seconds()
        wrong = isinstance(value, bool) or not isinstance(value, int | float)
        # Not a number compares as false, and infinity is larger than anything.
        if wrong or not least <= value <= most:
            raise InvalidArgument(f"expected a number of seconds from {least:g} to {most:,.0f}")
        return cast(float, value)

    return check


def rate(value: Any) -> float:
    """How many of something in a second."""
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    if wrong or not 0.001 <= value <= 1_000_000:
        raise InvalidArgument("expected a number from 0.001 to 1,000,000")
    return cast(float, value)


def one_of(*allowed: str) -> Rule:
    """One of a few words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise InvalidArgument(f"expected one of {', '.join(allowed)}")
        return value

    return check


def instance(*kinds: type[Any]) -> Rule:
    """An object of one of these types."""

    def check(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise InvalidArgument(f"expected {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return check


def several(rule: Rule, most: int = PAGE_MAX) -> Rule:
    """A list, tuple or other iterable of values. One text is not a list of its characters."""

    def check(value: Any) -> list[Any]:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise InvalidArgument("expected a list")
        items = list(itertools.islice(value, most + 1))
        if len(items) > most:
            raise InvalidArgument(f"expected a list of at most {most:,}")
        checked = []
        for number, item in enumerate(items):
            try:
                checked.append(rule(item))
            except InvalidArgument as wrong:
                raise InvalidArgument(f"{wrong} at position {number}") from None
        return checked

    return check


def by_name(rule: Rule) -> Rule:
    """A mapping of names to values."""
    name_rule = text(NAME_LENGTH_MAX)

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidArgument("expected a mapping of names to values")
        checked = {}
        for name, one in value.items():
            try:
                checked[name_rule(name)] = rule(one)
            except InvalidArgument as wrong:
                raise InvalidArgument(f"{wrong} at {name!r:.100}") from None
        return checked

    return check


def json_object(value: Any) -> dict[str, Any]:
    """A mapping whose values are JSON, as the store will return it."""
    if not isinstance(value, Mapping):
        raise InvalidArgument("expected a mapping of names to JSON values")
    try:
        data = encode_value(dict(value))
    except OutputError as error:
        raise InvalidArgument(f"expected JSON: {error}") from None
    decoded: dict[str, Any] = msgspec.json.decode(data)
    return decoded


def tags(value: Any) -> dict[str, Any]:
    """A few small values by name."""
    found = json_object(value)
    name_rule = text(TAG_LENGTH_MAX)
    if len(found) > TAGS_MAX:
        raise InvalidArgument(f"expected at most {TAGS_MAX} tags")
    for name, item in found.items():
        try:
            name_rule(name)
        except InvalidArgument as wrong:
            raise InvalidArgument(f"{wrong} as the name of a tag") from None
        if len(msgspec.json.encode(item)) > TAG_BYTES_MAX:
            raise InvalidArgument(
                f"expected values of at most {TAG_BYTES_MAX:,} bytes of JSON ({name!r})"
            )
    return found


def maybe_empty(length_max: int) -> Rule:
    """Text that every store can hold, or none."""
    rule = text(length_max)
    return lambda value: "" if value == "" else rule(value)


def tag(value: Any) -> str:
    """The name of a tag. It begins with a letter, so that it cannot be taken for a number."""
    if not isinstance(value, str) or TAG.fullmatch(value) is None:
        raise InvalidArgument(
            "expected a tag: a letter (a-z, A-Z), and up to 63 more letters, digits, _, - or ."
        )
    return str.__str__(value)


def secrets(value: Any) -> Any:
    """A provider of secrets, or None."""
    if value is None or callable(getattr(value, "get", None)):
        return value
    raise InvalidArgument("expected an object with a method get(name)")


def workflow(value: Any) -> Any:
    """Anything that a workflow can be read from."""
    kinds = (str, os.PathLike, Mapping, Document, DocumentSource, CompiledWorkflow)
    if not isinstance(value, kinds):
        raise InvalidArgument(
            "expected a file's path, a document as text or as a mapping, a Workflow, the name of a "
            "deployed workflow, or a compiled workflow"
        )
    return value


def store(value: Any) -> Any:
    """A store's URL, or a store."""
    if not isinstance(value, str) and not hasattr(value, "exchange"):
        raise InvalidArgument("expected a store's URL, or a store")
    return value
