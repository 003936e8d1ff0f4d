"""Repairs: somebody decides what becomes of one token that has not settled."""

from __future__ import annotations

import msgspec

from minuet import events
from minuet.store.changes import Change, Repair, RepairAction
from minuet.store.records import HOLD_WAIT, LIVE_STATES, TIMED_OUT, Run, Token
from minuet.store.rules.leases import is_open
from minuet.store.rules.runs import Runs
from minuet.types import CLOSED, TERMINAL, LetterStatus

#: Why a token that has ended cannot be changed, by its outcome.
_ENDED = {
    "completed": "it has completed",
    "skipped": "it was skipped",
    "failed": "its failure was handled",
    "superseded": "it was withdrawn",
    "cancelled": "it was cut off",
}


def is_held(token: Token) -> bool:
    """Whether a token waits for somebody who decides, because its node failed."""
    return (token.state, token.wait) == ("waiting", HOLD_WAIT)


def refusal_of(run: Run, token: Token, action: RepairAction) -> str | None:
    """Why a token cannot be repaired in this way; None: it can."""
    has_failed = run.status == "FAILED" and (token.state, token.outcome) == ("dead", "failed")
    if action == "edit":
        return None if has_failed or is_held(token) else "it has not failed"
    decides = action in ("skip", "output")
    if has_failed and decides and run.undos:
        return "the run was undone"
    if run.status in TERMINAL and not (has_failed and decides):
        return f"the run is {run.status}"
    if run.status in CLOSED - TERMINAL and action != "take_back":
        return f"the run is {run.status}"
    if token.state not in LIVE_STATES and not has_failed:
        return _ENDED[token.outcome]
    if action == "take_back":
        return None if token.state == "leased" or is_open(token) else "no worker holds it"
    if not decides:
        return None if is_held(token) else "it is not held"
    if token.skip:
        return "it is being skipped"
    # Its fan-out goes on.
    return _ENDED["completed"] if token.event else None


class Repairs(Runs):
    """The rules of repairs."""

    def _decide(self, run: Run, token: Token, *, anywhere: bool) -> None:
        """Its handler will not be called: any worker may pass the result on, and child runs that
        it has started are not wanted."""
        if anywhere:
            token.queue = ""
        self.repaired_tokens.add(token.key)
        if run.children:
            self._leave_unreported(run)

    def _edit(self, run: Run, token: Token, change: Repair) -> None:
        config = msgspec.Raw(change.value)
        token.edited = self._append(
            run, events.NodeEdited(token.node, token.scope, config, change.by, change.why)
        )
        self.changed_tokens.add(token.key)
        self.repaired_tokens.add(token.key)

    def _fail_held(self, run: Run, token: Token, change: Repair) -> None:
        self._end_token(run, token, "dead", "failed")
        failed = events.NodeFailed(
            token.node, token.scope, token.attempt, change.error, run.counter
        )
        self._append(run, failed)
        self._note(run)
        self._append(run, events.RunFailed(token.node, token.scope, change.error))
        self._close(run, "FAILED", {**change.error, "node": token.node, "scope": token.scope})
        if run.undo_on in ("failure", "both"):
            self._undo(run)

    def _repair(self, run: Run, change: Repair) -> None:
        action = change.action
        token = self.token((run.run, change.node, change.scope))
        if token is None:
            raise self._conflict(run, f"has no such instance of node {change.node}")
        refusal = refusal_of(run, token, action)
        if refusal is not None:
            raise self._conflict(run, f"cannot change node {change.node}: {refusal}")
        if token.state == "ready":
            self._source.hold_token(token.key)
        if action == "edit":
            self._edit(run, token, change)
            return
        if run.status in TERMINAL:
            self._reopen(run, change.by, change.deadline_ms)
        if is_held(token):
            status: LetterStatus = "discarded" if action == "fail" else "reprocessed"
            why = change.why if action == "fail" else ""
            self.settled_letters.append((token.key, run.generation, status, why))
        is_taken = token.state == "leased" or is_open(token)
        seq = self._append(
            run,
            events.NodeRepaired(
                token.node,
                token.scope,
                action,
                msgspec.Raw(change.value),
                change.by,
                change.why,
                token.lease if is_taken else "",
                token.session if is_taken else "",
                token.taken_ms if is_taken else 0,
            ),
        )
        token.lease = ""
        self._make_ready(run, token, self.now_ms)
        match action:
            case "skip":
                token.skip = True
                self._decide(run, token, anywhere=True)
            case "output":
                token.given = seq
                self._decide(run, token, anywhere=change.anywhere)
            case "retry":
                token.attempt, token.expiry, token.lost = 1, 0, ()
                if token.resolution == TIMED_OUT:
                    token.resolution = None
            case "fail":
                self._fail_held(run, token, change)

    def _change(self, run: Run, change: Change) -> None:
        if isinstance(change, Repair):
            self._repair(run, change)
        else:
            super()._change(run, change)
