"""How rows become what callers see: the same in every store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from minuet.store.records import Grant, Output, Run, RunHeader, Token

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


def grant(token: Token, inputs: Sequence[Output], reads: Sequence[Output]) -> Grant:
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
    )


class _Output(msgspec.Struct):
    """The one field of an event that is wanted; the decoder skips all others."""

    output: msgspec.Raw = msgspec.Raw(b"null")


_decode_output = msgspec.json.Decoder(_Output).decode


def output_of(data: bytes) -> bytes:
    """The output inside the event that committed it."""
    return bytes(_decode_output(data).output)
