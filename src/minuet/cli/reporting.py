"""What a command that goes on until it is stopped reports meanwhile: servers and workers."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from typing import Any

import msgspec

from minuet.cli.output import note


class Reporter:
    """Reports what happens: a line for people, or with `-o json` an object on a line of its own."""

    def __init__(self, arguments: Namespace) -> None:
        self.as_json: bool = arguments.output == "json"
        # Kept, because what handlers print may be sent elsewhere later.
        self._out = sys.stdout

    def __call__(self, event: str, text: str, **facts: Any) -> None:
        if self.as_json:
            record = {"event": event, "at_ms": time.time_ns() // 1_000_000, **facts}
            print(msgspec.json.encode(record).decode(), file=self._out, flush=True)
        else:
            note(f"{time.strftime('%H:%M:%S')} {text}")
