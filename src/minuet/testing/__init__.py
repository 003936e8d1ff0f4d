"""Tests of workflows and handlers: plays with stubs, contexts, recorded runs, fixtures of pytest.

    from minuet.testing import play

    played = play("order.yaml", {"order_id": 7}, handlers={"charge": {"ok": True}})
    assert played.path == ["fetch", "charge", "ship"]

Importing this package is cheap: each name is loaded when it is first used.

    playing        `play` and `aplay`
    stubs          what nodes call instead of their handlers
    stage          the world of a play: App, store and clock
    played         what a play answers
    recorded       what the handlers of a recorded run have returned
    comparing      the differences between two runs
    replaying      `record`, `replay` and `areplay`
    fake_context   a context for tests of one handler
    fixtures       the fixtures for pytest
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minuet.testing.fake_context import FakeContext, LogLine, context
    from minuet.testing.played import Played
    from minuet.testing.playing import aplay, play
    from minuet.testing.replaying import Replayed, areplay, record, replay

__all__ = [
    "FakeContext",
    "LogLine",
    "Played",
    "Replayed",
    "aplay",
    "areplay",
    "context",
    "play",
    "record",
    "replay",
]

#: Where the public names are; all others are errors.
_HOMES = {
    "FakeContext": "minuet.testing.fake_context",
    "LogLine": "minuet.testing.fake_context",
    "context": "minuet.testing.fake_context",
    "Played": "minuet.testing.played",
    **dict.fromkeys(("aplay", "play"), "minuet.testing.playing"),
    **dict.fromkeys(("Replayed", "areplay", "record", "replay"), "minuet.testing.replaying"),
}

if not TYPE_CHECKING:
    # Otherwise a type checker would accept any name.

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'minuet.testing' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
