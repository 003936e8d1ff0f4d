"""Tokens: how they come, wait, become ready again and end."""

from __future__ import annotations

from typing import Literal

import msgspec

from minuet import events
from minuet.store.exchange import Delivery
from minuet.store.records import APPROVAL_WAIT, TIMED_OUT, Key, Read, Run, Token, TokenOutcome
from minuet.store.rules.slots import Slots, lane_of
from minuet.types import UNDO


class Tokens(Slots):
    """The rules of tokens."""

    def _fixed(self, run: Run, reads: tuple[Read, ...]) -> tuple[Read, ...]:
        """What a token reads, fixed at the event that makes it ready: the next one."""
        upto = run.seq + 1
        return tuple([Read(read.node, read.prefix, upto, read.every) for read in reads])

    def _begin_token(self, run: Run, key: Key, token: Token) -> None:
        """A new token: it counts."""
        self.tokens[key] = token
        self.new_tokens.add(key)
        self.changed_tokens.add(key)
        run.counter += 1

    def _emit(
        self, run: Run, delivery: Delivery, *, live: bool, hop: int, source: str, scope: str
    ) -> bool:
        """Make the target's token ready; False when the instance has one already."""
        key = (run.run, delivery.node, delivery.scope)
        if key in self.tokens or self._source.has_token(key):
            return False
        if live:
            token = Token(
                run.run,
                delivery.node,
                delivery.scope,
                tenant=run.tenant,
                queue=delivery.queue,
                due_ms=self.now_ms,
                hop=hop,
                source=source,
                source_scope=scope,
                reads=self._fixed(run, delivery.reads) if delivery.reads else (),
                lane=lane_of(run),
            )
        else:
            # Any worker can pass a skip on, whatever it takes to run the node.
            token = Token(
                run.run,
                delivery.node,
                delivery.scope,
                tenant=run.tenant,
                queue="",
                skip=True,
                due_ms=self.now_ms,
                hop=hop,
                lane=lane_of(run),
            )
        self._begin_token(run, key, token)
        return True

    def _issue(self, run: Run, item: Token, scope: str) -> None:
        """Make the next item ready, in its own scope: otherwise it is as one that has settled.

        Nothing else makes this token, so no store need look for it.
        """
        self._begin_token(
            run,
            (run.run, item.node, scope),
            Token(
                run=run.run,
                node=item.node,
                scope=scope,
                tenant=run.tenant,
                queue=item.queue,
                due_ms=self.now_ms,
                hop=item.hop,
                source=item.source,
                source_scope=item.source_scope,
                # Fixed at the same event for all items: so all of them read the same.
                reads=item.reads,
                lane=lane_of(run),
            ),
        )

    def _list_undos(self, run: Run, scope: str) -> None:
        """Make the node ready that lists what to undo, in a scope that no token has had. Any worker
        takes it."""
        self._begin_token(
            run,
            (run.run, UNDO, scope),
            Token(run.run, UNDO, scope, tenant=run.tenant, queue="", due_ms=self.now_ms),
        )

    def _end_token(
        self, run: Run, token: Token, state: Literal["done", "dead"], outcome: TokenOutcome
    ) -> None:
        """A live token ends: it no longer counts."""
        token.state, token.outcome = state, outcome
        token.due_ms = None
        if token.wait or token.wait_event:
            token.wait, token.wait_key, token.wait_event = "", "", 0
        if token.slot:
            self._free_slot(token)
        token.lane = ""
        self.changed_tokens.add(token.key)
        run.counter -= 1

    def _make_ready(self, run: Run, token: Token, due_ms: int) -> None:
        token.state, token.due_ms = "ready", due_ms
        token.wait, token.wait_key, token.wait_event = "", "", 0
        self._free_slot(token)
        token.lane = lane_of(run)
        self.changed_tokens.add(token.key)

    def _leave_unreported(self, run: Run) -> None:
        """Something has happened to a run that its parent or its children have to learn."""
        run.unreported = True
        self.unreported.add(run.run)
        self.changed_runs.add(run.run)
        self.rewritten_runs.add(run.run)

    def _note(self, run: Run) -> None:
        """The last event of a run is notable."""
        if not run.notable:
            run.notable = run.seq
            self.changed_runs.add(run.run)
            self.rewritten_runs.add(run.run)

    def _end_wait(
        self, run: Run, token: Token, resolution: bytes, resumed: events.NodeResumed
    ) -> None:
        """What a token waits for has come: a worker may take it."""
        token.resolution = resolution
        self._append(run, resumed)
        if token.wait == APPROVAL_WAIT:
            self._note(run)
        token.lease = ""
        self._make_ready(run, token, self.now_ms)

    def resume(
        self,
        tenant: str,
        key: Key,
        resolution: bytes | None,
        *,
        by: str = "",
        wait_key: str | None = None,
    ) -> bool:
        """Give a waiting token what it waits for; False when it does not wait (any more).

        None: nothing has come, and its time is over.
        """
        token, run = self.token(key), self.run(key[0])
        if token is None or run is None or run.tenant != tenant or token.state != "waiting":
            return False
        if wait_key is not None and token.wait_key != wait_key:
            return False
        data = TIMED_OUT if resolution is None else resolution
        raw = msgspec.Raw(data)
        resumed = events.NodeResumed(*key[1:], raw, by, timed_out=resolution is None)
        self._end_wait(run, token, data, resumed)
        return True
