"""The workflow's file and the run's input, from the command line."""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import cast

import msgspec

from minuet.app.limits import RunLimits
from minuet.cli.parser import UsageError
from minuet.errors import ConfigError
from minuet.types import Json

_PAIR = re.compile(r"([\w.-]+)=(.*)", re.DOTALL)


def file_and_input(arguments: Namespace) -> tuple[str, list[str]]:
    """The file and the input. In `run -i a=1 order.yaml` the file is parsed as a value of -i."""
    values = [value for group in arguments.input for value in group]
    if arguments.file is not None:
        return arguments.file, values
    if not values:
        word = "WORKFLOW" if arguments.command in ("start", "simulate") else "FILE"
        raise UsageError(f"minuet {arguments.command}", f"missing argument: {word}")
    return values[-1], values[:-1]


def read_input(values: Sequence[str]) -> Json:
    """Put the values of all `-i` together; without any, the input is an empty object.

    Objects are merged, and a later value of a key wins. Anything else must be the only value.
    """
    parts = [_read_one(value) for value in values]
    if not parts:
        return {}
    if len(parts) == 1:
        return parts[0]
    merged: dict[str, Json] = {}
    for part, value in zip(parts, values, strict=True):
        if not isinstance(part, dict):
            raise ConfigError(
                f"input {_shown(value)} is not an object, so it cannot be merged with the others"
            )
        merged.update(part)
    return merged


def read_limit_options(written: Sequence[str]) -> RunLimits | None:
    """The limits of a run: all `--limit NAME=VALUE`."""
    limits: dict[str, Json] = {}
    for one in written:
        pair = _PAIR.fullmatch(one)
        if pair is None:
            raise ConfigError(f"--limit {_shown(one)}: write NAME=VALUE, such as max_hops=100")
        if pair[1] in limits:
            raise ConfigError(f"--limit {pair[1]} is given twice")
        limits[pair[1]] = _guess(pair[2])
    return cast(RunLimits, limits) or None


def _read_one(value: str) -> Json:
    if value.startswith("@"):
        return _read_file(value[1:])
    pair = _PAIR.fullmatch(value)
    if pair:
        return {pair[1]: _guess(pair[2])}
    return _parse(value.encode("utf-8", "surrogateescape"), f"input {_shown(value)}")


def read_data(value: str) -> Json:
    """What an option of JSON says: JSON, or @FILE."""
    if value.startswith("@"):
        return _read_file(value[1:])
    data = value.encode("utf-8", "surrogateescape")
    return _parse(data, f"data {_shown(value)}", forms="JSON or @FILE")


def _read_file(name: str) -> Json:
    if name == "-":
        return _parse(sys.stdin.buffer.read(), "the input on standard input")
    try:
        with open(name, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"the input file {name!r} cannot be read: {reason}") from None
    return _parse(data, f"the input file {name!r}")


def _guess(text: str) -> Json:
    """A value that is JSON is taken as JSON, anything else as a string."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def _parse(data: bytes, what: str, *, forms: str = "JSON, @FILE or key=value") -> Json:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ConfigError(f"{what} is not valid JSON ({error}); write {forms}") from None


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else f"{value[:59]}…")
