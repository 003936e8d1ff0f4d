"""How rows become what callers see: the same in every store."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import msgspec

from minuet.store.exchange import Grant, Output, RunHeader
from minuet.store.fields import builder
from minuet.store.lenient import DAMAGE, damage_of
from minuet.store.records import INPUT_BYTES_MAX, REPLY_BYTES_MAX, TIMED_OUT, Run, Token

#: What a worker must know of a run.
header: Callable[[Run], RunHeader] = builder(RunHeader, Run)

_grant: Callable[..., Grant] = builder(
    Grant, Token, given=("resolution", "timed_out", "inputs", "reads", "oversize", "damaged")
)


def grant(
    token: Token, inputs: Sequence[Output], reads: Sequence[Output], oversize: int = 0
) -> Grant:
    """The token as its worker gets it."""
    resolution, timed_out = token.resolution, False
    if resolution is not None:
        resolution, timed_out = resolution_of(resolution)
    damaged = damage_of(token.reads) if token.reads else ""
    return _grant(token, resolution, timed_out, tuple(inputs), tuple(reads), oversize, damaged)


def resolution_of(stored: bytes | None) -> tuple[bytes | None, bool]:
    """What came for a token that has waited, and whether its time was over before."""
    return (None, True) if stored == TIMED_OUT else (stored, False)


class Room:
    """How much of one answer is left for outputs; each output counts once."""

    def __init__(self) -> None:
        self._left = REPLY_BYTES_MAX
        self._is_first = True
        self._sent: set[Hashable] = set()

    def fit(self, sizes: Mapping[Hashable, int]) -> int | None:
        """Make room for the outputs of a token, by what names them; None: there is no room.

        Otherwise 0, or how many bytes they have if they are too many to come with it. The first
        token of an answer always has room.
        """
        total = sum(sizes.values())
        if total > INPUT_BYTES_MAX:
            self._is_first = False
            return total
        new = sum(size for name, size in sizes.items() if name not in self._sent)
        if new > self._left and not self._is_first:
            return None
        self._is_first = False
        self._left -= new
        self._sent.update(sizes)
        return 0


class _Output(msgspec.Struct):
    """The one field of an event that is wanted; the decoder skips all others."""

    output: msgspec.Raw = msgspec.Raw(b"null")


_decode_output = msgspec.json.Decoder(_Output).decode


def output_of(data: bytes) -> bytes:
    """The output inside the event that committed it; b"" when the event cannot be read."""
    try:
        return bytes(_decode_output(data).output)
    except DAMAGE:
        return b""
