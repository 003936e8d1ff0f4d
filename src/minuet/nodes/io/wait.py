"""`wait`: waits durably for a time. No worker is blocked meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime

from minuet.errors import OutputError
from minuet.nodes.spec import Call, NodeType, Wait
from minuet.types import Json

#: Longest wait: about three hundred years.
SECONDS_MAX = 10_000_000_000


def run(call: Call) -> Json | Wait:
    """Wait until the time has come, then return an empty object."""
    if call.resumed:
        return {}
    if "seconds" in call.config:
        return Wait("timer", delay_ms=_seconds_ms(call.config["seconds"]))
    return Wait("timer", due_ms=_until_ms(call.config["until"]))


def _seconds_ms(seconds: Json) -> int:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and 0 <= seconds <= SECONDS_MAX):
        raise OutputError(
            f"wait: `seconds` must be a number from 0 to {SECONDS_MAX:,}, not {seconds!r:.100}"
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
    summary="Waits for a time to pass or a point in time to come.",
    description="The token waits in the store, not in a worker: a wait survives any crash and "
    "costs nothing. A time without a zone is UTC.",
    config_schema={
        "type": "object",
        "properties": {
            "seconds": {"type": "number", "minimum": 0},
            "until": {"type": "string", "description": "ISO 8601, e.g. 2026-12-24T18:00:00Z"},
        },
        "additionalProperties": False,
        "oneOf": [{"required": ["seconds"]}, {"required": ["until"]}],
    },
    output="`{}`",
    output_schema={"type": "object", "maxProperties": 0},
    example={"id": "cool_off", "type": "wait", "config": {"seconds": 3600}},
    run=run,
)
