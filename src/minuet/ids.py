"""Ids and randomness as an argument: run ids, lease ids, session ids and the jitter of retries.

A run id is a UUIDv7: unguessable, and sorted by time, so that new rows land at the end of an
index. Lease and session ids are 128 random bits and never a counter kept in the store: after
a restore, a counter would issue the same number twice and admit a worker from before it.
"""

from __future__ import annotations

import os
import random
import time
from typing import Protocol


class Ids(Protocol):
    """A source of ids and randomness."""

    def run_id(self) -> str: ...

    def token(self) -> str:
        """128 random bits, in hex: a lease or a session."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1), for jitter."""
        ...


class SystemIds:
    """Ids from the operating system's randomness."""

    def run_id(self) -> str:
        return format_uuid7(time.time_ns() // 1_000_000, os.urandom(10))

    def token(self) -> str:
        return os.urandom(16).hex()

    def fraction(self) -> float:
        return random.random()


class SeededIds:
    """Ids that repeat for the same seed, for tests and simulation."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._run = 0

    def run_id(self) -> str:
        self._run += 1
        return format_uuid7(1_700_000_000_000 + self._run, self._random.randbytes(10))

    def token(self) -> str:
        return self._random.randbytes(16).hex()

    def fraction(self) -> float:
        return self._random.random()


def format_uuid7(now_ms: int, entropy: bytes) -> str:
    """Lay out 48 bits of time and 74 random bits as a version 7 UUID."""
    value = (now_ms & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(entropy, "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
