"""Workers of different kinds, nodes that only some of them may run, and a foreman who drains them.

Half of the worlds have a fleet. `RULES` states each constraint twice: as a document writes it, and
as a separate predicate that shares nothing with the engine. `Placing` checks that no token goes to
a worker that does not qualify, and that no worker runs a node more often at once than allowed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from minuet.errors import StoreUnavailableError
from minuet.plan.plan import item_id
from minuet.simulation.checker import BrokenRule
from minuet.simulation.coverage import Coverage
from minuet.simulation.loop import Process
from minuet.simulation.model import ModelStore
from minuet.simulation.store import SimStore
from minuet.simulation.streams import Streams
from minuet.store.exchange import Exchange, Reply
from minuet.store.records import Key
from minuet.worker.identity import Identity

#: The members that qualify for everything, one for each tenant.
FIRST = ("worker0", "second0", "third0")

#: Probability that a node gets constraints.
LIKELIHOOD = 0.35

#: Time between two heartbeats, and mean seconds between two drains of a worker.
HEARTBEAT_MS = 700
GAP = 3.0


class Rule(msgspec.Struct, frozen=True):
    """A constraint, and which workers meet it."""

    constraints: dict[str, Any]
    is_met: Callable[[Identity], bool]


RULES = (
    Rule({}, lambda one: True),
    Rule(
        {"requires_capabilities": {"gpu": 1}},
        lambda one: one.capabilities["gpu"] in (1, 2),
    ),
    Rule(
        {"requires_capabilities": {"labels": ["ssd"]}},
        lambda one: "ssd" in one.capabilities["labels"],
    ),
    Rule({"requires_executors": ["docker", "shell"]}, lambda one: one.executors == ("docker",)),
    Rule({"allowed_nodes": [*FIRST, "worker2"]}, lambda one: one.name != "worker1"),
    Rule({"forbidden_nodes": ["worker2"]}, lambda one: one.name != "worker2"),
)


def draw_identity(member: str, streams: Streams) -> Identity:
    """What a member of the crew offers. It is the same at every start."""
    chance = streams.make(f"offer/{member}")
    gpu, labels = chance.choice((0, 1)), chance.choice(([], ["hdd"], ["hdd", "ssd"]))
    executors = chance.choice(((), ("docker",)))
    if member in FIRST:
        gpu, labels, executors = 2, ["hdd", "ssd"], ("docker",)
    return Identity(member, {"gpu": gpu, "labels": labels}, executors)


class Placing:
    """Which nodes have which constraints, and whether they are met."""

    def __init__(
        self,
        model: ModelStore,
        chance: random.Random,
        coverage: Coverage,
        fail: Callable[[BrokenRule], None],
    ) -> None:
        self._model = model
        self._chance = chance
        self._coverage = coverage
        self._fail = fail
        #: By workflow and node: the rule, and how many instances may run at once on one worker.
        self._rules: dict[tuple[str, str], tuple[Rule, int]] = {}
        self._identities: dict[str, Identity] = {}
        #: The workflow of each run that was ever handed out.
        self._workflows: dict[str, str] = {}
        self._running: Counter[tuple[Process, str, str]] = Counter()

    def add(self, document: dict[str, Any]) -> None:
        """Give some nodes of a document constraints."""
        # A document of this name that was refused had other nodes.
        self._rules = {key: rule for key, rule in self._rules.items() if key[0] != document["name"]}
        for node in document["nodes"]:
            # In a foreach, they are constraints on the items.
            token_node = item_id(node["id"]) if "foreach" in node else node["id"]
            name = (document["name"], token_node)
            if self._chance.random() < LIKELIHOOD:
                rule, limit = self._chance.choice(RULES), self._chance.choice((None, 1, 2))
                most = {} if limit is None else {"max_parallel_per_node": limit}
                node["placement_constraints"] = {**rule.constraints, **most}
                self._rules[name] = (rule, limit or 1)

    def introduce(self, identity: Identity) -> Identity:
        """Register a member of the crew."""
        self._identities[identity.name] = identity
        return identity

    # ── watching ────────────────────────────────────────────────────────────────────────

    def check_exchange(self, process: Process, request: Exchange, reply: Reply) -> None:
        """Check that every token went to a worker that qualifies."""
        identity = self._identities.get(_member(process))
        for grant in reply.granted:
            run = self._model.run(grant.run)
            if run is None or identity is None:
                continue
            self._workflows[grant.run] = run.workflow
            known = self._rules.get((run.workflow, grant.node))
            if known is None or grant.skip or grant.given:
                continue
            self._coverage.hit("placed token taken")
            if not known[0].is_met(identity):
                message = f"{grant.node!r} was given to {identity.name}, which does not qualify"
                self._fail(BrokenRule("placement", message, grant.run))

    def begin(self, instance: Key, process: Process) -> None:
        """A handler starts."""
        workflow = self._workflows.get(instance[0], "")
        known = self._rules.get((workflow, instance[1]))
        name = (process, workflow, instance[1])
        self._running[name] += 1
        if known is not None and self._running[name] > known[1]:
            message = (
                f"{process.name} runs {self._running[name]} instances of {instance[1]!r} at once, "
                f"and may run {known[1]}"
            )
            self._fail(BrokenRule("parallel", message, instance[0]))

    def end(self, instance: Key, process: Process) -> None:
        """A handler has ended, with any outcome."""
        self._running[process, self._workflows.get(instance[0], ""), instance[1]] -= 1


class Foreman:
    """Drains and removes workers at random, through the store."""

    def __init__(
        self,
        store: SimStore,
        process: Process,
        tenants: tuple[str, ...],
        chance: random.Random,
        coverage: Coverage,
    ) -> None:
        self._store = store
        self.process = process
        self._tenants = tenants
        self._chance = chance
        self._coverage = coverage

    async def run(self) -> None:
        """Repeat it until the world ends."""
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / GAP))
            tenant, verb = (
                self._chance.choice(self._tenants),
                self._chance.choice(("drain", "remove")),
            )
            try:
                workers = await self._store.list_workers(tenant)
                if workers:
                    worker = self._chance.choice(workers).record.worker
                    done = await getattr(self._store, f"{verb}_worker")(tenant, worker)
                    if done:
                        self._coverage.hit(f"fleet {verb}")
            except StoreUnavailableError:
                pass


def _member(process: Process) -> str:
    return process.name.partition(".")[0]
