"""A worker's session with the store: it numbers the exchanges and repeats them until answered."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from minuet.errors import SessionError, StoreUnavailableError
from minuet.ids import Ids
from minuet.store.base import Store
from minuet.store.exchange import Exchange, Held, Item, Reply, Take
from minuet.telemetry.observer import Observer
from minuet.worker.counts import Outage
from minuet.worker.draining import Draining
from minuet.worker.sweeping import Sweeping

_log = logging.getLogger("minuet.worker")

#: First and longest pause after the store was not available.
BACKOFF_MS = (50, 5_000)


class Session:
    """One life of a worker, as the store sees it. Its calls are made one at a time."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        ids: Ids,
        lease_ms: int,
        *,
        outage: Outage,
        sweeping: Sweeping,
        draining: Draining,
        observer: Observer,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._ids = ids
        self._lease_ms = lease_ms
        self._outage = outage
        self._sweeping = sweeping
        self._draining = draining
        self._observer = observer
        self.id = ids.token()
        self._seq = 0

    def next_exchange(
        self,
        hand_in: tuple[Item, ...],
        renew: tuple[Held, ...],
        take: tuple[Take, ...],
        runs: tuple[str, ...] | None,
        lease_ms_by_queue: dict[str, int],
    ) -> Exchange:
        """The session's next call."""
        self._seq += 1
        return Exchange(
            session=self.id,
            seq=self._seq,
            lease=self._ids.token(),
            lease_ms=self._lease_ms,
            tenant=self._tenant,
            hand_in=hand_in,
            renew=renew,
            take=take,
            runs=runs,
            lease_ms_by_queue=lease_ms_by_queue,
        )

    async def call(self, request: Exchange) -> Reply:
        """Exchange, and repeat the same call until it is answered. StoreUnavailableError only when
        the worker drains and its time is up."""
        pause_ms, loop = BACKOFF_MS[0], asyncio.get_running_loop()
        while True:
            began_at = loop.time()
            try:
                reply = await self._store.exchange(request)
                now = loop.time()
                self._note_return(now)
                self._observer.exchanged(now - began_at, reply)
                return reply
            except SessionError:
                # The store has forgotten us (it was restored, or replaced). Leases decide
                # what of our work still counts, so handing it in again is safe.
                _log.warning("the store does not know this session; starting a new one")
                self.id, self._seq = self._ids.token(), 1
                request = msgspec.structs.replace(
                    request, session=self.id, seq=1, lease=self._ids.token()
                )
            except StoreUnavailableError as error:
                now = loop.time()
                self._observer.store_failed()
                if self._draining.is_over(now):
                    raise
                self._outage.begin(error, now)
                await asyncio.sleep(pause_ms / 1000)
                pause_ms = min(pause_ms * 2, BACKOFF_MS[1])

    def _note_return(self, now: float) -> None:
        """If leases may have run out while the store was away, let the other workers renew theirs
        before a sweep gives their tokens away."""
        away_s = self._outage.end(now)
        if away_s * 1000 >= self._lease_ms / 2:
            self._sweeping.let_others_renew(now, BACKOFF_MS[1], self._lease_ms)
