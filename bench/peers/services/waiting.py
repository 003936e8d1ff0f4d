"""How a service says that it is there, and when it ends."""

from __future__ import annotations

import os
import sys
import threading


def say(url: str) -> None:
    """Where it answers."""
    print(url, flush=True)


def wait_for_input() -> None:
    """Until the input ends."""
    sys.stdin.read()


def end_with_input() -> None:
    """End the process when its input ends."""

    def end() -> None:
        wait_for_input()
        os._exit(0)

    threading.Thread(target=end, daemon=True).start()
