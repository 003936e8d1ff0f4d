"""Read what happened in a run, and what it holds now, in the kernel's terms.

The kernel folds, explains and shows a run from these. The facade (`app`) decides which questions
exist and how answers are shaped.
"""

from __future__ import annotations

import msgspec

from minuet.bridge.pages import read_events
from minuet.bridge.reporting import find_children
from minuet.bridge.snapshot import read_event
from minuet.errors import DamagedRowError
from minuet.events import Event, Place
from minuet.kernel.explain.waiting import Fact
from minuet.kernel.fold import Fold, NumberedEvent, replay
from minuet.kernel.program import Program
from minuet.kernel.scope import decode
from minuet.plan.child import TYPE as CHILD_TYPE
from minuet.plan.plan import AGENT, FLOW
from minuet.store.base import Store
from minuet.store.blob import blob_of
from minuet.store.large import get_content
from minuet.store.records import DEPTH_MAX, LIVE_STATES, Run, Token
from minuet.types import Json, Scope

#: How deep runs can be below others.
LEVELS_MAX = DEPTH_MAX


class HistoryReader:
    """Reads the runs of one tenant."""

    def __init__(self, store: Store, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    async def history(
        self, run_id: str, after: int = 0, upto: int | None = None
    ) -> list[NumberedEvent]:
        """A run's events; DamagedRowError when one cannot be read."""
        return [
            (record.seq, record.at_ms, read_event(record))
            for record in await read_events(self._store, self._tenant, run_id, after, upto)
        ]

    async def stored_events(
        self, run_id: str, after: int = 0, upto: int | None = None
    ) -> list[tuple[int, int, Event | bytes]]:
        """A run's events; one that cannot be read as the bytes that the store holds."""
        found: list[tuple[int, int, Event | bytes]] = []
        for record in await read_events(self._store, self._tenant, run_id, after, upto):
            try:
                found.append((record.seq, record.at_ms, read_event(record)))
            except DamagedRowError:
                found.append((record.seq, record.at_ms, record.data))
        return found

    async def children(self, run: Run, program: Program) -> list[Run]:
        """The child runs of a run, in the order of its nodes."""
        places = {node.id: place for place, node in enumerate(program.plan.nodes)}
        tokens = replay(await self.history(run.run)).state.tokens
        wanted = [
            (places[node], scope, node)
            for node, scope in tokens
            if node in places and program.nodes[node].type in (CHILD_TYPE, FLOW, AGENT)
        ]
        return [
            child
            for _, scope, node in sorted(wanted)
            async for child in find_children(self._store, self._tenant, (run.run, node, scope))
        ]

    async def held(self, run_id: str) -> dict[Place, int]:
        """The instances that a worker holds at this moment, and since when."""
        tokens = await self._store.read_tokens(self._tenant, run_id)
        return {(t.node, t.scope): t.taken_ms for t in tokens if t.state == "leased"}

    async def live_facts(self, run_id: str) -> dict[Place, Fact]:
        """What the store knows of a run's live tokens."""
        tokens = await self._store.read_tokens(self._tenant, run_id)
        return {(t.node, t.scope): _facts(t) for t in tokens if t.state in LIVE_STATES}

    async def load_conditions(self, run_id: str, program: Program) -> None:
        """Load the schemas and the code that the program's conditions need."""
        for ref in program.all_missing_blobs():
            data = await get_content(self._store, ref, run=run_id, tenant=self._tenant)
            if data is not None:
                program.keep_blob(ref, bytes(data))

    async def open_blobs(self, run_id: str, fold: Fold) -> None:
        """Replace references by the large values that they stand for."""
        for token in fold.state.tokens.values():
            if token.output:
                token.output = await self._open_blob(run_id, token.output)
        fold.state.input = await self._open_blob(run_id, fold.state.input)

    async def input(self, run: Run) -> Json:
        """A run's input."""
        return msgspec.json.decode(await self._open_blob(run.run, run.input))

    async def _open_blob(self, run_id: str, value: bytes) -> bytes:
        """A value, or the large one that it refers to; the reference if that is lost."""
        ref = blob_of(value)
        if ref is None:
            return value
        data = await get_content(self._store, ref, run=run_id, tenant=self._tenant)
        return value if data is None else bytes(data)


def _facts(token: Token) -> Fact:
    return {
        "state": token.state,
        "lane": token.lane,
        "queue": token.queue,
        "slot": token.slot,
        "lease_until_ms": token.due_ms if token.state == "leased" else None,
        "session": token.session,
    }


def scope_of(run: Run) -> Scope:
    """Where in loops and maps of its parent a child run was started."""
    return decode(run.parent_scope)
