"""The notifier: passes on what is notable, and sends it.

Of all processes that have one, the holder of a lease works; the others wait. Each receiver has its
own task, so one that is slow or down delays nobody else. A receiver gets the notices of a run in
the order of its events: the next one is sent when the one before was accepted or given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence

import msgspec

from minuet.bridge.pages import read_cell, read_cells
from minuet.clock import Clock
from minuet.errors import MinuetError
from minuet.ids import Ids
from minuet.store.base import Store
from minuet.store.records import Cell, CellChange
from minuet.webhooks.addresses import Addresses
from minuet.webhooks.links import make_secret
from minuet.webhooks.outbox import (
    GONE,
    OUT,
    RECEIVER,
    Queued,
    Standing,
    cell_name,
    encode,
    pass_on,
    read_queued,
    read_standing,
)
from minuet.webhooks.receivers import Receiver
from minuet.webhooks.sending import NotAccepted, Sender

_log = logging.getLogger("minuet.webhooks")

#: Time between two looks for what is notable.
LOOK_MS = 1_000

#: How long the holder of the lease may be silent.
LEASE_MS = 30_000

#: The cell that says who sends.
LEASE = "webhooks/lease"

#: Webhooks that one receiver gets at once, of different runs.
AT_ONCE = 8

#: Times between attempts: the first, and the longest.
FIRST_DELAY_MS = 5_000
LONGEST_DELAY_MS = 3_600_000

#: Longest time that closing waits for calls that are under way.
CLOSE_S = 5.0


class Notifier:
    """Sends the webhooks of a store."""

    def __init__(
        self,
        store: Store,
        receivers: Sequence[Receiver],
        sender: Sender,
        *,
        clock: Clock,
        ids: Ids,
        public_url: str = "",
        give_up_ms: int = 3 * 24 * 3_600_000,
        lease_ms: int = LEASE_MS,
    ) -> None:
        self._store = store
        self._receivers = tuple(receivers)
        self._sender = sender
        self._clock = clock
        self._ids = ids
        self._addresses = Addresses(public_url.rstrip("/"))
        self._give_up_ms = give_up_ms
        self._lease = _Lease(store, clock, ids, lease_ms)
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._stopped = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop` is called."""
        while not self._stopped.is_set():
            try:
                await self.look()
            except Exception:
                # A bug. Whatever it was about, the rest has to be sent.
                _log.exception("webhooks could not be passed on")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_MS / 1000):
                    await self._stopped.wait()

    async def stop(self) -> None:
        """Pass on what is there, wait a moment for what is being sent, and let others go on."""
        self._stopped.set()
        await self.look()
        if self._sending:
            await asyncio.wait(self._sending.values(), timeout=CLOSE_S)
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)
        with contextlib.suppress(MinuetError):
            await self._lease.release()

    async def look(self) -> None:
        """Pass on what is notable, and begin to send what is due, if this is the one who sends."""
        try:
            if not await self._lease.hold():
                return
            since_ms = self._clock.now_ms() - self._give_up_ms
            if self._addresses.public_url and self._addresses.secret is None:
                secret = await make_secret(self._store, self._ids)
                self._addresses = Addresses(self._addresses.public_url, secret)
            await pass_on(self._store, self._receivers, self._addresses, since_ms)
        except MinuetError as error:
            _log.info("webhooks are passed on later: %s", error)
            return
        for receiver in self._receivers:
            task = self._sending.get(receiver.name)
            if task is None or task.done():
                self._sending[receiver.name] = asyncio.create_task(self._serve(receiver))

    async def settle(self) -> None:
        """Wait until nothing more can be sent at present."""
        await asyncio.gather(*self._sending.values())

    # ── one receiver ────────────────────────────────────────────────────────────────────

    async def _serve(self, receiver: Receiver) -> None:
        try:
            while await self._send_some(receiver):
                pass
        except MinuetError as error:
            _log.info("webhooks to %s are sent later: %s", receiver.name, error)
        except Exception:
            _log.exception("webhooks to %s could not be sent", receiver.name)

    async def _send_some(self, receiver: Receiver) -> bool:
        """Send to a receiver what is due; whether there may be more."""
        standing_cell = f"{RECEIVER}{receiver.name}"
        known = await read_cell(self._store, standing_cell)
        standing = read_standing(known.data) if known is not None else Standing()
        now_ms = self._clock.now_ms()
        if standing.due_ms > now_ms or not await self._lease.hold():
            return False
        # One that was down is asked whether it is back, before it gets all that it has missed.
        some = await self._find_due(receiver, 1 if standing.failures else AT_ONCE, now_ms)
        if not some:
            return False
        results = await asyncio.gather(*(self._send(receiver, *one) for one in some))
        now_ms = self._clock.now_ms()
        failed = [error for error in results if error is not None and error.is_down]
        if failed:
            failures = standing.failures + 1
            due_ms = now_ms + _delay_ms(failures)
            standing = msgspec.structs.replace(
                standing, failures=failures, due_ms=due_ms, error=str(failed[0])
            )
        else:
            sent_ms = now_ms if None in results else standing.sent_ms
            standing = Standing(sent_ms=sent_ms)
        await self._store.write_cells([CellChange(standing_cell, encode(standing))])
        return not failed

    async def _find_due(
        self, receiver: Receiver, limit: int, now_ms: int
    ) -> list[tuple[Cell, Queued]]:
        """The first notices of some runs, those that are due."""
        some: list[tuple[Cell, Queued]] = []
        seen: set[tuple[str, str]] = set()
        async for cell in read_cells(self._store, f"{OUT}{receiver.name}/"):
            try:
                queued = read_queued(cell.data)
            except msgspec.MsgspecError as error:
                _log.error("the webhook in the cell %s is damaged: %s", cell.name, error)
                kept = GONE + cell.name.removeprefix(OUT)
                removed = CellChange(cell.name, None, True, cell.data)
                await self._store.write_cells([removed, CellChange(kept, cell.data)])
                continue
            run = (queued.tenant, queued.run)
            if run in seen:
                continue
            if now_ms - queued.at_ms > self._give_up_ms:
                await self._give_up(receiver, cell, queued)
                continue
            seen.add(run)
            if queued.due_ms <= now_ms:
                some.append((cell, queued))
            if len(some) == limit:
                break
        return some

    async def _send(self, receiver: Receiver, cell: Cell, queued: Queued) -> NotAccepted | None:
        """Send one; why it was not accepted."""
        try:
            await self._sender.send(receiver, queued)
        except NotAccepted as error:
            attempts = queued.attempts + 1
            _log.info("the webhook %s was not accepted by %s: %s", queued.id, receiver.name, error)
            later = msgspec.structs.replace(
                queued,
                attempts=attempts,
                # If the receiver is down, its own time counts.
                due_ms=0 if error.is_down else self._clock.now_ms() + _delay_ms(attempts),
                error=str(error),
            )
            await self._store.write_cells([CellChange(cell.name, encode(later), True, cell.data)])
            return error
        await self._store.write_cells([CellChange(cell.name, None, True, cell.data)])
        return None

    async def _give_up(self, receiver: Receiver, cell: Cell, queued: Queued) -> None:
        _log.warning(
            "the webhook %s to %s is given up after %d attempts: %s",
            *(queued.id, receiver.name, queued.attempts, queued.error),
        )
        kept = cell_name(GONE, receiver.name, queued.run, queued.seq, queued.kind)
        removed = CellChange(cell.name, None, True, cell.data)
        await self._store.write_cells([removed, CellChange(kept, cell.data)])


