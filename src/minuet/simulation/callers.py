"""The processes that start runs, deploy workflows and deal with dead letters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from minuet.app.app import App
from minuet.clock import Clock
from minuet.ids import Ids, SeededIds
from minuet.simulation.checker import BrokenRule
from minuet.simulation.client import Client, Promises, Script
from minuet.simulation.coverage import Coverage
from minuet.simulation.letters import Clerk, Handled
from minuet.simulation.loop import Process, SimLoop
from minuet.simulation.registry import Deployer, Shelf
from minuet.simulation.streams import Streams
from minuet.store.base import Store


class Callers:
    """Clients share the scripts of a world; a deployer has the workflows of its tenant."""

    def __init__(
        self,
        loop: SimLoop,
        streams: Streams,
        tenants: Sequence[str],
        scripts: Sequence[Script],
        shelf: Shelf,
        make_store: Callable[[str], Store],
        clock: Clock,
        coverage: Coverage,
        fail: Callable[[BrokenRule], None],
    ) -> None:
        self._loop = loop
        self._streams = streams
        self._tenants = tenants
        self._scripts = scripts
        self._shelf = shelf
        self._make_store = make_store
        self._clock = clock
        self._coverage = coverage
        self._fail = fail
        #: What was promised to the clients.
        self.promises = Promises()
        self.clients: list[Process] = []
        self.deployers: list[Process] = []
        #: What was acknowledged to the clerks.
        self.handled = Handled()
        self.clerks: list[Process] = []

    def start_clients(self) -> None:
        """Start processes that share the scripts. A killed client starts again."""
        names = itertools.count()
        for tenant in self._tenants:
            scripts = [script for script in self._scripts if script.tenant == tenant]
            count = min(len(scripts), self._streams.get("clients").choice((1, 2, 3)))
            for number in range(count):
                self._start_client(f"client{next(names)}", scripts[number::count], 1)

    def _start_client(self, name: str, scripts: list[Script], count: int) -> None:
        process = self._loop.process(f"{name}.{count}")
        self.clients.append(process)
        ids = SeededIds(self._streams.get("ids").getrandbits(62))
        process.killed = lambda: self._restart_client(name, scripts, count + 1)
        process.spawn(self._run_client(scripts, ids, process))

    def _restart_client(self, name: str, scripts: list[Script], count: int) -> None:
        self._loop.call_later(
            0.5, self._start_client, name, scripts, count, context=self._loop.outer
        )

    async def _run_client(self, scripts: list[Script], ids: Ids, process: Process) -> None:
        store = self._make_store(process.name)
        app = App(store, worker=False, tenant=scripts[0].tenant, clock=self._clock, ids=ids)
        try:
            client = Client(app, ids, scripts, self.promises, self._shelf, self._coverage)
            await client.repeat(app.open)
            await client.run()
        except Exception as error:
            name = type(error).__name__
            self._fail(BrokenRule("client", f"{process.name} ended with {name}: {error}"))

    def start_deployer(self, tenant: str) -> None:
        """Start a process that deploys the workflows of a tenant."""
        process = self._loop.process(f"deployer-{tenant}")
        self.deployers.append(process)
        ids = SeededIds(self._streams.get("registry").getrandbits(62))
        store = self._make_store(process.name)
        workflows = [script.workflow for script in self._scripts if script.tenant == tenant]
        deployer = Deployer(
            App(store, worker=False, tenant=tenant, clock=self._clock, ids=ids),
            tenant,
            workflows,
            self._shelf,
            self._streams.make(f"deployer/{tenant}"),
            self._coverage,
        )
        process.spawn(self._run(deployer, process))

    def start_clerk(self, tenant: str) -> None:
        """Start a process that deals with the dead letters of a tenant."""
        process = self._loop.process(f"clerk-{tenant}")
        self.clerks.append(process)
        chance = self._streams.make(f"clerk/{tenant}")
        store, ids = self._make_store(process.name), SeededIds(chance.getrandbits(62))
        app = App(store, worker=False, tenant=tenant, clock=self._clock, ids=ids)
        process.spawn(self._run(Clerk(app, self.handled, chance, self._coverage), process))

    async def _run(self, caller: Deployer | Clerk, process: Process) -> None:
        try:
            await caller.run()
        except Exception as error:
            name = type(error).__name__
            self._fail(BrokenRule("client", f"{process.name} ended with {name}: {error}"))
