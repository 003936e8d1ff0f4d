"""Mistakes in how runs are repaired."""

from __future__ import annotations

from minuet.store.changes import Repair
from minuet.store.exchange import Failed
from minuet.store.records import LIVE_STATES, Run, Token
from minuet.store.rules.transition import Transition


class SkipsWhatHasCompleted(Transition):
    """A node that has completed is skipped like any other."""

    def _repair(self, run: Run, change: Repair) -> None:
        token = self.token((run.run, change.node, change.scope))
        is_done = token is not None and (token.state, token.outcome) == ("done", "completed")
        if token is not None and is_done and change.action == "skip" and run.counter:
            run.counter += 1
            token.state, token.outcome, token.event = "ready", "", 0
        super()._repair(run, change)


class LosesWhatIsHeld(Transition):
    """A token that is held no longer counts."""

    def _hold(self, run: Run, token: Token, item: Failed) -> None:
        super()._hold(run, token, item)
        if run.counter > 1:
            run.counter -= 1


class LosesEditsOnRetry(Transition):
    """The next generation begins with the first config again."""

    def _reopen(self, run: Run, by: str, deadline_ms: int | None) -> None:
        super()._reopen(run, by, deadline_ms)
        for token in self._tokens_in(run.run, LIVE_STATES):
            token.edited = 0


class AcceptsWhatWasTakenBack(Transition):
    """A worker keeps the lease of a token that was taken back from it."""

    def _repair(self, run: Run, change: Repair) -> None:
        token = self.token((run.run, change.node, change.scope))
        before = None if token is None else (token.state, token.lease, token.due_ms)
        super()._repair(run, change)
        if token is not None and before is not None and change.action == "take_back":
            token.state, token.lease, token.due_ms = before


class RoutesAnOutputAsAHandlers(Transition):
    """A worker does not learn that a node has got an output, and calls the handler."""

    def _repair(self, run: Run, change: Repair) -> None:
        super()._repair(run, change)
        if change.action == "output":
            token = self.token((run.run, change.node, change.scope))
            assert token is not None
            token.given = 0