class _Lease:
    """Who sends: the process that has written the cell last, unless it is silent for too long."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, lease_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._lease_ms = lease_ms
        self._owner = ids.token()
        self._count = 0
        #: The cell as it was when it last changed, and when that was seen.
        self._seen: bytes | None = None
        self._seen_ms = 0
        #: What this process has written; b"": it does not have the lease.
        self._own = b""
        self._own_ms = 0

    async def hold(self) -> bool:
        """Get the lease or keep it; whether this process has it."""
        now_ms = self._clock.now_ms()
        if self._own and 0 <= now_ms - self._own_ms < self._lease_ms // 3:
            return True
        cell = await read_cell(self._store, LEASE)
        data = None if cell is None else cell.data
        if data != self._own:
            self._own = b""
            if data is not None:
                if data != self._seen or now_ms < self._seen_ms:
                    self._seen, self._seen_ms = data, now_ms
                if now_ms - self._seen_ms < self._lease_ms:
                    return False
        self._count += 1
        mine = f"{self._owner} {self._count}".encode()
        if not await self._store.write_cells([CellChange(LEASE, mine, True, data)]):
            self._own = b""
            return False
        self._own, self._own_ms = mine, now_ms
        return True

    async def release(self) -> None:
        """Let another process have the lease at once."""
        if self._own:
            await self._store.write_cells([CellChange(LEASE, None, True, self._own)])
            self._own = b""


def _delay_ms(attempts: int) -> int:
    """How long to wait after so many failures."""
    return int(min(FIRST_DELAY_MS * 2 ** min(attempts - 1, 20), LONGEST_DELAY_MS))
