"""What a take returns: rows of `minuet.granted`, read into tokens, their runs and grants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from minuet.store.exchange import Exchange, Grant, Output
from minuet.store.fields import decoder
from minuet.store.postgres.columns import DIALECT, LISTS
from minuet.store.records import Run, Token
from minuet.store.reply import grant, output_of
from minuet.store.rules.leases import lease_end

#: Where a row lies in its table (`ctid`): it moves whenever the row changes.
Place: TypeAlias = tuple[int, int]

#: A row has the columns of a token, then what belongs to taking it, then those of its run.
_TOKEN, _RUN = LISTS["granted_token"], ("run_id", *LISTS["granted_run"], "input")
_TAKEN = ("taken_ms", "place", "data", "outputs", "oversize")
_TAKEN_FIRST = len(_TOKEN)
_RUN_FIRST = _TAKEN_FIRST + len(_TAKEN)

_token_of = decoder(
    Token, _TOKEN, DIALECT, given=("tenant", "state", "due_ms", "lease", "session", "taken_ms")
)
_run_of = decoder(Run, _RUN, DIALECT, given=("run", "tenant"))

_QUEUE = _TOKEN.index("queue")

#: What a row that only has the data of an event has.
_EVENT, _DATA = _TOKEN.index("event"), _TAKEN_FIRST + _TAKEN.index("data")

#: The kinds of outputs that arrived, that are the token's own, and whose instance failed; all but
#: the first are read.
_ARRIVED, _OWN, _FAILED = 0, 2, 3


def now_of(head: Any) -> int:
    """The time, from the first row of an exchange on known rows."""
    now_ms: int = head[_TAKEN_FIRST]
    return now_ms


class Granted:
    """Tokens that a call has taken, in the order of taking."""

    def __init__(self, rows: Iterable[Any], request: Exchange) -> None:
        self.grants: list[Grant] = []
        self.tokens: list[tuple[Place, Token]] = []
        #: With their numbers in the database. Of a run, what an exchange needs is there.
        self.runs: dict[str, tuple[int, Run]] = {}
        #: Each output once, by its event, and the last one with a token that it made ready.
        self._events: dict[tuple[int, int], bytes] = {}
        self._outputs: dict[tuple[int, int], Output] = {}
        self._last: tuple[Token, Output] | None = None
        #: By queue: when a lease runs out that was granted by this call.
        self._ends: dict[str, int] = {}
        tokens = []
        for row in rows:
            if row[0] is not None:
                tokens.append(row)
            else:
                self._events[row[_RUN_FIRST], row[_EVENT]] = row[_DATA]
        for row in tokens:
            self._add(row, request)

    def _add(self, row: Any, request: Exchange) -> None:
        tenant = request.tenant
        taken_ms, place, data, outputs, oversize = row[_TAKEN_FIRST:_RUN_FIRST]
        until = self._ends.get(row[_QUEUE])
        if until is None:
            until = self._ends[row[_QUEUE]] = lease_end(request, row[_QUEUE], taken_ms)
        token = _token_of(
            row[:_TAKEN_FIRST], tenant, "leased", until, request.lease, request.session, taken_ms
        )
        self.tokens.append((place, token))
        if token.run not in self.runs:
            self.runs[token.run] = row[_RUN_FIRST], _run_of(row[_RUN_FIRST:], token.run, tenant)
        arrived: tuple[Output, ...] = ()
        read: tuple[Output, ...] = ()
        if outputs is not None:
            arrived, read = self._find(outputs)
        elif token.source:
            arrived = self._arrived(token, data)
        if token.skip:
            arrived = ()  # Somebody has skipped it after something had arrived.
        self.grants.append(grant(token, arrived, read, oversize))

    def _arrived(self, token: Token, data: bytes | None) -> tuple[Output, ...]:
        """The output of the one node that made a token ready: of tokens that follow each other
        and have the same, only the first comes with it."""
        if data is not None:
            output = Output(token.source, token.source_scope, output_of(data))
            self._last = token, output
            return (output,)
        if self._last is None or _source(self._last[0]) != _source(token):
            return ()
        return (self._last[1],)

    def _find(self, outputs: Any) -> tuple[tuple[Output, ...], tuple[Output, ...]]:
        """Outputs that arrived, and those that are read."""
        arrived: list[Output] = []
        read: list[Output] = []
        for kind, _, node, scope, run_id, event, _ in sorted(outputs, key=_order):
            output = self._outputs.get((run_id, event))
            if output is None:
                data = output_of(self._events[run_id, event])
                output = self._outputs[run_id, event] = Output(node, scope, data)
            if kind == _ARRIVED:
                arrived.append(output)
            else:
                read.append(Output(node, scope, output.data, kind == _FAILED, event))
        return tuple(arrived), tuple(read)


def _source(token: Token) -> tuple[str, str, str]:
    return token.run, token.source, token.source_scope


def _order(row: Any) -> tuple[Any, ...]:
    # Its own comes last, where it is looked for.
    return (row[0] == _OWN, row[0] != _ARRIVED, row[1], row[2], row[3])
