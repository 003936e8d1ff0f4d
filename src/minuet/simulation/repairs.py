"""People who repair runs in a world: they decide what becomes of nodes, right or wrong."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from minuet.app.app import App
from minuet.errors import RunConflictError, RunNotFoundError
from minuet.simulation.coverage import Coverage
from minuet.store.changes import Repair, RepairAction
from minuet.store.records import DeadLetter, Run, Token
from minuet.types import TERMINAL

#: Rounds in which people do anything; after these, they only end what is held.
ROUNDS = 25

#: Actions on any token, whether or not it is in a state for them.
ANY: tuple[RepairAction, ...] = ("skip", "output", "take_back", "take_back", "edit", "retry")

#: What others read of any node.
OUTPUT = msgspec.json.encode({"v": 1, "odd": False})

#: Makes a change of a run, again until there is a reply; says whether it was possible.
Change = Callable[[str, str, Callable[[], Awaitable[Run]]], Awaitable[bool]]


def add_holds(document: dict[str, Any]) -> None:
    """Let a document hold what fails, or some of its nodes."""
    chance = random.Random(f"holds {document['nodes']}")
    if chance.random() < 0.6:
        document["on_dlq"] = "hold"
    for node in document["nodes"]:
        if chance.random() < 0.2:
            node["on_dlq"] = chance.choice(("hold", "fail"))


class Repairer:
    """Somebody who looks at a run now and then, and changes single nodes of it."""

    def __init__(
        self,
        app: App,
        tenant: str,
        coverage: Coverage,
        change: Change,
        repeat: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
    ) -> None:
        self._app, self._tenant = app, tenant
        self._coverage = coverage
        self._change, self._repeat = change, repeat

    async def repair(self, run: str, name: str, is_over: Callable[[], bool]) -> None:
        """Change single nodes of a run until its script is over, and the run: what is held must
        end."""
        chance = random.Random(f"repair {name}")
        store, number = self._app.store, 0
        while True:
            await asyncio.sleep(chance.choice((0.1, 0.4, 1.0)))
            number = number + 1 if not is_over() else ROUNDS + 1
            row = await self._repeat(lambda: store.read_run(self._tenant, run))
            if is_over() and (row is None or row.status in TERMINAL):
                return
            if row is None:
                continue
            tokens = await self._repeat(lambda: store.read_tokens(self._tenant, run))
            if number <= ROUNDS and tokens and chance.random() < 0.3:
                # Also what has settled: it must be refused.
                await self._try(run, chance.choice(tokens), chance.choice(ANY))
            leased = [token for token in tokens if token.state == "leased"]
            if number <= ROUNDS and leased and chance.random() < 0.3:
                await self._try(run, chance.choice(leased), "take_back")
            if row.status in TERMINAL:
                await self._repair_failed(row, tokens, chance, number)
            else:
                await self._repair_held(run, chance, number)

    async def _repair_failed(
        self, row: Run, tokens: list[Token], chance: random.Random, number: int
    ) -> None:
        failed = [t for t in tokens if (t.state, t.outcome) == ("dead", "failed")]
        if row.status == "FAILED" and failed and number <= ROUNDS and chance.random() < 0.4:
            actions: tuple[RepairAction, ...] = ("skip", "output", "edit", "edit", "edit")
            await self._try(row.run, failed[0], chance.choice(actions))

    async def _repair_held(self, run: str, chance: random.Random, number: int) -> None:
        store = self._app.store
        letters: list[DeadLetter] = await self._repeat(
            lambda: store.list_dead_letters(self._tenant, run=run)
        )
        for letter in letters:
            if letter.held and (number > ROUNDS or chance.random() < 0.5):
                actions: tuple[RepairAction, ...] = ("skip", "output", "fail")
                if number <= ROUNDS:
                    actions += ("retry", "edit", "retry")
                await self._try(run, letter, chance.choice(actions))

    async def _try(self, run: str, place: Token | DeadLetter, action: RepairAction) -> None:
        value = b'{"x": ["edited"]}' if action == "edit" else OUTPUT
        change = Repair(
            place.node,
            place.scope,
            action,
            value,
            by="repairer",
            why="a test",
            # No worker but one of this queue could make the next item.
            anywhere=not place.node.endswith("$item"),
            error={"code": "let_fail", "message": "somebody let it fail"},
        )
        if action in ("skip", "output") and "$" in place.node:
            return  # The list of a foreach needs all its places, and has no output of its own.
        if action == "edit" and place.queue.startswith("flow:"):
            return  # Its code would not take it.
        store = self._app.store
        try:
            done = await self._change(
                f"Repair {action}", run, lambda: store.change_run(self._tenant, run, change)
            )
        except (RunConflictError, RunNotFoundError):
            done = False
        self._coverage.hit(f"repair {action}" if done else "repair refused")
