"""Timestamps and durations. Nothing here knows what time it is."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.functions import register
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.operators import fit_duration, fit_timestamp
from minuet.conditions.cel.values import Duration, Timestamp

_SECOND = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_SPAN = re.compile(r"(\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(h|ms|us|ns|m|s)", re.ASCII)
_UNITS = {"h": 3600 * _SECOND, "m": 60 * _SECOND, "s": _SECOND, "ms": 10**6, "us": 1000, "ns": 1}
_OFFSET = re.compile(r"([+-]?)(\d\d):(\d\d)", re.ASCII)


@register("timestamp(string) -> timestamp")
def timestamp_of_text(meter: Meter, text: str) -> Timestamp:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise EvaluationError(f"{text[:40]!r} is not a timestamp such as 2026-01-31T12:00:00Z")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise EvaluationError(f"{text!r} is not a timestamp: {error}") from None
    nanoseconds = int((found[7] or "").ljust(9, "0"))
    if found[8]:
        if int(found[9]) > 23 or int(found[10]) > 59:
            raise EvaluationError(f"{text!r} is not a timestamp: its offset is out of range")
        offset = (int(found[9]) * 3600 + int(found[10]) * 60) * (1 if found[8] == "+" else -1)
    else:
        offset = 0
    seconds = (moment - _EPOCH) // timedelta(seconds=1) - offset
    return fit_timestamp(seconds * _SECOND + nanoseconds)


@register("timestamp(int) -> timestamp")
def timestamp_of_int(meter: Meter, seconds: int) -> Timestamp:
    return fit_timestamp(seconds * _SECOND)


@register("duration(string) -> duration")
def duration_of_text(meter: Meter, text: str) -> Duration:
    rest = text[1:] if text[:1] in ("-", "+") else text
    nanoseconds, at = 0, 0
    if rest != "0":
        # Nobody writes a longer duration on purpose.
        if not rest or len(rest) > 200:
            raise _not_a_duration(text)
        while at < len(rest):
            found = _SPAN.match(rest, at)
            if found is None:
                raise _not_a_duration(text)
            whole, _, fraction = found[1].partition(".")
            unit = _UNITS[found[2]]
            nanoseconds += int(whole or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
            at = found.end()
    return fit_duration(-nanoseconds if text.startswith("-") else nanoseconds)


def _not_a_duration(text: str) -> EvaluationError:
    return EvaluationError(f"{text[:40]!r} is not a duration such as 1h30m or 1.5s")


@register("string(timestamp) -> string")
def text_of_timestamp(meter: Meter, moment: Timestamp) -> str:
    return spell_timestamp(moment)


@register("string(duration) -> string")
def text_of_duration(meter: Meter, span: Duration) -> str:
    return spell_duration(span)


def spell_timestamp(moment: Timestamp) -> str:
    """The moment in UTC, with 0, 3, 6 or 9 digits after the second."""
    seconds, rest = divmod(moment.nanoseconds, _SECOND)
    text = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()
    return f"{text}{_fraction(rest)}Z"


def spell_duration(span: Duration) -> str:
    """The span in seconds: `5400s`, `-1.500s`."""
    seconds, rest = divmod(abs(span.nanoseconds), _SECOND)
    return f"{'-' if span.nanoseconds < 0 else ''}{seconds}{_fraction(rest)}s"


def _fraction(nanoseconds: int) -> str:
    if not nanoseconds:
        return ""
    digits = f"{nanoseconds:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


def _local(moment: Timestamp, zone: str) -> datetime:
    seconds = moment.nanoseconds // _SECOND
    try:
        utc = _EPOCH + timedelta(seconds=seconds)
        return utc.astimezone(_zone(zone)) if zone else utc
    except OverflowError:
        raise EvaluationError("the timestamp is out of range: years 1 to 9999") from None


def _zone(name: str) -> Any:
    """A fixed offset such as `+02:00`, or a name in this machine's time zone database."""
    found = _OFFSET.fullmatch(name)
    if found is not None:
        minutes = int(found[2]) * 60 + int(found[3])
        if minutes < 24 * 60:
            return timezone(timedelta(minutes=-minutes if found[1] == "-" else minutes))
    elif re.fullmatch(r"[A-Za-z][A-Za-z0-9_+/-]{0,60}", name, re.ASCII):
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    raise EvaluationError(f"unknown time zone {name[:40]!r}: write Europe/Paris or +01:00")


_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda local: local.year,
    "getMonth": lambda local: local.month - 1,
    "getDate": lambda local: local.day,
    "getDayOfMonth": lambda local: local.day - 1,
    "getDayOfWeek": lambda local: local.isoweekday() % 7,
    "getDayOfYear": lambda local: local.timetuple().tm_yday - 1,
    "getHours": lambda local: local.hour,
    "getMinutes": lambda local: local.minute,
    "getSeconds": lambda local: local.second,
}

_SPANS = {"getHours": 3600 * _SECOND, "getMinutes": 60 * _SECOND, "getSeconds": _SECOND}


def _register_parts(name: str, part: Callable[[datetime], int]) -> None:
    @register(f"timestamp.{name}() -> int")
    def read(meter: Meter, moment: Timestamp) -> int:
        return part(_local(moment, ""))

    @register(f"timestamp.{name}(string) -> int")
    def read_in(meter: Meter, moment: Timestamp, zone: str) -> int:
        return part(_local(moment, zone or "?"))


def _register_spans(name: str, unit: int) -> None:
    @register(f"duration.{name}() -> int")
    def count(meter: Meter, span: Duration) -> int:
        whole = abs(span.nanoseconds) // unit
        return whole if span.nanoseconds >= 0 else -whole


for _name, _part in _PARTS.items():
    _register_parts(_name, _part)
for _name, _unit in _SPANS.items():
    _register_spans(_name, _unit)


@register("timestamp.getMilliseconds() -> int")
def milliseconds(meter: Meter, moment: Timestamp) -> int:
    return moment.nanoseconds % _SECOND // 10**6


@register("timestamp.getMilliseconds(string) -> int")
def milliseconds_in(meter: Meter, moment: Timestamp, zone: str) -> int:
    _zone(zone)
    return milliseconds(meter, moment)


@register("duration.getMilliseconds() -> int")
def milliseconds_of_span(meter: Meter, span: Duration) -> int:
    part = abs(span.nanoseconds) % _SECOND // 10**6
    return part if span.nanoseconds >= 0 else -part
