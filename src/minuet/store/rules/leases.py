"""Leases: renewed, expired, taken up again; and what only their holder may do."""

from __future__ import annotations

from minuet import events
from minuet.store.exchange import Exchange, Held
from minuet.store.records import LEASE_MS_MAX, LIVE_STATES, RETURNS_MAX, Key, Run, Token
from minuet.store.rules.joins import Joins


def lease_end(exchange: Exchange, queue: str, now_ms: int) -> int:
    """When a lease that is granted or renewed now runs out, of a token of this queue."""
    wanted_ms = exchange.lease_ms
    if exchange.lease_ms_by_queue:
        wanted_ms = exchange.lease_ms_by_queue.get(queue, wanted_ms)
    return now_ms + lease_length(wanted_ms)


def lease_length(wanted_ms: int) -> int:
    """How long a lease is when this is asked for."""
    return min(max(wanted_ms, 0), LEASE_MS_MAX)


def is_lost(token: Token, lease: str) -> bool:
    """Whether a lease is one of those of a token that have expired."""
    return lease != "" and lease in token.lost


def is_open(token: Token) -> bool:
    """Whether a token's lease has expired and no worker has taken the token since: its last worker
    may go on as if nothing had happened."""
    return token.state == "ready" and is_lost(token, token.lease)


class Leases(Joins):
    """The rules of leases."""

    def _hold_open(self, token: Token) -> bool:
        """As `is_open`, and so it stays until this step is committed."""
        if not is_open(token):
            return False
        self._source.hold_token(token.key)
        return True

    def _returned(self, run: Run, token: Token, lease: str, *, late: bool) -> None:
        """The worker of an expired lease is alive, so the expiry was not a crash."""
        kept = [one if one != lease else "" for one in token.lost if late or one != lease]
        token.lost = tuple(kept)
        token.expiry = max(0, token.expiry - 1)
        self.changed_tokens.add(token.key)
        self._append(
            run, events.LeaseReturned(token.node, token.scope, token.expiry, lease, late=late)
        )

    def _revive(self, exchange: Exchange, run: Run, token: Token) -> None:
        """The worker of the token's last lease goes on, although that lease has expired.

        The token may be leased: a call that is repeated after the store has forgotten its session
        takes it again under the same lease."""
        if token.state == "ready":
            token.state, token.lane = "leased", ""
        token.due_ms = lease_end(exchange, token.queue, self.now_ms)
        self._returned(run, token, token.lease, late=False)

    def _come_back(self, run: Run, token: Token, lease: str) -> None:
        """A worker names a lease that is not the token's. If it is one that has expired, its
        worker is alive, so the expiry was not a crash."""
        if token.state not in LIVE_STATES or not is_lost(token, lease):
            return
        if token.lost.count("") >= RETURNS_MAX:
            return
        if token.state == "ready":
            self._source.hold_token(token.key)
        self._returned(run, token, lease, late=True)

    def renew(self, exchange: Exchange, held: Held) -> bool:
        """Extend a lease; False when the token is no longer this worker's."""
        token = self.token((held.run, held.node, held.scope))
        if token is None or token.tenant != exchange.tenant:
            return False
        if token.lease == held.lease and token.state == "leased" and not token.lost:
            token.due_ms = lease_end(exchange, token.queue, self.now_ms)
            self.changed_tokens.add(token.key)
            return True
        run = self.run(held.run)
        assert run is not None
        if token.lease != held.lease:
            self._come_back(run, token, held.lease)
            return False
        if token.state != "leased" and not self._hold_open(token):
            return False
        if is_lost(token, token.lease):
            self._revive(exchange, run, token)
        token.due_ms = lease_end(exchange, token.queue, self.now_ms)
        self.changed_tokens.add(token.key)
        return True

    def expire(self, key: Key) -> bool:
        """Let others take the token of a worker that did not renew in time. Until one does, the
        lease can be taken up again, and the slot is kept for the worker that goes on."""
        token, run = self.token(key), self.run(key[0])
        if token is None or run is None or token.state != "leased":
            return False
        token.expiry += 1
        token.lost = (*token.lost, token.lease)
        expired = events.LeaseExpired(*key[1:], token.expiry, token.session, token.lease)
        self._append(run, expired)
        token.state, token.due_ms = "ready", self.now_ms
        self.changed_tokens.add(key)
        if run.status == "PAUSED":
            self._park(token)
        return True
