"""Exchanges on SQLite: a group of them is applied in a few statements for all together.

All items of the group are handed in, then written, then the tokens are taken, call by call.
So a call may be granted what another one of its group has just made ready; as all of them were
waiting at the same time, any order of them is a right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

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
from minuet.store.sqlite.rows import Row, Rows, to_json, token_of
from minuet.store.sqlite.statements import statement
from minuet.store.transition import Transition, lease_end

if TYPE_CHECKING:
    import apsw

_READ_SESSIONS = statement("read_sessions")
_WRITE_SESSION = statement("write_session")
_READY_TOKENS = statement("ready_tokens")
_TAKE_READY = statement("take_ready")
_LEASE_TOKENS = statement("lease_tokens")
_READ_OUTPUTS = statement("read_outputs")
_READ_ARRIVED = statement("read_arrived")
_READ_LATEST = statement("read_latest")

#: SQLite's largest number of branches in one query.
QUEUES_MAX = 400


class _Answer(msgspec.Struct, array_like=True):
    """What is kept of a call so that it can be repeated."""

    results: tuple[Result, ...] = ()
    revoked: tuple[Held, ...] = ()
    granted: tuple[Key, ...] = ()


class _Call:
    """One exchange of the group, as far as it has got."""

    def __init__(self, request: Exchange) -> None:
        self.request = request
        self.repeated = False
        self.error: SessionError | None = None
        self.answer = _Answer()
        self.taken: list[Token] = []


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Answer).decode


class ExchangeGroup:
    """Exchanges of different sessions, applied together inside a transaction."""

    def __init__(
        self,
        db: apsw.Connection,
        known: Known,
        requests: Sequence[Exchange],
        now_ms: int,
        *,
        careful: bool,
    ) -> None:
        self._db = db
        self._known = known
        self._now_ms = now_ms
        self._calls = [_Call(request) for request in requests]
        self._rows = Rows(db, known, careful=careful)
        self._step = Transition(self._rows, now_ms)
        #: Whether something may have become ready to be taken.
        self.made_ready = False

    def apply(self) -> list[Reply | SessionError]:
        """Apply all of them; the answers, in the same order."""
        self._check_sessions()
        fresh = [call for call in self._calls if call.error is None and not call.repeated]
        self._rows.look_ahead(call.request for call in fresh)
        for call in fresh:
            self._hand_in(call)
        self._rows.write(self._step)
        self.made_ready = bool(self._step.new_tokens) or any(
            self._step.tokens[key].state == "ready" for key in self._step.changed_tokens
        )
        for call in fresh:
            for take in call.request.take:
                call.taken += self._take(call.request, take)
            call.answer.granted = tuple(token.key for token in call.taken)
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
            rows.append((*name, request.seq, request.lease, _encode(answer), self._now_ms))
            self._known.sessions[name] = (request.seq, request.lease, answer)
        self._db.executemany(_WRITE_SESSION, rows)

    def _still_held(self, call: _Call) -> list[Token]:
        """What a repeated call was granted and has not lost since."""
        self._rows.load_tokens(call.answer.granted)
        tokens = [self._rows.load_token(key) for key in sorted(call.answer.granted)]
        lease = call.request.lease
        return [t for t in tokens if t is not None and (t.state, t.lease) == ("leased", lease)]

    # ── hand in and take ────────────────────────────────────────────────────────────────

    def _hand_in(self, call: _Call) -> None:
        request, step = call.request, self._step
        call.answer.results = tuple([step.hand_in(request, item) for item in request.hand_in])
        call.answer.revoked = tuple([h for h in request.renew if not step.renew(request, h)])

    def _take(self, request: Exchange, take: Take) -> list[Token]:
        if take.limit <= 0 or not take.queues:
            return []
        queues = sorted(set(take.queues))[:QUEUES_MAX]
        names = {f"queue_{i}": queue for i, queue in enumerate(queues)}
        rows: list[Row] = self._db.execute(
            _take_ready(len(queues)),
            {"tenant": request.tenant, "now": self._now_ms, "limit": take.limit, **names},
        ).fetchall()
        if not rows:
            return []
        until = lease_end(request, self._now_ms)
        self._db.execute(
            _LEASE_TOKENS,
            {
                "lease": request.lease,
                "session": request.session,
                "until": until,
                "now": self._now_ms,
                "ids": to_json([row[0] for row in rows]),
            },
        )
        tokens = []
        for row in rows:
            token = token_of(row[1:])
            token.state, token.lease, token.session = "leased", request.lease, request.session
            token.due_ms, token.taken_ms = until, self._now_ms
            token.delivery += 1
            self._known.tokens[row[1:4]] = (row[0], token)
            tokens.append(token)
        return tokens

    # ── replies ─────────────────────────────────────────────────────────────────────────

    def _replies(self) -> list[Reply | SessionError]:
        taken = [token for call in self._calls for token in call.taken]
        grants = self._grants(taken) if taken else {}
        replan = {
            item.run
            for call in self._calls
            for item, result in zip(call.request.hand_in, call.answer.results, strict=False)
            if result == "replan"
        }
        headers = self._headers({token.run for token in taken} | replan)
        return [call.error or self._reply(call, grants, headers) for call in self._calls]

    def _reply(self, call: _Call, grants: dict[Key, Grant], headers: dict[str, RunHeader]) -> Reply:
        answer = call.answer
        wanted = {token.run for token in call.taken}
        if "replan" in answer.results:
            wanted |= {
                item.run
                for item, result in zip(call.request.hand_in, answer.results, strict=False)
                if result == "replan"
            }
        return Reply(
            answer.results,
            answer.revoked,
            tuple([grants[token.key] for token in call.taken]),
            {run: headers[run] for run in sorted(wanted) if run in headers},
            self._now_ms,
        )

    def _headers(self, runs: set[str]) -> dict[str, RunHeader]:
        self._rows.load_runs(runs)
        rows = [self._rows.load_run(run) for run in runs]
        return {row.run: header(row) for row in rows if row is not None}

    def _grants(self, tokens: list[Token]) -> dict[Key, Grant]:
        inputs = self._inputs(tokens)
        reads = self._reads(tokens)
        return {
            token.key: grant(token, inputs.get(token.key, ()), reads.get(token.key, ()))
            for token in tokens
        }

    def _inputs(self, tokens: list[Token]) -> dict[Key, list[Output]]:
        """The outputs that arrived at these tokens: from one source, or at a join."""
        found: dict[Key, list[Output]] = {}
        single: list[tuple[Key, Key]] = []
        joined: list[Key] = []
        known = self._known.outputs
        for t in tokens:
            if t.skip:
                continue
            if not t.source:
                joined.append(t.key)
                continue
            source = (t.run, t.source, t.source_scope)
            data = known.get(source)
            if data is None:
                single.append((t.key, source))
            else:
                found[t.key] = [Output(t.source, t.source_scope, data)]
        if single:
            rows = self._db.execute(_READ_OUTPUTS, (to_json([source for _, source in single]),))
            for index, data in rows:
                key, source = single[index]
                found[key] = [Output(source[1], source[2], output_of(data))]
        if joined:
            rows = self._db.execute(_READ_ARRIVED, (to_json(joined),))
            for index, node, scope, data in rows:
                found.setdefault(joined[index], []).append(Output(node, scope, output_of(data)))
        return found

    def _reads(self, tokens: list[Token]) -> dict[Key, list[Output]]:
        """The outputs that these tokens' nodes read, and their own when they go on with them."""
        found: dict[Key, list[Output]] = {}
        wanted = [(t, read) for t in tokens for read in t.reads]
        if wanted:
            keys = [(t.run, read.node, read.prefix) for t, read in wanted]
            rows = self._db.execute(_READ_LATEST, (to_json(keys),))
            for index, node, scope, data in sorted(rows, key=lambda row: int(row[0])):
                output = Output(node, scope, output_of(data))
                found.setdefault(wanted[index][0].key, []).append(output)
        going_on = [t for t in tokens if t.cursor]
        if going_on:
            rows = self._db.execute(_READ_OUTPUTS, (to_json([t.key for t in going_on]),))
            for index, data in rows:
                t = going_on[index]
                found.setdefault(t.key, []).append(Output(t.node, t.scope, output_of(data)))
        return found


def _take_ready(queues: int) -> str:
    """The statement that finds what is ready in so many queues."""
    text = _take_statements.get(queues)
    if text is None:
        branches = [_READY_TOKENS.format(queue=f":queue_{i}") for i in range(queues)]
        text = _TAKE_READY.format(branches="\nUNION ALL\n".join(branches))
        _take_statements[queues] = text
    return text


_take_statements: dict[int, str] = {}
