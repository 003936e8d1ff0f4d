"""Random programs for durable functions, as data, and the function that carries them out.

A program is a list of statements. It is an argument of the function, so a seed gives the same
program in every process. What the code has got so far goes into the arguments of each step: code
that gets the same things in another order calls its steps with other arguments.
"""

from __future__ import annotations

import asyncio
import random
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from minuet.errors import SignalTimeoutError
from minuet.functions.flow import Flow
from minuet.functions.function import Function
from minuet.nodes.handler import AnyTask
from minuet.simulation.documents import SIGNALS

#: The name of the function.
NAME = "program"

#: Tasks and how often they are drawn (`simulation.functions` has them).
TASKS = {"even": 8, "random": 3, "sync": 2, "slow": 2, "unsteady": 3, "failing": 2, "dying": 0.6}

#: Statements and how often they are drawn: those with statements inside, and those without.
BLOCKS = {"try": 3, "gather": 3, "group": 1, "race": 1, "limit": 2, "loop": 1}
PLAIN = {"step": 12, "sleep": 2, "signal": 3, "note": 3, "child": 2, "return": 1, "raise": 0.5}

#: Documents that a function starts as child runs.
DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"name": "steady-child", "nodes": [{"id": "c0", "handler": "steady"}]},
    {
        "name": "broken-child",
        "nodes": [{"id": "c0", "type": "noop"}, {"id": "c1", "handler": "broken"}],
    },
    {
        "name": "waiting-child",
        "nodes": [{"id": "c0", "type": "wait", "config": {"seconds": 0.5}}],
    },
)

Tree = list[dict[str, Any]]


class ProgramMaker:
    """Makes one program."""

    def __init__(self, chance: random.Random, size: int, levels: int = 2) -> None:
        self._chance = chance
        self._left = size
        self._levels = levels

    def make(self) -> Tree:
        """A program of about this size."""
        tree: Tree = []
        while self._left > 0:
            tree.append(self._statement(3, is_inside=False))
        return tree

    def _draw(self, among: Mapping[str, float]) -> str:
        return self._chance.choices(list(among), list(among.values()))[0]

    def _body(self, depth: int, *, is_inside: bool) -> Tree:
        count = self._chance.choice((1, 1, 2, 3))
        return [self._statement(depth, is_inside=is_inside) for _ in range(count)]

    def _statement(self, depth: int, *, is_inside: bool) -> dict[str, Any]:
        """A statement. Inside of what runs side by side, nothing returns."""
        self._left -= 1
        chance = self._chance
        if depth > 0 and self._left > 0 and chance.random() < 0.35:
            do = self._draw(BLOCKS)
            if do in ("gather", "group", "race"):
                parts = [
                    self._body(depth - 1, is_inside=True)
                    for _ in range(chance.choice((2, 2, 3, 5)))
                ]
                return {"do": do, "parts": parts, "all": chance.random() < 0.6}
            made: dict[str, Any] = {"do": do, "body": self._body(depth - 1, is_inside=is_inside)}
            if do == "limit":
                made["seconds"] = chance.choice((0.05, 0.3, 1, 4))
            elif do == "loop":
                made["times"] = chance.choice((2, 2, 3))
            return made
        do = self._draw(PLAIN)
        if do == "return" and is_inside:
            do = "step"
        return {"do": do, **self._details(do)}

    def _details(self, do: str) -> dict[str, Any]:
        chance = self._chance
        match do:
            case "step":
                return {"task": self._draw(TASKS)}
            case "sleep":
                return {"seconds": chance.choice((0, 0.05, 0.5, 2, 5))}
            case "signal":
                timeout = chance.choice((None, None, 0, 0.3, 2))
                return {"name": chance.choice(SIGNALS), "timeout": timeout}
            case "note":
                return {"what": chance.choice(("now", "random", "uuid"))}
            case "child" if self._levels and chance.random() < 0.5:
                inner = ProgramMaker(chance, chance.choice((1, 2, 4)), self._levels - 1)
                return {"tree": inner.make()}
            case "child":
                return {"document": chance.randrange(len(DOCUMENTS))}
        return {}


