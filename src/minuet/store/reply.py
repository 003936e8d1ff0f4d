"""How rows become what callers see: the same in every store."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from minuet.store.lenient import DAMAGE, damage_of
from minuet.store.records import (
    INPUT_BYTES_MAX,
    REPLY_BYTES_MAX,
    Grant,
    Output,
    Run,
    RunHeader,
    Token,
)

#: What a waiting token gets when its time is over.
TIMED_OUT = b'{"timed_out":true}'


def header(run: Run) -> RunHeader:
    """What a worker must know of a run."""
    return RunHeader(
        run.run,
        run.workflow,
        run.plan,
        run.input,
        run.generation,
        run.created_ms,
        run.deadline_ms,
        run.tags,
    )


def grant(
    token: Token, inputs: Sequence[Output], reads: Sequence[Output], oversize: int = 0
) -> Grant:
    """The token as its worker gets it."""
    return Grant(
        token.run,
        token.node,
        token.scope,
        token.lease,
        token.skip,
        token.attempt,
        token.expiry,
        token.delivery,
        token.hop,
        token.taken_ms,
        token.cursor,
        token.resolution,
        token.slot,
        tuple(inputs),
        tuple(reads),
        oversize,
        damage_of(token.reads),
    )


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
