"""Deliveries, and the joins that some of them arrive at."""

from __future__ import annotations

from minuet import events
from minuet.store.records import (
    LIVE_STATES,
    Arrival,
    Delivery,
    Join,
    Run,
)
from minuet.store.rules.tokens import Tokens


class Joins(Tokens):
    """The rules of deliveries and joins."""

    def _withdraw(self, run: Run, d: Delivery, withdrawn: list[events.Place]) -> None:
        """A join has fired: what only leads to it is no longer wanted. There may be such tokens
        even when all have arrived, behind a join on the way that did not wait for them."""
        for token in self._tokens_in(run.run, LIVE_STATES):
            if token.node in d.withdraws and token.scope.startswith(d.scope):
                self._end_token(run, token, "dead", "superseded")
                withdrawn.append((token.node, token.scope))
        if withdrawn and run.children:
            self._leave_unreported(run)

    def _arrive(
        self,
        run: Run,
        d: Delivery,
        source: str,
        scope: str,
        hop: int,
        withdrawn: list[events.Place],
    ) -> bool:
        """Count an arrival at a join, once per source; fire the join when it is due."""
        key = (run.run, d.node, d.scope)
        if (key, source) in self.arrivals or self._source.has_arrival(key, source):
            return False
        join = self.joins.get(key) or self._source.load_join(key)
        if join is None:
            join = Join(*key, need=d.need, total=d.total)
            self.new_joins.add(key)
        self.arrivals[(key, source)] = Arrival(*key, source, scope, d.live, join.fired)
        self.joins[key] = join
        self.changed_joins.add(key)
        if d.live:
            join.live += 1
            join.hop = max(join.hop, hop)
        else:
            join.skipped += 1
        enough = join.live >= join.need or join.live + join.skipped >= join.total
        if not join.fired and enough:
            join.fired = True
            self._emit(run, d, live=join.live > 0, hop=join.hop, source="", scope="")
            if d.withdraws:
                self._withdraw(run, d, withdrawn)
        return True

    def _deliver_all(
        self, run: Run, source: str, scope: str, deliveries: tuple[Delivery, ...], *, hop: int
    ) -> tuple[list[events.Sent], list[events.Place]]:
        """Send deliveries from one source instance; say what was sent and withdrawn."""
        sent: list[events.Sent] = []
        withdrawn: list[events.Place] = []
        for d in deliveries:
            if d.total <= 1:
                new = self._emit(run, d, live=d.live, hop=hop, source=source, scope=scope)
            else:
                new = self._arrive(run, d, source, scope, hop, withdrawn)
            if new:
                sent.append((d.node, d.scope, 1 if d.live else 0, d.need, d.total))
        return sent, withdrawn
