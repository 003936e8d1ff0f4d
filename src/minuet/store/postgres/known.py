"""What a session was granted, kept so that handing it in need not load it again.

A worker usually hands in what it has just taken. If no other call has changed those runs meanwhile,
their rows are still what the take returned, and the exchange can be worked out on them and sent
as one call, which the database checks against the runs' event numbers. If it does not hold, the
call is made again in the ordinary way. So this is never trusted, only tried.
"""

from __future__ import annotations

from collections.abc import Iterable

from minuet.store.blob import BLOB_START
from minuet.store.exchange import Done, Exchange
from minuet.store.postgres.granted import Place
from minuet.store.records import Key, Run, Token
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
            if item.output.startswith(BLOB_START):
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
        return True

    def forget(self, request: Exchange) -> None:
        """Forget what a call hands in or renews: its rows have been changed."""
        for held in request.renew:
            self.tokens.pop((held.run, held.node, held.scope), None)
        for item in request.hand_in:
            self.tokens.pop((item.run, item.node, item.scope), None)
            self.runs.pop(item.run, None)

    def advance(self, run: str, before: int, after: int) -> None:
        """Events were added to a run, and nothing else has changed."""
        found = self.runs.get(run)
        if found is not None and found[1].seq == before:
            found[1].seq = after

    def learn(
        self,
        seq: int,
        granted: Iterable[tuple[Place, Token]],
        runs: Iterable[tuple[int, Run]],
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
        if len(self.runs) > len(self.tokens) + _SPARE:
            held = {key[0] for key in self.tokens}
            self.runs = {name: row for name, row in self.runs.items() if name in held}
