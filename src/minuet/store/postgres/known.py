"""What a session was granted, kept so that handing it in need not load it again.

A worker usually hands in what it has just taken. If no other call has changed those runs meanwhile,
their rows are still what the take returned, and the exchange can be worked out on them and sent
as one call, which the database checks against the runs' event numbers. If it does not hold, the
call is made again in the ordinary way. So this is never trusted, only tried.

Joins are known to those who changed them last. As long as other sessions also change a run, its
joins are not kept: trying would fail too often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minuet.store.blob import blobs_of
from minuet.store.exchange import Delivery, Done, Exchange
from minuet.store.postgres.granted import Place
from minuet.store.records import Join, Key, Run, Token
from minuet.types import TERMINAL

#: Runs with a larger input are not kept.
_BYTES_MAX = 4096

#: Runs kept beyond those that the session works on.
_SPARE = 1000


class Known:
    """The tokens that a session holds, with the places of their rows, and their runs, with
    their numbers in the database."""

    def __init__(self) -> None:
        #: Number of the session's last call; 0: unknown.
        self.seq = 0
        self.tokens: dict[Key, tuple[Place, Token]] = {}
        self.runs: dict[str, tuple[int, Run]] = {}
        #: By run: the joins of it that are known, and its number of events then.
        self._joins: dict[str, tuple[int, dict[Key, Join]]] = {}

    def joins_of(self, run: str, seq: int) -> dict[Key, Join]:
        """The joins of a run that are known, if it has as many events as it had then."""
        found = self._joins.get(run)
        return found[1] if found is not None and found[0] == seq else {}

    def is_steady(self, run: str, seq: int) -> bool:
        """Whether a run has as many events as this session knows of."""
        return run in self.runs and self.runs[run][1].seq == seq

    def covers(self, request: Exchange) -> bool:
        """Whether a call can be worked out on what is known: results, and nothing else."""
        if not self.seq or request.seq != self.seq + 1 or request.renew:
            return False
        for item in request.hand_in:
            if not isinstance(item, Done) or item.cursor is not None:
                return False
            # Bytes are counted in the run's row, which is rewritten then.
            if item.max_bytes is not None:
                return False
            if blobs_of(item.node, item.output):
                return False
            known = self.tokens.get((item.run, item.node, item.scope))
            if known is None or item.run not in self.runs:
                return False
            # The last token of an undo ends its run as what it was, which is not known here.
            if self.runs[item.run][1].status == "COMPENSATING":
                return False
            # Slots, and the leases that a token has lost, do not come with a grant.
            if known[1].slot or known[1].expiry:
                return False
            for delivery in item.deliveries:
                if delivery.total > 1 and not self._knows_join(item.run, delivery):
                    return False
        return True

    def _knows_join(self, run: str, delivery: Delivery) -> bool:
        joins = self.joins_of(run, self.runs[run][1].seq)
        return (run, delivery.node, delivery.scope) in joins

    def forget(self, request: Exchange) -> None:
        """Forget what a call hands in or renews: its rows have been changed."""
        for held in request.renew:
            self.tokens.pop((held.run, held.node, held.scope), None)
        for item in request.hand_in:
            self.tokens.pop((item.run, item.node, item.scope), None)
            self.runs.pop(item.run, None)
            self._joins.pop(item.run, None)

    def advance(self, run: str, before: int, after: int) -> None:
        """Events were added to a run, and nothing else has changed."""
        found = self.runs.get(run)
        if found is not None and found[1].seq == before:
            found[1].seq = after
            if run in self._joins and self._joins[run][0] == before:
                self._joins[run] = (after, self._joins[run][1])

    def learn(
        self,
        seq: int,
        granted: Iterable[tuple[Place, Token]],
        runs: Iterable[tuple[int, Run]],
        joins: Mapping[str, tuple[int, dict[Key, Join]]],
    ) -> None:
        """Keep what a call has left behind; later rows of a run replace earlier ones."""
        self.seq = seq
        for place, token in granted:
            self.tokens[token.run, token.node, token.scope] = (place, token)
        for number, run in runs:
            if run.status in TERMINAL or len(run.input) > _BYTES_MAX:
                self.runs.pop(run.run, None)
            else:
                self.runs[run.run] = (number, run)
        self._joins.update(joins)
        if len(self.runs) > len(self.tokens) + _SPARE:
            held = {key[0] for key in self.tokens}
            self.runs = {name: row for name, row in self.runs.items() if name in held}
            self._joins = {name: row for name, row in self._joins.items() if name in held}
