"""The exchange on PostgreSQL.

In the ordinary way it is a transaction of four round trips: begin, load, write and take, commit.
When all that it hands in is known from the take before, it is one (`known`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from minuet.errors import SessionError
from minuet.store.postgres.database import Link
from minuet.store.postgres.known import Known
from minuet.store.postgres.rows import Rows, run_of, taken_token
from minuet.store.postgres.statements import statement
from minuet.store.postgres.step import write_step
from minuet.store.postgres.wanted import Wanted
from minuet.store.records import (
    Exchange,
    Grant,
    Held,
    Output,
    Reply,
    Result,
    Run,
    RunHeader,
    Take,
    Token,
)
from minuet.store.reply import grant, header, output_of
from minuet.store.transition import Transition, lease_end

_STILL_LEASED = statement("still_leased")

#: The kind of outputs that arrived; all others are read.
_ARRIVED = 0


class _Answer(msgspec.Struct, array_like=True):
    """What is kept of a call so that it can be repeated."""

    results: tuple[Result, ...] = ()
    revoked: tuple[Held, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Answer).decode


class Moved(Exception):
    """What was known is not so any more."""


async def exchange(
    link: Link, wanted: Wanted, request: Exchange, now_ms: int | None, known: Known
) -> tuple[Reply, bool]:
    """The reply, and whether something may have become ready to be taken."""
    rows = Rows(wanted, inputs=False)
    await rows.load(link, now_ms, request.session)
    last = rows.last_call
    assert last is not None
    if request.seq == last.seq and request.lease == last.lease:
        return await _repeat(link, request, _decode(last.answer), rows.now_ms), False
    if request.seq != last.seq + 1:
        raise SessionError(f"session {request.session}: call {request.seq} after {last.seq}")
    return await _apply(link, rows, request, rows.now_ms, known, None)


async def exchange_known(
    link: Link, request: Exchange, now_ms: int | None, known: Known, durability: str
) -> tuple[Reply, bool]:
    """The same in one call, on rows that are known; raises when they do not hold any more."""
    rows = Rows(Wanted(request.tenant), inputs=False)
    rows.know(known, request)
    # The database puts its own time in the place of this one.
    rows.now_ms = now_ms or 0
    runs = sorted({item.run for item in request.hand_in})
    seqs = [rows.runs[run].seq for run in runs]
    return await _apply(link, rows, request, now_ms, known, (runs, seqs, durability))


async def _apply(
    link: Link,
    rows: Rows,
    request: Exchange,
    now_ms: int | None,
    known: Known,
    expected: tuple[list[str], list[int], str] | None,
) -> tuple[Reply, bool]:
    step = Transition(rows, rows.now_ms)
    # Given to the step at once, so that it need not ask for each of them.
    step.tokens, step.runs = dict(rows.tokens), dict(rows.runs)
    answer = _Answer(
        tuple([step.hand_in(request, item) for item in request.hand_in]),
        tuple([held for held in request.renew if not step.renew(request, held)]),
    )
    if expected is not None and any(result != "applied" for result in answer.results):
        # Only what changes a token is checked by the database; a refusal has to be looked up.
        raise Moved
    step.promote_waiters()
    call = (request.tenant, request.session, request.seq, request.lease, _encode(answer))
    moved, now_ms, *taken = await write_step(
        link,
        rows,
        step,
        (*call, now_ms, lease_end(request, 0)),
        (*_takes(request.take), _to_replan(request, answer), *(expected or (None, None, None))),
    )
    if moved:
        raise Moved
    assert now_ms is not None
    granted, outputs, others = taken
    tokens = [taken_token(row, request, now_ms) for row in granted or ()]
    found = [(row[0], run_of(row)) for row in others or ()]
    runs = {run.run: run for _, run in found}
    if expected is not None:
        # Those that are known already were not sent again.
        runs |= {t.run: step.runs[t.run] for t in tokens if t.run not in runs}
    reply = _reply(answer, tokens, outputs, runs.values(), now_ms)
    known.forget(request)
    # A run that was loaded came without its input, so it is not one that is known.
    mine = [] if expected is None else rows.numbered(step.runs)
    known.learn(request.seq, tokens, [*mine, *found])
    return reply, made_ready(step)


def made_ready(step: Transition) -> bool:
    """Whether a step may have made something ready to be taken."""
    return bool(step.new_tokens) or any(
        step.tokens[key].state == "ready" for key in step.changed_tokens
    )


def _takes(takes: tuple[Take, ...]) -> tuple[list[Any], ...]:
    """Limits, and queues with the place of the take that asks for them."""
    wanted = [take for take in takes if take.limit > 0 and take.queues]
    queues = [
        (place, queue)
        for place, take in enumerate(wanted, start=1)
        for queue in sorted(set(take.queues))
    ]
    return (
        [take.limit for take in wanted],
        [place for place, _ in queues],
        [queue for _, queue in queues],
    )


def _to_replan(request: Exchange, answer: _Answer) -> list[str]:
    if "replan" not in answer.results:
        return []
    items = zip(request.hand_in, answer.results, strict=False)
    return sorted({item.run for item, result in items if result == "replan"})


async def _repeat(link: Link, request: Exchange, answer: _Answer, now_ms: int) -> Reply:
    taken = await link.row(
        _STILL_LEASED, request.lease, request.tenant, _to_replan(request, answer)
    )
    granted, outputs, runs, taken_ms = taken
    tokens = [taken_token(row, request, taken_ms) for row in granted or ()]
    return _reply(answer, tokens, outputs, [run_of(row) for row in runs or ()], now_ms)


# ── replies ─────────────────────────────────────────────────────────────────────────────


def _reply(
    answer: _Answer, tokens: list[Token], outputs: Any, runs: Iterable[Run], now_ms: int
) -> Reply:
    headers = sorted(map(header, runs), key=_name)
    return Reply(
        answer.results,
        answer.revoked,
        tuple(_grants(tokens, outputs or ())),
        {head.run: head for head in headers},
        now_ms,
    )


def _name(head: RunHeader) -> str:
    return head.run


def _grants(tokens: list[Token], outputs: Any) -> list[Grant]:
    inputs: list[list[Output]] = [[] for _ in tokens]
    reads: list[list[Output]] = [[] for _ in tokens]
    for place, kind, _, node, scope, data in sorted(outputs, key=_order):
        found = inputs if kind == _ARRIVED else reads
        found[place - 1].append(Output(node, scope, output_of(data)))
    return [grant(token, inputs[place], reads[place]) for place, token in enumerate(tokens)]


def _order(row: Any) -> tuple[Any, ...]:
    return (row[1], row[2], row[3], row[4])
