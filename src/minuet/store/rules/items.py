"""Items handed in: judged alone, before the first change is made for them."""

from __future__ import annotations

from typing import Any

import msgspec

from minuet import events
from minuet.store.blob import blobs_of
from minuet.store.exchange import (
    GOES_ON,
    Done,
    Exchange,
    Failed,
    Item,
    Released,
    Result,
    Retried,
    Slot,
    Waiting,
)
from minuet.store.identifiers import are_long, is_long
from minuet.store.records import (
    APPROVAL_WAIT,
    CHILD_ENDED,
    FLOW_WAIT,
    HOLD_WAIT,
    PAYLOAD_BYTES_MAX,
    SIGNAL_WAIT,
    DeadLetter,
    Run,
    Token,
)
from minuet.store.rules.leases import is_lost
from minuet.store.rules.repairs import Repairs
from minuet.store.rules.shared import fingerprint
from minuet.types import TERMINAL


class Items(Repairs):
    """The rules of what workers hand in."""

    def _judge(self, run: Run, token: Token, item: Item) -> Result | None:
        if token.lease != item.lease:
            self._come_back(run, token, item.lease)
            return "closed" if run.status in TERMINAL else "stale"
        if token.state != "leased" and not self._hold_open(token):
            return "closed" if token.outcome in ("cancelled", "superseded") else "duplicate"
        if isinstance(item, Done):
            if item.plan != run.plan:
                return "replan"
            if len(item.output) > PAYLOAD_BYTES_MAX or are_long(item.deliveries):
                return "limit"
            for ref in blobs_of(item.node, item.output):
                if not self._source.has_own_blob(run.run, ref):
                    return "stale"
            if item.max_bytes is not None and run.output_bytes + item.output_bytes > item.max_bytes:
                return "full"
        elif isinstance(item, Waiting) and is_long(item.key):
            return "limit"
        return None

    def _done(self, run: Run, token: Token, item: Done) -> None:
        key, more = token.key, item.cursor is not None
        if more:
            token.cursor = item.cursor or 0
            self._make_ready(run, token, self.now_ms)
        else:
            if not token.slot and key not in self.changed_tokens:
                self.settled_tokens.add(key)
            self._end_token(run, token, "done", item.outcome)
        # Withdrawing ends tokens of this run, never the token at hand: it has ended above.
        sent, withdrawn = self._deliver_all(
            run, item.node, item.scope, item.deliveries, hop=token.hop + 1
        )
        if item.dead_letter is not None and item.error is not None:
            self._keep_letter(run, token, item.dead_letter, item.error)
        event: events.Event
        if token.event and not token.skip:
            event = events.NodeSent(item.node, item.scope, sent, run.counter, withdrawn, more)
        elif item.outcome == "skipped":
            event = events.NodeSkipped(
                item.node, item.scope, sent, run.counter, token.hop, withdrawn
            )
        else:
            event = events.NodeCompleted(
                item.node,
                item.scope,
                msgspec.Raw(item.output),
                sent,
                run.counter,
                token.attempt,
                token.hop,
                token.lease,
                token.session,
                token.taken_ms,
                item.error,
                item.notes,
                withdrawn,
                more,
                item.dead_letter,
                item.output_bytes,
            )
            if item.output_bytes:
                run.output_bytes += item.output_bytes
                self.rewritten_runs.add(run.run)
            self.outputs[key] = item.output.strip()
        seq = self._append(run, event)
        token.event = token.event or seq
        if run.counter == 0:
            self._complete(run)

    def _retry(self, run: Run, token: Token, item: Retried) -> None:
        due_ms = self.now_ms + max(0, item.delay_ms)
        self._append(
            run,
            events.NodeRetried(
                token.node,
                token.scope,
                token.attempt,
                item.error,
                due_ms,
                token.lease,
                token.session,
                token.taken_ms,
            ),
        )
        token.attempt += 1
        self._make_ready(run, token, due_ms)

    def _hold(self, run: Run, token: Token, item: Failed) -> None:
        """Keep the token of a node that failed alive, until somebody decides."""
        if item.dead_letter is not None:
            self._keep_letter(run, token, item.dead_letter, item.error, held=True)
        token.state, token.due_ms = "waiting", None
        token.wait, token.wait_key = HOLD_WAIT, ""
        self._free_slot(token)
        self.changed_tokens.add(token.key)
        token.wait_event = self._append(
            run,
            events.NodeHeld(
                token.node,
                token.scope,
                token.attempt,
                item.error,
                item.dead_letter or "",
                token.lease,
                token.session,
                token.taken_ms,
            ),
        )
        self._note(run)

    def _failed(self, run: Run, token: Token, item: Failed) -> None:
        if item.hold:
            self._hold(run, token, item)
            return
        self._end_token(run, token, "dead", "failed")
        if item.dead_letter is not None:
            self._keep_letter(run, token, item.dead_letter, item.error)
        self._append(
            run,
            events.NodeFailed(
                token.node,
                token.scope,
                token.attempt,
                item.error,
                run.counter,
                item.dead_letter,
                token.lease,
                token.session,
                token.taken_ms,
            ),
        )
        self._note(run)
        if run.status == "COMPENSATING":
            # How to go on with the undo is not known.
            self._end_undo(run)
            return
        self._append(run, events.RunFailed(token.node, token.scope, item.error))
        self._close(run, "FAILED", {**item.error, "node": token.node, "scope": token.scope})
        if run.undo_on in ("failure", "both"):
            self._undo(run)

    def _keep_letter(
        self, run: Run, token: Token, reason: str, error: dict[str, Any], *, held: bool = False
    ) -> None:
        """Keep the token of a node that has failed for good."""
        run.dead_letters += 1
        self.rewritten_runs.add(run.run)
        self.dead_letters.append(
            DeadLetter(
                *token.key,
                generation=run.generation,
                tenant=run.tenant,
                queue=token.queue,
                reason=reason,
                error=error,
                fingerprint=fingerprint(token.node, error),
                attempts=token.attempt,
                at_ms=self.now_ms,
                workflow=run.workflow,
                held=held,
            )
        )

    def _waiting(self, run: Run, token: Token, item: Waiting) -> None:
        due_ms = item.due_ms
        if item.delay_ms is not None:
            due_ms = self.now_ms + max(0, item.delay_ms)
        token.state, token.due_ms = "waiting", due_ms
        token.wait, token.wait_key, token.resolution = item.kind, item.key, None
        self._free_slot(token)
        self.changed_tokens.add(token.key)
        token.wait_event = self._append(
            run,
            events.NodeWaiting(
                token.node,
                token.scope,
                item.kind,
                item.key,
                due_ms,
                msgspec.Raw(item.data),
                token.lease,
                token.session,
                token.taken_ms,
            ),
        )
        if item.kind == APPROVAL_WAIT:
            self._note(run)
        if item.kind == "child" and (
            self._is_over(run, item.key) or self._is_missing(run, item.key)
        ):
            # It has ended before anything waited for it, or is to be started again.
            self.resume(run.tenant, token.key, CHILD_ENDED, by=item.key)
        if item.kind == SIGNAL_WAIT:
            self._receive_kept(run, token)
        elif item.kind == FLOW_WAIT:
            self._find_awaited(run, token)

    def _released(self, run: Run, token: Token) -> None:
        self._make_ready(run, token, self.now_ms)

    def hand_in(self, exchange: Exchange, item: Item) -> Result:
        """Apply one item, or say why not."""
        key = (item.run, item.node, item.scope)
        token = self.tokens.get(key) or self.token(key)
        run = self.runs.get(item.run) or self.run(item.run)
        if token is None or run is None or run.tenant != exchange.tenant:
            return "stale"
        refusal = self._judge(run, token, item)
        if refusal is not None and refusal not in GOES_ON:
            return refusal
        if token.lost and is_lost(token, token.lease):
            self._revive(exchange, run, token)
        if refusal is not None:
            return refusal
        match item:
            case Done():
                self._done(run, token, item)
            case Retried():
                self._retry(run, token, item)
            case Failed():
                self._failed(run, token, item)
            case Waiting():
                self._waiting(run, token, item)
            case Released():
                self._released(run, token)
            case Slot():
                return self._ask_slot(run, token, item)
        return "applied"
