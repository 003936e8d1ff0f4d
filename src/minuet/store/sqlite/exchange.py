"""Exchanges on SQLite: a group of them is applied in a few statements for all together.

All items of the group are handed in, then written, then the tokens are taken, call by call.
So a call may be granted what another one of its group has just made ready; as all of them were
waiting at the same time, any order of them is a right one. A token that is made and taken in
one group is written once, when it is taken: most of them are.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec.structs import astuple

from minuet.errors import SessionError
from minuet.store.exchange import (
    WITH_HEADER,
    Exchange,
    Grant,
    Held,
    Output,
    Reply,
    Result,
    RunHeader,
    Take,
)
from minuet.store.fields import Row, to_json
from minuet.store.records import Key, Read, Token
from minuet.store.reply import Room, grant, header, output_of
from minuet.store.rules.leases import lease_end
from minuet.store.rules.transition import Transition
from minuet.store.sqlite.batches import Batch
from minuet.store.sqlite.known import Known
from minuet.store.sqlite.owners import Owner
from minuet.store.sqlite.rows import Rows, token_of
from minuet.store.sqlite.statements import statement

if TYPE_CHECKING:
    import apsw

_READ_SESSIONS = statement("read_sessions")
_WRITE_SESSION = statement("write_session")
_READY_TOKENS = statement("ready_tokens")
_HAS_READY = statement("has_ready")
_OF_RUNS = statement("of_runs")
_TAKE_READY = statement("take_ready")
_LEASE_TOKEN = Batch("lease_token", "lease_tokens")
_STILL_LEASED = statement("still_leased")
_READ_OUTPUTS = statement("read_outputs")
_FIND_ARRIVED = statement("find_arrived")
_FIND_LATEST = statement("find_latest")
_FIND_EVERY = statement("find_every")
_FIND_OUTPUTS = statement("find_outputs")
_READ_FOUND = statement("read_found")

#: Queues in one query; SQLite allows 500 branches.
QUEUES_MAX = 400

#: Queues that are asked without asking first whether anything is ready.
QUEUES_FEW = 3


#: As many outputs, one for each token, fit into an answer in any case.
FITTING = 256

#: Outputs that are at hand and have no more bytes than this need not be counted one by one: an
#: answer has room for many times as much.
LIGHT_BYTES_MAX = 1024 * 1024

#: A token that a call has got.
_Taken: TypeAlias = tuple[Key, Token]

#: An output: node and scope, the numbers of its run and its event, and how large that is. If every
#: instance is read: whether it failed.
_Found: TypeAlias = tuple[str, str, int, int, int] | tuple[str, str, int, int, int, int]


class _Needed(msgspec.Struct):
    """What comes with a token that may need more than the output of one node."""

    inputs: list[_Found] = []
    reads: list[_Found] = []
    oversize: int = 0


class _Answer(msgspec.Struct, array_like=True):
    """What is kept of a call so that it can be repeated."""

    results: tuple[Result, ...] = ()
    revoked: tuple[Held, ...] = ()


class _Call:
    """One exchange of the group, as far as it has got."""

    def __init__(self, request: Exchange) -> None:
        self.request = request
        self.repeated = False
        self.error: SessionError | None = None
        self.answer = _Answer()
        self.taken: list[_Taken] = []
        self.room = Room()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Answer).decode


class ExchangeGroup:
    """Exchanges of different sessions, applied together inside a transaction."""

    def __init__(
        self,
        db: apsw.Connection,
        known: Known,
        owner: Owner,
        requests: Sequence[Exchange],
        now_ms: int,
        *,
        careful: bool,
    ) -> None:
        self._db = db
        self._known = known
        self._owner = owner
        self._now_ms = now_ms
        self._calls = [_Call(request) for request in requests]
        self._rows = Rows(db, known, careful=careful)
        self._step = Transition(self._rows, now_ms)
        #: By token: what comes with it, if it was looked for.
        self._needed: dict[Key, _Needed] = {}
        #: Tokens that this group has made and that are not taken yet.
        self._made: list[Token] = []
        #: Whether something may have become ready to be taken.
        self.made_ready = False

    @property
    def ended(self) -> set[str]:
        """The runs that this group has brought to their end."""
        return self._step.ended

    def apply(self) -> list[Reply | SessionError]:
        """Apply all of them; the answers, in the same order."""
        self._check_sessions()
        fresh = [call for call in self._calls if call.error is None and not call.repeated]
        self._rows.look_ahead([call.request for call in fresh], self._step)
        for call in fresh:
            self._hand_in(call)
        step = self._step
        self._rows.write_changes(step)
        made = [step.tokens[key] for key in step.new_tokens]
        self._made = [token for token in made if token.state == "ready" and token.lane == ""]
        for call in fresh:
            for take in call.request.take:
                if not self._take(call, take):
                    break
        self._rows.begin_tokens(made)
        self.made_ready = any(step.tokens[key].state == "ready" for key in step.changed_tokens)
        self._write_sessions(fresh)
        for call in self._calls:
            if call.repeated:
                call.taken = self._still_held(call)
        return self._replies()

    # ── sessions ────────────────────────────────────────────────────────────────────────

    def _check_sessions(self) -> None:
        """Find out which calls are repeated and which ones come out of turn."""
        names = [(call.request.tenant, call.request.session) for call in self._calls]
        sessions = self._known.sessions
        unknown = [name for name in names if name not in sessions]
        if unknown:
            for row in self._db.execute(_READ_SESSIONS, (to_json(unknown),)):
                sessions[row[:2]] = (row[2], row[3], _decode(row[4]))
        for call, name in zip(self._calls, names, strict=True):
            seq, lease, answer = sessions.get(name, (0, "", None))
            request = call.request
            if request.seq == seq and request.lease == lease:
                call.repeated, call.answer = True, answer
            elif request.seq != seq + 1:
                call.error = SessionError(
                    f"session {request.session}: call {request.seq} after {seq}"
                )

    def _write_sessions(self, calls: list[_Call]) -> None:
        rows = []
        for call in calls:
            request, answer = call.request, call.answer
            name = (request.tenant, request.session)
            self._owner.serve(name)
            rows.append((*name, request.seq, request.lease, _encode(answer), self._now_ms))
            self._known.sessions[name] = (request.seq, request.lease, answer)
        self._db.executemany(_WRITE_SESSION, rows)

    def _still_held(self, call: _Call) -> list[_Taken]:
        request = call.request
        rows: list[Row] = self._db.execute(
            _STILL_LEASED, {"lease": request.lease, "tenant": request.tenant}
        ).fetchall()
        tokens = [token_of(row) for row in rows]
        for token, needed in self._look_for(tokens).items():
            # Each of them has fitted before.
            needed.oversize = Room().fit(_sizes(needed)) or 0
            self._needed[token] = needed
        return [(token.key, token) for token in tokens]

    # ── hand in and take ────────────────────────────────────────────────────────────────

    def _hand_in(self, call: _Call) -> None:
        request, step = call.request, self._step
        call.answer.results = tuple([step.hand_in(request, item) for item in request.hand_in])
        call.answer.revoked = tuple([h for h in request.renew if not step.renew(request, h)])

    def _take(self, call: _Call, take: Take) -> bool:
        """Take tokens as long as their outputs fit into the answer; whether all did."""
        request = call.request
        if take.limit <= 0 or not take.queues:
            return True
        queues = _unique(take.queues)
        runs = None if request.runs is None else frozenset(request.runs)
        rows = self._ready(request.tenant, queues, runs, take.limit)
        found = {row[1:4]: row[0] for row in rows}
        tokens = [token_of(row) for row in rows]
        if self._made:
            tokens += [
                t
                for t in self._made
                if t.tenant == request.tenant
                and t.queue in queues
                and (runs is None or t.run in runs)
            ]
        if self._made or len(queues) > QUEUES_MAX:
            tokens = sorted(tokens, key=_by_age)[: take.limit]
        wanted = len(tokens)
        tokens = self._fitting(call, tokens)
        if not tokens:
            return wanted == 0
        known: list[tuple[int, int]] = []
        ends = {token.queue: 0 for token in tokens}
        for queue in ends:
            ends[queue] = lease_end(request, queue, self._now_ms)
        for token in tokens:
            token.state, token.lease, token.session = "leased", request.lease, request.session
            until = ends[token.queue]
            token.due_ms, token.taken_ms = until, self._now_ms
            token.delivery += 1
            key = token.key
            number = found.get(key)
            if number is not None:
                known.append((until, number))
                self._known.tokens[key] = (number, token)
            call.taken.append((key, token))
        if known:
            lease, session, now_ms = request.lease, request.session, self._now_ms
            rows = [(lease, session, until, now_ms, number) for until, number in known]
            _LEASE_TOKEN.write(self._db, rows)
        if len(known) < len(tokens):
            self._made = [token for token in self._made if token.state == "ready"]
        return len(tokens) == wanted

    def _fitting(self, call: _Call, tokens: list[Token]) -> list[Token]:
        """The first of these tokens, whose outputs fit into the answer."""
        # Whether one may need more than the output of one node.
        if not any(t.reads or (not t.source and t.hop > 0) for t in tokens) and (
            len(tokens) <= FITTING or self._known_bytes(tokens) <= LIGHT_BYTES_MAX
        ):
            return tokens
        needed = self._look_for(tokens)
        for place, token in enumerate(tokens):
            oversize = call.room.fit(_sizes(needed[token.key]))
            if oversize is None:
                return tokens[:place]
            needed[token.key].oversize = oversize
            self._needed[token.key] = needed[token.key]
        return tokens

    def _known_bytes(self, tokens: list[Token]) -> float:
        """The bytes of the outputs that made tokens ready; infinity when not all are at hand."""
        known = self._known.outputs
        total = 0
        for token in tokens:
            if token.source and not token.skip:
                data = known.get((token.run, token.source, token.source_scope))
                if data is None:
                    return math.inf
                total += len(data)
        return total

    def _look_for(self, tokens: list[Token]) -> dict[Key, _Needed]:
        """What comes with tokens, without its data."""
        needed = {token.key: _Needed() for token in tokens}
        live = [token for token in tokens if not token.skip]
        sources = [t for t in live if t.source]
        keys = [(t.run, t.source, t.source_scope) for t in sources]
        for place, *found in self._db.execute(_FIND_OUTPUTS, (to_json(keys),)):
            needed[sources[place].key].inputs.append(tuple(found))
        joined = [t for t in live if not t.source]
        for place, *found in self._db.execute(_FIND_ARRIVED, (to_json([t.key for t in joined]),)):
            needed[joined[place].key].inputs.append(tuple(found))
        reads = [(t, read) for t in tokens for read in t.reads]
        if any(read.every for _, read in reads):
            rows = self._in_order(reads)
        else:
            rows = self._find_reads(_FIND_LATEST, reads)
        for key, found in rows:
            needed[key].reads.append(found)
        return needed

    def _find_reads(self, text: str, reads: list[tuple[Token, Read]]) -> list[tuple[Key, _Found]]:
        names = [(t.run, *astuple(read)) for t, read in reads]
        rows = self._db.execute(text, (to_json(names),))
        return [(reads[place][0].key, tuple(found)) for place, *found in rows]

    def _in_order(self, reads: list[tuple[Token, Read]]) -> list[tuple[Key, _Found]]:
        """The same where some read every instance: one by one, in the order of the reads."""
        return [
            found
            for one in reads
            for found in self._find_reads(_FIND_EVERY if one[1].every else _FIND_LATEST, [one])
        ]

    def _ready(
        self, tenant: str, queues: tuple[str, ...], runs: frozenset[str] | None, limit: int
    ) -> list[Row]:
        """The oldest tokens of these queues: at most `limit` for as many as one query takes."""
        rows: list[Row] = []
        if len(queues) > QUEUES_FEW and not self._db.execute(_HAS_READY, {"tenant": tenant}).get:
            return rows
        for names in _bindings(queues):
            bindings = {"tenant": tenant, "now": self._now_ms, "limit": limit, **names}
            if runs is not None:
                bindings["runs"] = to_json(sorted(runs))
            text = _take_ready(len(names), runs is not None)
            rows += self._db.execute(text, bindings).fetchall()
        return rows

    # ── replies ─────────────────────────────────────────────────────────────────────────

    def _replies(self) -> list[Reply | SessionError]:
        grants = self._grants([taken for call in self._calls for taken in call.taken])
        wanted = [self._runs_wanted(call) for call in self._calls]
        headers = self._headers(set().union(*wanted))
        replies: list[Reply | SessionError] = []
        first = 0
        for call, runs in zip(self._calls, wanted, strict=True):
            last = first + len(call.taken)
            reply = Reply(
                call.answer.results,
                call.answer.revoked,
                tuple(grants[first:last]),
                {run: headers[run] for run in sorted(runs) if run in headers},
                self._now_ms,
                self._unreported(call),
            )
            replies.append(call.error or reply)
            first = last
        return replies

    def _unreported(self, call: _Call) -> tuple[str, ...]:
        if not self._step.unreported:
            return ()
        return tuple(sorted({i.run for i in call.request.hand_in} & self._step.unreported))

    def _runs_wanted(self, call: _Call) -> set[str]:
        """The runs of what was granted, and of what has to be routed again."""
        wanted = {key[0] for key, _ in call.taken}
        results = call.answer.results
        if not WITH_HEADER.isdisjoint(results):
            items = zip(call.request.hand_in, results, strict=False)
            wanted |= {item.run for item, result in items if result in WITH_HEADER}
        return wanted

    def _headers(self, runs: set[str]) -> dict[str, RunHeader]:
        self._rows.load_runs(runs)
        rows = [self._rows.load_run(run) for run in runs]
        return {row.run: header(row) for row in rows if row is not None}

    def _grants(self, taken: list[_Taken]) -> list[Grant]:
        light = [token for key, token in taken if key not in self._needed]
        inputs = self._find_inputs(light)
        outputs = self._load([self._needed[key] for key, _ in taken if key in self._needed])
        own = self._read_outputs({key for key, token in taken if token.cursor})
        grants = []
        for key, token in taken:
            arrived: Sequence[Output] = ()
            reads: Sequence[Output] = ()
            oversize = 0
            needed = self._needed.get(key)
            if needed is None:
                # Most tokens: at most the output of the node that made it ready.
                found = inputs.get((token.run, token.source, token.source_scope))
                if found is not None:
                    arrived = (found,)
            elif needed.oversize:
                oversize = needed.oversize
            else:
                arrived = [outputs[one[2:4]] for one in needed.inputs]
                reads = [_as_read(outputs[one[2:4]], one) for one in needed.reads]
            if token.cursor and key in own:
                reads = [*reads, msgspec.structs.replace(own[key], event=token.event)]
            grants.append(grant(token, arrived, reads, oversize))
        return grants

    def _find_inputs(self, tokens: list[Token]) -> dict[Key, Output]:
        """The outputs of the nodes that made these tokens ready, each once."""
        found: dict[Key, Output] = {}
        unknown: set[Key] = set()
        known = self._known.outputs
        for token in tokens:
            if token.source and not token.skip:
                source = (token.run, token.source, token.source_scope)
                data = known.get(source)
                if data is None:
                    unknown.add(source)
                elif source not in found:
                    found[source] = Output(source[1], source[2], data)
        return found | self._read_outputs(unknown)

    def _read_outputs(self, instances: set[Key]) -> dict[Key, Output]:
        if not instances:
            return {}
        keys = sorted(instances)
        rows = self._db.execute(_READ_OUTPUTS, (to_json(keys),))
        found = {}
        for place, data in rows:
            key = keys[place]
            found[key] = Output(key[1], key[2], output_of(data))
        return found

    def _load(self, needed: list[_Needed]) -> dict[tuple[int, int], Output]:
        """The outputs that come with tokens, each once, by the numbers of run and event."""
        names = {
            one[2:4]: one[:2]
            for each in needed
            if not each.oversize
            for one in (*each.inputs, *each.reads)
        }
        if not names:
            return {}
        rows = self._db.execute(_READ_FOUND, (to_json(sorted(names)),))
        found = {}
        for run, seq, data in rows:
            node, scope = names[run, seq]
            found[run, seq] = Output(node, scope, output_of(data))
        return found


def _as_read(output: Output, found: _Found) -> Output:
    """An output that is read, with whether its instance failed if that is asked for."""
    return Output(output.node, output.scope, output.data, any(found[5:]), found[3])


def _sizes(needed: _Needed) -> dict[Hashable, int]:
    return {one[2:4]: one[4] for one in (*needed.inputs, *needed.reads)}


def _by_age(token: Token) -> tuple[int, str, str, str]:
    return (token.due_ms or 0, token.run, token.node, token.scope)


# A worker asks for the same queues in each call.


@lru_cache(1024)
def _unique(queues: tuple[str, ...]) -> tuple[str, ...]:
    """Queues in their order, each once."""
    return tuple(sorted(set(queues)))


@lru_cache(1024)
def _bindings(queues: tuple[str, ...]) -> list[dict[str, str]]:
    """The names of queues in each of the queries that ask for them."""
    firsts = range(0, len(queues), QUEUES_MAX)
    parts = [queues[first : first + QUEUES_MAX] for first in firsts]
    return [{f"queue_{i}": queue for i, queue in enumerate(part)} for part in parts]


@cache
def _take_ready(queues: int, of_runs: bool) -> str:
    """The statement that finds what is ready in this many queues."""
    one = f"{_READY_TOKENS}\n{_OF_RUNS}" if of_runs else _READY_TOKENS
    branches = [one.replace(":queue", f":queue_{i}") for i in range(queues)]
    return "\nUNION ALL\n".join(branches) + f"\n{_TAKE_READY}"
