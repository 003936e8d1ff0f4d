"""Concurrency slots: who holds one, who waits for one, and who is next."""

from __future__ import annotations

from typing import TypeAlias

from minuet.store.exchange import Result, Slot
from minuet.store.identifiers import slot_key
from minuet.store.records import Run, Token
from minuet.store.rules.changes import Changes

#: Tenant and key of a slot.
SlotName: TypeAlias = tuple[str, str]


def lane_of(run: Run) -> str:
    """The lane of a token that is ready and waits for no slot."""
    return "pause" if run.status == "PAUSED" else ""


def slot_of(token: Token) -> SlotName:
    """The slot that a token holds or waits for."""
    return (token.tenant, token.slot)


class Slots(Changes):
    """The rules of concurrency slots."""

    def _count_holders(self, slot: SlotName) -> int:
        """How many hold a slot by now."""
        return self._source.count_holders(*slot) + self.holders.get(slot, 0)

    def _hold_slot(self, slot: SlotName) -> None:
        self.holders[slot] = self.holders.get(slot, 0) + 1

    def _free_slot(self, token: Token) -> None:
        if not token.slot:
            return
        if token.lane != "slot":
            slot = slot_of(token)
            self.holders[slot] = self.holders.get(slot, 0) - 1
            self._freed[slot] = None
        token.slot, token.slot_limit = "", 0

    def _waiters(self, slot: SlotName) -> list[Token]:
        """Who waits for a slot by now, this step's own changes included."""
        for row in self._source.find_waiters(*slot):
            self.tokens.setdefault(row.key, row)
        found = [
            t
            for t in self.tokens.values()
            if t.lane == "slot" and t.state == "ready" and slot_of(t) == slot
        ]
        return sorted(found, key=lambda t: (t.due_ms or 0, t.key))

    def _promote(self, slot: SlotName) -> None:
        del self._freed[slot]
        taken = self._count_holders(slot)
        for token in self._waiters(slot):
            if taken >= token.slot_limit:
                break
            taken += 1
            self._hold_slot(slot)
            run = self.run(token.run)
            token.lane = "" if run is None else lane_of(run)
            self.changed_tokens.add(token.key)

    def promote_waiters(self) -> None:
        """Give freed slots to waiting tokens, first come first served. Call it last."""
        while self._freed:
            self._promote(next(iter(self._freed)))

    def _park(self, token: Token) -> None:
        """Hold a ready token back while its run is paused. It gives up the slot that it holds
        or waits for, and with a held slot the lease."""
        if token.slot:
            self._free_slot(token)
            token.lease = ""
        token.lane = "pause"
        self.changed_tokens.add(token.key)

    def _ask_slot(self, run: Run, token: Token, item: Slot) -> Result:
        """Give the token a slot, or let it wait its turn. A wait is not an event: nothing
        has happened to the run, its token is just not handed out yet. An empty key: no limit."""
        key = slot_key(item)
        if not key or token.slot == key:
            return "held"
        if run.status == "PAUSED":
            # It asks again when the run goes on.
            token.state, token.due_ms, token.lease = "ready", self.now_ms, ""
            self._park(token)
            return "applied"
        self._free_slot(token)
        slot = (token.tenant, key)
        if slot in self._freed:
            self._promote(slot)
        taken = self._count_holders(slot)
        token.slot, token.slot_limit = key, item.limit
        self.changed_tokens.add(token.key)
        if taken < item.limit:
            self._hold_slot(slot)
            return "held"
        token.state, token.due_ms, token.lease, token.lane = "ready", self.now_ms, "", "slot"
        return "applied"
