"""Deliveries, and the joins that some of them arrive at."""

from __future__ import annotations

from minuet import events
from minuet.events import COUNTED
from minuet.scopes import encode
from minuet.store.exchange import Delivery
from minuet.store.records import LIVE_STATES, Arrival, Join, Run, Token
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
        """Count an arrival at a join, once per source; fire the join when it is due.

        Items are counted as often as they settle: nothing else could make one arrive twice.
        """
        key = (run.run, d.node, d.scope)
        if (key, source) in self.arrivals or self._source.has_arrival(key, source):
            return False
        join = self.joins.get(key) or self._source.load_join(key)
        if join is None:
            join = Join(*key, need=d.need, total=d.total)
            self.new_joins.add(key)
        if not d.window:
            self.arrivals[(key, source)] = Arrival(*key, source, scope, d.live, join.fired)
        self.joins[key] = join
        self.changed_joins.add(key)
        if d.live:
            join.live += 1
            join.hop = max(join.hop, hop)
        else:
            join.skipped += 1
        need = d.need if d.window else join.need
        enough = join.live >= need or join.live + join.skipped >= join.total
        if not join.fired and enough:
            join.fired = True
            self._emit(run, d, live=join.live > 0, hop=join.hop, source="", scope="")
            if d.withdraws:
                self._withdraw(run, d, withdrawn)
        return True

    def _issue_next(self, run: Run, d: Delivery, item: Token) -> str | None:
        """Make the next item ready after one has arrived; its scope. None: there is none, or the
        join has fired."""
        join = self.joins[run.run, d.node, d.scope]
        # One of the arrivals is that of the list.
        number = d.window + join.live + join.skipped - 2
        if join.fired or number >= join.total - 1:
            return None
        scope = d.scope + encode((number,))
        self._issue(run, item, scope)
        return scope

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
            if new and d.window:
                sent.append((d.node, d.scope, COUNTED + d.live, d.need, d.total))
                issued = self._issue_next(run, d, self.tokens[run.run, source, scope])
                if issued is not None:
                    sent.append((source, issued, COUNTED + 1, 1, 1))
            elif new:
                sent.append((d.node, d.scope, 1 if d.live else 0, d.need, d.total))
        return sent, withdrawn
