"""The exchange in memory, and the sweep: what moves tokens."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TypeAlias

import msgspec

from minuet.errors import SessionError
from minuet.store.exchange import (
    WITH_HEADER,
    Exchange,
    Grant,
    Held,
    Output,
    Reply,
    Result,
    Swept,
    Take,
)
from minuet.store.memory.rows import by_due, by_key
from minuet.store.memory.runs import MemoryRuns
from minuet.store.records import LEASE_MS_MAX, Key, Read, Token
from minuet.store.reply import Room, grant, header, output_of
from minuet.store.retention import DELETED_PER_SWEEP
from minuet.store.rules.leases import lease_end

#: Instances whose outputs come with a token: they arrived, or are read.
Needed: TypeAlias = tuple[list[Token], list[Token]]

#: A token that a call has got, with what it needs; how many bytes that has, if they are too many.
Taken: TypeAlias = tuple[Token, Needed, int]


class MemoryExchange(MemoryRuns):
    """The verbs of the exchange."""

    async def exchange(self, request: Exchange) -> Reply:
        now_ms = self._clock.now_ms()
        session = (request.tenant, request.session)
        seq, lease, results, revoked, _ = self._sessions.get(session, (0, "", (), (), 0))
        if request.seq == seq and request.lease == lease:
            return self._repeat(request, results, revoked, now_ms)
        if request.seq != seq + 1:
            raise SessionError(f"session {request.session}: call {request.seq} after {seq}")
        step = self._transition(self, now_ms)
        results = tuple(step.hand_in(request, item) for item in request.hand_in)
        revoked = tuple(held for held in request.renew if not step.renew(request, held))
        self._commit(step)
        unreported = tuple(sorted(step.unreported))
        self._sessions[session] = (request.seq, request.lease, results, revoked, now_ms)
        room, taken = Room(), list[Taken]()
        for take in request.take:
            if not self._take(request, take, now_ms, room, taken):
                break
        reply = self._reply(request, results, revoked, taken, now_ms)
        return msgspec.structs.replace(reply, unreported=unreported) if unreported else reply

    def _take(
        self, request: Exchange, take: Take, now_ms: int, room: Room, taken: list[Taken]
    ) -> bool:
        """Take tokens as long as their outputs fit into the answer; whether all did."""
        ready = [
            t
            for t in self._tokens.live.values()
            if t.state == "ready"
            and t.lane == ""
            and t.tenant == request.tenant
            and t.queue in take.queues
            and (t.due_ms or 0) <= now_ms
            and (request.runs is None or t.run in request.runs)
        ]
        for token in sorted(ready, key=by_due)[: max(take.limit, 0)]:
            needed = self._needed(token)
            oversize = room.fit(self._sizes(*needed))
            if oversize is None:
                return False
            token.state, token.lease, token.session = "leased", request.lease, request.session
            token.due_ms, token.taken_ms = lease_end(request, token.queue, now_ms), now_ms
            token.delivery += 1
            taken.append((token, needed, oversize))
        return True

    def _repeat(
        self,
        request: Exchange,
        results: tuple[Result, ...],
        revoked: tuple[Held, ...],
        now_ms: int,
    ) -> Reply:
        held = [
            t
            for t in self._tokens.live.values()
            if (t.state, t.lease, t.tenant) == ("leased", request.lease, request.tenant)
        ]
        taken: list[Taken] = []
        for token in sorted(held, key=by_key):
            needed = self._needed(token)
            # Each of them has fitted before.
            taken.append((token, needed, Room().fit(self._sizes(*needed)) or 0))
        return self._reply(request, results, revoked, taken, now_ms)

    def _reply(
        self,
        request: Exchange,
        results: tuple[Result, ...],
        revoked: tuple[Held, ...],
        taken: list[Taken],
        now_ms: int,
    ) -> Reply:
        wanted = {token.run for token, _, _ in taken}
        wanted |= {
            item.run
            for item, result in zip(request.hand_in, results, strict=False)
            if result in WITH_HEADER and item.run in self._runs
        }
        outputs: dict[Key, Output] = {}
        return Reply(
            results=results,
            revoked=revoked,
            granted=tuple(self._grant(*one, outputs) for one in taken),
            runs={run: header(self._runs[run]) for run in sorted(wanted)},
            now_ms=now_ms,
        )

    def _grant(
        self, token: Token, needed: Needed, oversize: int, outputs: dict[Key, Output]
    ) -> Grant:
        inputs, reads = ([], []) if oversize else needed
        if token.cursor:
            reads = [*reads, token]
        # Of these the answer says whether they failed.
        every = {read.node for read in token.reads if read.every}
        return grant(
            token,
            [self._output(source, outputs) for source in inputs],
            [
                Output(
                    *(source.node, source.scope, self._output(source, outputs).data),
                    failed=source.node in every and source.outcome == "failed",
                    event=source.event,
                )
                for source in reads
            ],
            oversize,
        )

    def _needed(self, token: Token) -> Needed:
        """The instances whose outputs come with a token: they arrived, or are read."""
        has_source = token.source and not token.skip
        sources = [(token.source, token.source_scope)] if has_source else []
        if not token.source and not token.skip:
            arrivals = self._arrivals.of("join", token.key).values()
            sources = [(a.source, a.source_scope) for a in arrivals if a.live and not a.late]
        inputs = [self._tokens.get((token.run, *source)) for source in sorted(sources)]
        reads = [t for read in token.reads for t in self._read_by(token.run, read)]
        return [t for t in inputs if t is not None and t.event], reads

    def _read_by(self, run: str, read: Read) -> list[Token]:
        found = [
            t
            for t in self._tokens.of("node", (run, read.node)).values()
            if t.scope.startswith(read.prefix)
            and t.event
            and (t.event <= read.upto or not read.upto)
            and not t.skip
        ]
        return sorted(found, key=by_key)[0 if read.every else -1 :]

    def _sizes(self, inputs: list[Token], reads: list[Token]) -> dict[Hashable, int]:
        """How large the outputs of these instances are."""
        return {t.key: len(self._events[t.run][t.event - 1].data) for t in (*inputs, *reads)}

    def _output(self, token: Token, outputs: dict[Key, Output]) -> Output:
        """The output of an instance; of an answer, each is made once."""
        if token.key not in outputs:
            data = output_of(self._events[token.run][token.event - 1].data)
            outputs[token.key] = Output(token.node, token.scope, data)
        return outputs[token.key]

    async def wait_until_durable(self, tenant: str, held: Held) -> bool:
        return True

    async def sweep(self, limit: int = 1000) -> Swept:
        now_ms = self._clock.now_ms()
        step = self._transition(self, now_ms)
        live = self._tokens.live.values()
        timed = sorted((t for t in live if t.due_ms is not None), key=by_due)
        expired = [
            t
            for t in timed
            if t.state == "leased" and not now_ms < (t.due_ms or 0) <= now_ms + LEASE_MS_MAX
        ][:limit]
        waiting = [t for t in timed if t.state == "waiting" and (t.due_ms or 0) <= now_ms][:limit]
        overdue = sorted(
            (r.deadline_ms, r.run)
            for r in self._runs.open.values()
            if r.deadline_ms is not None and r.deadline_ms <= now_ms
        )[:limit]
        counts = (
            sum(step.expire(t.key) for t in expired),
            sum(step.resume(t.tenant, t.key, None) for t in waiting),
            sum(step.pass_deadline(run) for _, run in overdue),
        )
        self._commit(step)
        deleted = self._delete_outdated(now_ms)
        return Swept(
            *counts,
            next_due_ms=self._next_due_ms(now_ms),
            more=limit in (len(expired), len(waiting), len(overdue))
            or deleted == DELETED_PER_SWEEP,
        )

    def _delete_outdated(self, now_ms: int) -> int:
        """Delete runs that ended longer ago than they are kept; say how many."""
        if self.retention_ms is None:
            return 0
        latest_ms = now_ms - self.retention_ms
        rows = [run for run in self._runs.values() if self._is_deletable(run)]
        ended = [(r.ended_ms, r.run) for r in rows if r.ended_ms is not None]
        outdated = sorted(one for one in ended if one[0] <= latest_ms)[:DELETED_PER_SWEEP]
        return self._delete({run for _, run in outdated})

    def _next_due_ms(self, now_ms: int) -> int | None:
        due = [
            t.due_ms
            for t in self._tokens.live.values()
            if t.due_ms is not None
            and (
                t.state in ("leased", "waiting")
                or (t.state == "ready" and t.lane == "" and t.due_ms > now_ms)
            )
        ]
        due += [r.deadline_ms for r in self._runs.open.values() if r.deadline_ms is not None]
        return min(due, default=None)

    async def wait_for_work(
        self,
        tenant: str,
        queues: Sequence[str],
        timeout_ms: int,
        runs: Collection[str] | None = None,
    ) -> bool:
        now_ms = self._clock.now_ms()
        for t in self._tokens.live.values():
            open_to_all = (t.state, t.lane, t.tenant) == ("ready", "", tenant)
            wanted = t.queue in queues and (runs is None or t.run in runs)
            if open_to_all and wanted and (t.due_ms or 0) <= now_ms:
                return True
        return await self._work.wait(timeout_ms)
