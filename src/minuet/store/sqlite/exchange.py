"""Exchanges on SQLite: a group of them is applied in a few statements for all together.

All items of the group are handed in, then written, then the tokens are taken, call by call.
So a call may be granted what another one of its group has just made ready; as all of them were
waiting at the same time, any order of them is a right one. A token that is made and taken in
one group is written once, when it is taken: most of them are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec.structs import astuple

from minuet.errors import SessionError
from minuet.store.records import (
    Exchange,
    Grant,
    Held,
    Key,
    Output,
    Reply,
    Result,
    RunHeader,
    Take,
    Token,
)
from minuet.store.reply import grant, header, output_of
from minuet.store.sqlite.known import Known
from minuet.store.sqlite.owners import Owner
from minuet.store.sqlite.rows import Row, Rows, to_json, token_of
from minuet.store.sqlite.statements import statement
from minuet.store.transition import Transition, lease_end

if TYPE_CHECKING:
    import apsw

_READ_SESSIONS = statement("read_sessions")
_WRITE_SESSION = statement("write_session")
_READY_TOKENS = statement("ready_tokens")
_OF_RUNS = statement("of_runs")
_TAKE_READY = statement("take_ready")
_LEASE_TOKEN = statement("lease_token")
_STILL_LEASED = statement("still_leased")
_READ_OUTPUTS = statement("read_outputs")
_READ_ARRIVED = statement("read_arrived")
_READ_LATEST = statement("read_latest")

#: Queues that one query looks at; SQLite allows 500 branches.
QUEUES_MAX = 400


#: A token that a call has got.
_Taken: TypeAlias = tuple[Key, Token]


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
        #: Tokens that this group has made and nobody has taken yet.
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
                call.taken += self._take(call.request, take)
        self._rows.insert_tokens(made)
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
        return [(row[1:4], token_of(row[1:])) for row in rows]

    # ── hand in and take ────────────────────────────────────────────────────────────────

    def _hand_in(self, call: _Call) -> None:
        request, step = call.request, self._step
        call.answer.results = tuple([step.hand_in(request, item) for item in request.hand_in])
        call.answer.revoked = tuple([h for h in request.renew if not step.renew(request, h)])

    def _take(self, request: Exchange, take: Take) -> list[_Taken]:
        if take.limit <= 0 or not take.queues:
            return []
        queues = sorted(set(take.queues))
        runs = None if request.runs is None else frozenset(request.runs)
        rows = self._ready(request.tenant, queues, runs, take.limit)
        found = {row[1:4]: row[0] for row in rows}
        tokens = [token_of(row[1:]) for row in rows]
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
        if not tokens:
            return []
        until = lease_end(request, self._now_ms)
        taken: list[_Taken] = []
        known: list[int] = []
        for token in tokens:
            token.state, token.lease, token.session = "leased", request.lease, request.session
            token.due_ms, token.taken_ms = until, self._now_ms
            token.delivery += 1
            key = token.key
            number = found.get(key)
            if number is not None:
                known.append(number)
                self._known.tokens[key] = (number, token)
            taken.append((key, token))
        if known:
            granted = (request.lease, request.session, until, self._now_ms)
            self._db.executemany(_LEASE_TOKEN, [(*granted, number) for number in known])
        if len(known) < len(tokens):
            self._made = [token for token in self._made if token.state == "ready"]
        return taken

    def _ready(
        self, tenant: str, queues: list[str], runs: frozenset[str] | None, limit: int
    ) -> list[Row]:
        """The oldest tokens of these queues: at most `limit` for as many as one query takes."""
        rows: list[Row] = []
        for first in range(0, len(queues), QUEUES_MAX):
            some = queues[first : first + QUEUES_MAX]
            names = {f"queue_{i}": queue for i, queue in enumerate(some)}
            bindings = {"tenant": tenant, "now": self._now_ms, "limit": limit, **names}
            if runs is not None:
                bindings["runs"] = to_json(sorted(runs))
            rows += self._db.execute(_take_ready(len(some), runs is not None), bindings).fetchall()
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
            )
            replies.append(call.error or reply)
            first = last
        return replies

    def _runs_wanted(self, call: _Call) -> set[str]:
        """The runs of what was granted, and of what has to be routed again."""
        wanted = {key[0] for key, _ in call.taken}
        results = call.answer.results
        if "replan" in results:
            items = zip(call.request.hand_in, results, strict=False)
            wanted |= {item.run for item, result in items if result == "replan"}
        return wanted

    def _headers(self, runs: set[str]) -> dict[str, RunHeader]:
        self._rows.load_runs(runs)
        rows = [self._rows.load_run(run) for run in runs]
        return {row.run: header(row) for row in rows if row is not None}

    def _grants(self, taken: list[_Taken]) -> list[Grant]:
        inputs: list[list[Output]] = [[] for _ in taken]
        reads: list[list[Output]] = [[] for _ in taken]
        self._find_inputs(taken, inputs)
        self._find_reads(taken, reads)
        return [grant(token, inputs[index], reads[index]) for index, (_, token) in enumerate(taken)]

    def _find_inputs(self, taken: list[_Taken], inputs: list[list[Output]]) -> None:
        """The outputs that arrived at these tokens: from one source, or at a join."""
        single: list[tuple[int, Key]] = []
        joined: list[tuple[int, Key]] = []
        known = self._known.outputs
        for index, (key, token) in enumerate(taken):
            if token.skip:
                continue
            if not token.source:
                joined.append((index, key))
                continue
            source = (key[0], token.source, token.source_scope)
            data = known.get(source)
            if data is None:
                single.append((index, source))
            else:
                inputs[index].append(Output(token.source, token.source_scope, data))
        if single:
            rows = self._db.execute(_READ_OUTPUTS, (to_json([key for _, key in single]),))
            for place, data in rows:
                index, source = single[place]
                inputs[index].append(Output(source[1], source[2], output_of(data)))
        if joined:
            rows = self._db.execute(_READ_ARRIVED, (to_json([key for _, key in joined]),))
            for place, node, scope, data in rows:
                inputs[joined[place][0]].append(Output(node, scope, output_of(data)))

    def _find_reads(self, taken: list[_Taken], reads: list[list[Output]]) -> None:
        """The outputs that these tokens' nodes read, and their own when they go on with them."""
        wanted = [(index, read) for index, (_, t) in enumerate(taken) for read in t.reads]
        if wanted:
            keys = [(taken[index][1].run, *astuple(read)) for index, read in wanted]
            rows = self._db.execute(_READ_LATEST, (to_json(keys),))
            for place, node, scope, data in sorted(rows, key=lambda row: int(row[0])):
                reads[wanted[place][0]].append(Output(node, scope, output_of(data)))
        going_on = [(index, key) for index, (key, t) in enumerate(taken) if t.cursor]
        if going_on:
            rows = self._db.execute(_READ_OUTPUTS, (to_json([key for _, key in going_on]),))
            for place, data in rows:
                index, key = going_on[place]
                reads[index].append(Output(key[1], key[2], output_of(data)))


def _by_age(token: Token) -> tuple[int, Key]:
    return (token.due_ms or 0, token.key)


def _take_ready(queues: int, of_runs: bool) -> str:
    """The statement that finds what is ready in so many queues."""
    text = _take_statements.get((queues, of_runs))
    if text is None:
        one = f"{_READY_TOKENS}\n{_OF_RUNS}" if of_runs else _READY_TOKENS
        branches = [one.format(queue=f":queue_{i}") for i in range(queues)]
        text = _TAKE_READY.format(branches="\nUNION ALL\n".join(branches))
        _take_statements[queues, of_runs] = text
    return text


_take_statements: dict[tuple[int, bool], str] = {}
