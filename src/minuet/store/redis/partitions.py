"""Which partition holds a run, and calls that concern several partitions.

A partition is a name with a hash tag: all keys that begin with it lie on one server. A single
server has one. On a cluster, an exchange becomes one call for each partition that it concerns.
Items are judged alone, so this keeps the contract. The session's own partition comes first and
judges the call's number; the others only ask that numbers grow. Runs that are created together
are created one after the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import Any, Protocol, TypeVar, get_args

import msgspec

from minuet.errors import RunConflictError, SessionError
from minuet.store.changes import NewRun
from minuet.store.exchange import Exchange, Grant, Held, Reply, Result, RunHeader, Slot, Take
from minuet.store.families import PARTITIONS, partition_of
from minuet.store.records import Run
from minuet.store.redis.columns import RESULT_CODES
from minuet.store.redis.rows import grants_of, headers_of

Item = TypeVar("Item")

#: What became of an item, by the byte that stands for it in an answer.
_RESULTS: dict[int, Result] = {ord(RESULT_CODES[word]): word for word in get_args(Result)}


class _Call(Protocol):
    """One part of an exchange."""

    def __call__(
        self, partition: str, request: Exchange, *, strict: bool
    ) -> Awaitable[Sequence[Any]]: ...


class Partitions:
    """The partitions of a store."""

    def __init__(self, prefix: str, count: int) -> None:
        self.names = tuple(f"{prefix}:{{{prefix}-{number}}}" for number in range(count))

    @classmethod
    def of_cluster(cls, prefix: str) -> Partitions:
        return cls(prefix, PARTITIONS)

    def of_run(self, run: str) -> str:
        """The partition of a run."""
        if len(self.names) == 1:
            return self.names[0]
        return self.names[partition_of(run)]

    def by_run(
        self, items: Iterable[Item], run_of: Callable[[Item], str]
    ) -> list[tuple[str, list[Item]]]:
        """Items by the partition of their run."""
        found: dict[str, list[Item]] = {}
        for item in items:
            found.setdefault(self.of_run(run_of(item)), []).append(item)
        return sorted(found.items())

    # ── the exchange ────────────────────────────────────────────────────────────────────

    async def exchange(self, request: Exchange, call: _Call) -> Reply:
        """Make the calls of an exchange and put their answers together."""
        if len(self.names) == 1:
            answer = await call(self.names[0], request, strict=True)
            return _reply(request, [(count(), answer)])
        answers: list[tuple[Iterable[int], Sequence[Any]]] = []
        limits = [take.limit for take in request.take]
        for number, (partition, places, part) in enumerate(self._parts(request)):
            if number > 0 and not (part.hand_in or part.renew or any(limits)):
                break
            part = msgspec.structs.replace(part, take=_with_limits(request.take, limits))
            answer = await call(partition, part, strict=number == 0)
            answers.append((places, answer))
            if answer[0] == b"session":
                break
            limits = [limit - taken for limit, taken in zip(limits, answer[7], strict=True)]
        return _reply(request, answers)

    def _parts(self, request: Exchange) -> list[tuple[str, list[int], Exchange]]:
        """The parts of an exchange, with the places of their items in it: the session's own
        partition first, those with nothing to hand in or to renew last, in another order for each
        call, so that all are asked for tokens."""
        home, turn = self.of_run(request.session), request.seq % len(self.names)
        # Slots would have to be counted across servers: `_reply` says that this cannot be.
        judged = [pair for pair in enumerate(request.hand_in) if not isinstance(pair[1], Slot)]
        items = dict(self.by_run(judged, lambda pair: pair[1].run))
        held = dict(self.by_run(request.renew, lambda one: one.run))
        order = sorted(
            self.names[turn:] + self.names[:turn],
            key=lambda name: (name != home, name not in items and name not in held),
        )
        return [
            (
                name,
                [place for place, _ in items.get(name, ())],
                msgspec.structs.replace(
                    request,
                    hand_in=tuple(item for _, item in items.get(name, ())),
                    renew=tuple(held.get(name, ())),
                ),
            )
            for name in order
        ]

    # ── creating ────────────────────────────────────────────────────────────────────────

    async def create_runs(
        self,
        runs: Sequence[NewRun],
        create: Callable[[str, Sequence[NewRun]], Awaitable[list[Run | RunConflictError]]],
        reserve: Callable[[str, NewRun], Awaitable[str]],
    ) -> list[Run | RunConflictError]:
        """Create runs where they belong. On a cluster, an idempotency key is reserved for one name
        first, and the run is created under that name by each caller with the key."""
        if len(self.names) == 1:
            return await create(self.names[0], runs)
        answers = []
        for new in runs:
            if new.idempotency_key is not None:
                owner = self.of_run(f"{new.tenant}\0{new.idempotency_key}")
                new = msgspec.structs.replace(new, run=await reserve(owner, new))
            answers += await create(self.of_run(new.run), [new])
        return answers


def _with_limits(takes: Sequence[Take], limits: Sequence[int]) -> tuple[Take, ...]:
    return tuple(Take(take.queues, limit) for take, limit in zip(takes, limits, strict=True))


def _reply(request: Exchange, answers: Sequence[tuple[Iterable[int], Sequence[Any]]]) -> Reply:
    """One reply of the answers of all parts."""
    results: list[tuple[int, Result]] = []
    revoked: list[Held] = []
    granted: list[Grant] = []
    headers: dict[str, RunHeader] = {}
    unreported: set[str] = set()
    now_ms = 0
    for places, answer in answers:
        if answer[0] == b"session":
            raise SessionError(f"session {request.session}: call {request.seq} after {answer[1]}")
        _, now, codes, part_revoked, part_granted, part_headers, _, _, taken_ms, _, names = answer
        unreported.update(name.decode() for name in names)
        now_ms = max(now_ms, now)
        results += zip(places, [_RESULTS[code] for code in codes], strict=False)
        revoked += [Held(*(word.decode() for word in held)) for held in part_revoked]
        granted += grants_of(part_granted, request.lease, taken_ms)
        headers.update((header.run, header) for header in headers_of(part_headers))
    if len(results) < len(request.hand_in):
        slots = [n for n, item in enumerate(request.hand_in) if isinstance(item, Slot)]
        results += [(place, "limit") for place in slots]
    if len(answers) > 1:
        results.sort()
        revoked.sort(key=request.renew.index)
    return Reply(
        results=tuple(result for _, result in results),
        revoked=tuple(revoked),
        granted=tuple(granted),
        runs={run: headers[run] for run in sorted(headers)},
        now_ms=now_ms,
        unreported=tuple(sorted(unreported)),
    )