def kinds_in(tree: Tree) -> set[str]:
    """The statements that a program has."""
    found: set[str] = set()
    for statement in tree:
        found.add(statement["do"])
        inner = [statement.get("body", []), statement.get("tree", []), *statement.get("parts", ())]
        for body in inner:
            found |= kinds_in(body)
    return found


class _Return(Exception):
    """The program returns early."""


class StopError(Exception):
    """The program fails."""


def make_function(tasks: Mapping[str, AnyTask]) -> Function[Any, Any]:
    """The durable function that carries out programs, with these tasks."""

    async def program(ctx: Flow, tree: Tree, n: int = 0, key: str = "") -> dict[str, Any]:
        code = _Code(ctx, tasks, lambda: made, n, key)
        try:
            await code.do_all(tree)
        except _Return:
            code.get("returned", True)
        number = code.sum() % 1000
        return {"v": number, "odd": number % 2 == 1, "seen": code.seen}

    made: Function[Any, Any] = Function(program, name=NAME)
    return made


class _Code:
    """A program that is carried out."""

    def __init__(
        self,
        ctx: Flow,
        tasks: Mapping[str, AnyTask],
        function: Callable[[], Function[Any, Any]],
        n: int,
        key: str,
    ) -> None:
        self._ctx = ctx
        self._tasks = tasks
        self._function = function
        self._input = {"n": n, "key": key}
        #: What it has got, in order.
        self.seen: list[Any] = []

    def get(self, what: str, value: Any) -> None:
        """The code has got something."""
        self.seen.append([what, value])

    def sum(self) -> int:
        """A number that follows from all that the code has got."""
        return zlib.crc32(repr(self.seen).encode())

    async def do_all(self, tree: Tree) -> None:
        """Do one statement after the other."""
        for statement in tree:
            await getattr(self, f"_{statement['do']}")(statement)

    # ── statements ──────────────────────────────────────────────────────────────────────

    async def _step(self, statement: dict[str, Any]) -> None:
        name = statement["task"]
        self.get(name, await self._tasks[name].step(self.sum()))

    async def _sleep(self, statement: dict[str, Any]) -> None:
        await self._ctx.sleep(statement["seconds"])
        self.get("slept", statement["seconds"])

    async def _signal(self, statement: dict[str, Any]) -> None:
        name, timeout = statement["name"], statement["timeout"]
        try:
            self.get(name, await self._ctx.signal(name, timeout=timeout))
        except SignalTimeoutError:
            self.get(name, "nothing")

    async def _note(self, statement: dict[str, Any]) -> None:
        what = statement["what"]
        self.get(what, str(getattr(self._ctx, what)()))

    async def _child(self, statement: dict[str, Any]) -> None:
        if "tree" in statement:
            work = self._ctx.start(self._function(), tree=statement["tree"], **self._input)
        else:
            work = self._ctx.start(DOCUMENTS[statement["document"]], self._input)
        self.get("child", await work)

    async def _return(self, statement: dict[str, Any]) -> None:
        if self.sum() % 2:
            raise _Return

    async def _raise(self, statement: dict[str, Any]) -> None:
        if self.sum() % 2:
            raise StopError("the program stops here")

    async def _try(self, statement: dict[str, Any]) -> None:
        try:
            await self.do_all(statement["body"])
        except _Return:
            raise
        except Exception as error:
            self.get("caught", type(error).__name__)

    async def _loop(self, statement: dict[str, Any]) -> None:
        for _ in range(statement["times"]):
            await self.do_all(statement["body"])

    async def _limit(self, statement: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(statement["seconds"]):
                await self.do_all(statement["body"])
        except TimeoutError:
            self.get("late", statement["seconds"])

    async def _gather(self, statement: dict[str, Any]) -> None:
        parts = (self.do_all(part) for part in statement["parts"])
        found = await asyncio.gather(*parts, return_exceptions=statement["all"])
        self.get("gathered", [type(one).__name__ for one in found])

    async def _group(self, statement: dict[str, Any]) -> None:
        async with asyncio.TaskGroup() as group:
            for part in statement["parts"]:
                group.create_task(self.do_all(part))

    async def _race(self, statement: dict[str, Any]) -> None:
        tasks = [asyncio.create_task(self.do_all(part)) for part in statement["parts"]]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        winners = sorted(tasks.index(task) for task in done)
        self.get("won", winners)
        for winner in winners:
            tasks[winner].result()
