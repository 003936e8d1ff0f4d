"""`wait`: waits durably for a time or for a signal. No worker is blocked meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime

from minuet.errors import OutputError, SignalTimeoutError
from minuet.nodes.spec import Call, NodeType, Wait
from minuet.types import Json

#: Longest wait: about three hundred years.
SECONDS_MAX = 10_000_000_000

#: Longest name of a signal.
NAME_LENGTH_MAX = 255

#: A time in the notation of RFC 3339; the zone may be left out.
_MOMENT = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
    r"([Tt ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d([.,]\d+)?)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)?)?$"
)


def run(call: Call) -> Json | Wait:
    """Wait until the time or the signal has come, then return an empty object or its data."""
    config = call.config
    if "signal" in config:
        return _receive(call)
    if call.resumed:
        return {}
    if "seconds" in config:
        return Wait("timer", delay_ms=_milliseconds("seconds", config["seconds"]))
    return Wait("timer", due_ms=_until_ms(config["until"]))


def _receive(call: Call) -> Json | Wait:
    name, seconds = call.config["signal"], call.config.get("timeout_seconds")
    if call.timed_out:
        raise SignalTimeoutError(name, seconds or 0)
    if call.resumed:
        return call.resolution
    if not (isinstance(name, str) and 0 < len(name) <= NAME_LENGTH_MAX):
        raise OutputError(
            f"wait: `signal` must be text of 1 to {NAME_LENGTH_MAX} characters, not {name!r:.100}"
        )
    delay_ms = None if seconds is None else _milliseconds("timeout_seconds", seconds)
    return Wait("signal", name, delay_ms=delay_ms)


def _milliseconds(field: str, seconds: Json) -> int:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and 0 <= seconds <= SECONDS_MAX):
        raise OutputError(
            f"wait: `{field}` must be a number from 0 to {SECONDS_MAX:,}, not {seconds!r:.100}"
        )
    return int(seconds * 1000)


def _until_ms(until: Json) -> int:
    try:
        moment = datetime.fromisoformat(until)
    except (TypeError, ValueError):
        raise OutputError(
            f"wait: `until` must be a time like 2026-12-24T18:00:00Z, not {until!r:.100}"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


WAIT = NodeType(
    name="wait",
    display_name="Wait",
    summary="Waits for a time to pass, a point in time to come, or a signal.",
    description="The token waits in the store, not in a worker: a wait survives any crash and "
    "costs nothing. A time without a zone is UTC; one that has passed ends the wait at once.\n\n"
    "`minuet signal RUN NAME -d JSON` sends a signal. Signals of one name are a queue: each is "
    "received by one node, and one that comes early is kept. If none has come after "
    "`timeout_seconds`, the node fails with `signal_timeout`, and `on_error` says what follows.",
    config_schema={
        "type": "object",
        "properties": {
            "seconds": {"type": "number", "minimum": 0},
            "until": {
                "type": "string",
                "pattern": _MOMENT,
                "description": "a time in ISO 8601, such as 2026-12-24T18:00:00Z",
            },
            "signal": {
                "type": "string",
                "minLength": 1,
                "maxLength": NAME_LENGTH_MAX,
                "description": "the name of the signal",
            },
            "timeout_seconds": {
                "type": "number",
                "minimum": 0,
                "description": "how long to wait for the signal (default: forever)",
            },
        },
        "additionalProperties": False,
        "oneOf": [{"required": ["seconds"]}, {"required": ["until"]}, {"required": ["signal"]}],
        "dependentRequired": {"timeout_seconds": ["signal"]},
    },
    output="`{}`, or the data of the signal",
    example={
        "id": "payment",
        "type": "wait",
        "config": {"signal": "paid", "timeout_seconds": 86400},
    },
    run=run,
)
