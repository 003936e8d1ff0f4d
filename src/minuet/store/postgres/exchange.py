"""The exchange on PostgreSQL.

In the ordinary way it is a transaction of four round trips: begin, load, write and take, commit.
When all that it hands in is known from the take before, it is one (`known`, `settle_rows`).

In both ways `Transition` decides what happens to runs and tokens. SQL decides three things: what is
taken and what comes with it (`take_rows`, as in `memory`); whether what was known still holds
(`settle_rows`; if not, the exchange is made in the ordinary way); and, in one call, the time.
`tests/differential` compares all of it with `memory`, by the same random calls.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from minuet.errors import SessionError
from minuet.store.exchange import WITH_HEADER, Exchange, Held, Reply, Result
from minuet.store.fields import to_json
from minuet.store.postgres.database import Link
from minuet.store.postgres.granted import Granted, now_of
from minuet.store.postgres.known import Known
from minuet.store.postgres.rows import Rows, run_of
from minuet.store.postgres.statements import statement
from minuet.store.postgres.step import write_step
from minuet.store.postgres.wanted import Wanted
from minuet.store.records import Run
from minuet.store.reply import header
from minuet.store.rules.leases import lease_length
from minuet.store.rules.transition import Transition

_SETTLE_ROWS = statement("settle_rows")
_STILL_LEASED = statement("still_leased")
_LOAD_HEADERS = statement("load_headers")


class _Answer(msgspec.Struct, array_like=True):
    """What is kept of a call so that it can be repeated."""

    results: tuple[Result, ...] = ()
    revoked: tuple[Held, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Answer).decode


class Exchanged(NamedTuple):
    """What an exchange has led to."""

    reply: Reply
    #: Whether something may have become ready to be taken.
    made_ready: bool = False
    #: Runs that are over now.
    ended: Collection[str] = ()


class Moved(Exception):
    """The known rows are out of date."""


async def exchange(
    link: Link, wanted: Wanted, request: Exchange, now_ms: int | None, known: Known
) -> Exchanged:
    """Load, let the rules change, write and take."""
    rows = Rows(wanted, inputs=False)
    await rows.load(link, now_ms, request.session)
    last = rows.last_call
    assert last is not None
    if request.seq == last.seq and request.lease == last.lease:
        return Exchanged(await _repeat(link, request, _decode(last.answer), rows.now_ms))
    if request.seq != last.seq + 1:
        raise SessionError(f"session {request.session}: call {request.seq} after {last.seq}")
    steady = [name for name, run in rows.runs.items() if known.is_steady(name, run.seq)]
    rows.know_joins(known, steady)
    step, answer = _work_out(rows, request)
    call = (*_call(request, answer, rows.now_ms), lease_length(request.lease_ms))
    taken = await write_step(link, rows, step, call, _takes(request))
    granted = Granted(taken, request)
    known.forget(request)
    # A run that was loaded came without its input, so it is not one that is known.
    joins = rows.joins(step, [run for run in steady if run in granted.runs])
    known.learn(request.seq, granted.tokens, granted.runs.values(), joins)
    others = await _to_replan(link, request, answer)
    reply = _reply(answer, granted, others, rows.now_ms, step.unreported)
    return Exchanged(reply, made_ready(step), step.ended)


async def exchange_known(
    link: Link, request: Exchange, now_ms: int | None, known: Known, durability: str
) -> Exchanged:
    """The same in one call, on rows that are known; raises when they are out of date."""
    rows = Rows(Wanted(request.tenant), inputs=False)
    rows.know(known, request)
    # The database puts its own time in the place of this one.
    rows.now_ms = now_ms or 0
    seqs = {name: rows.runs[name].seq for name in sorted(rows.runs)}
    step, answer = _work_out(rows, request)
    if any(result != "applied" for result in answer.results):
        # Only what changes a token is checked by the database; a refusal has to be looked up.
        raise Moved
    call = (*_call(request, answer, now_ms), lease_length(request.lease_ms), durability)
    taken = await link.rows(_SETTLE_ROWS, *call, *rows.settlement(step, seqs), *_takes(request))
    if not taken:
        raise Moved
    granted = Granted(taken[1:], request)
    known.forget(request)
    mine = (row for row in rows.numbered(seqs) if row[1].run not in granted.runs)
    runs = (*mine, *granted.runs.values())
    known.learn(request.seq, granted.tokens, runs, rows.joins(step, seqs))
    reply = _reply(answer, granted, [], now_of(taken[0]), step.unreported)
    return Exchanged(reply, made_ready(step), step.ended)


def _work_out(rows: Rows, request: Exchange) -> tuple[Transition, _Answer]:
    """Let the rules change the rows."""
    step = Transition(rows, rows.now_ms)
    # Given to the step at once, so that it need not ask for each of them.
    step.tokens, step.runs = dict(rows.tokens), dict(rows.runs)
    answer = _Answer(
        tuple([step.hand_in(request, item) for item in request.hand_in]),
        tuple([held for held in request.renew if not step.renew(request, held)]),
    )
    step.promote_waiters()
    return step, answer


def _call(request: Exchange, answer: _Answer, now_ms: int | None) -> tuple[Any, ...]:
    return (
        request.tenant,
        request.session,
        request.seq,
        request.lease,
        _encode(answer),
        now_ms,
    )


def made_ready(step: Transition) -> bool:
    """Whether a step may have made something ready to be taken."""
    return bool(step.new_tokens) or any(
        step.tokens[key].state == "ready" for key in step.changed_tokens
    )


def _takes(request: Exchange) -> tuple[Any, ...]:
    """What `take_rows` is asked for: limits, queues, the runs that tokens must belong to, and
    lengths of leases by queue."""
    wanted = [take for take in request.take if take.limit > 0 and take.queues]
    runs = request.runs
    if runs is not None and not runs:
        wanted = []
    return (
        [take.limit for take in wanted],
        [_array_text(take.queues) for take in wanted],
        None if runs is None else list(runs),
        _lengths_text(tuple(request.lease_ms_by_queue.items())),
    )


@lru_cache(1024)
def _array_text(queues: tuple[str, ...]) -> str:
    """Queues as the text of an array: the same in each call of a worker."""
    return "{" + ",".join(map(_quoted, sorted(set(queues)))) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", r"\\").replace('"', r"\"") + '"'


@lru_cache(1024)
def _lengths_text(by_queue: tuple[tuple[str, int], ...]) -> str | None:
    """Lengths of leases by queue as the text of an object."""
    return to_json({name: lease_length(ms) for name, ms in by_queue}) if by_queue else None


async def _to_replan(link: Link, request: Exchange, answer: _Answer) -> list[Run]:
    """The runs whose items have to be routed again, or have too many bytes."""
    if WITH_HEADER.isdisjoint(answer.results):
        return []
    items = zip(request.hand_in, answer.results, strict=False)
    names = sorted({item.run for item, result in items if result in WITH_HEADER})
    return [run_of(row) for row in await link.rows(_LOAD_HEADERS, request.tenant, names)]


async def _repeat(link: Link, request: Exchange, answer: _Answer, now_ms: int) -> Reply:
    taken = await link.rows(_STILL_LEASED, request.lease, request.tenant)
    others = await _to_replan(link, request, answer)
    return _reply(answer, Granted(taken, request), others, now_ms)


def _reply(
    answer: _Answer,
    granted: Granted,
    others: list[Run],
    now_ms: int,
    unreported: Collection[str] = (),
) -> Reply:
    runs = {run.run: run for run in others}
    runs |= {name: run for name, (_, run) in granted.runs.items()}
    return Reply(
        answer.results,
        answer.revoked,
        tuple(granted.grants),
        {name: header(runs[name]) for name in sorted(runs)},
        now_ms,
        tuple(sorted(unreported)),
    )
