"""Workflows that are deployed while clients start runs of them by name.

Some worlds have a deployer for each tenant. It deploys variants of the clients' workflows, again
and again the same few, under tags that move. `Shelf` checks what must hold: a version never
changes, versions are numbered without gaps, a tag names one that exists, what was acknowledged
stays, and a run has the plan of the version that it names.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from minuet.app.app import App
from minuet.app.compiling import CompiledWorkflow
from minuet.app.workflows import WorkflowView
from minuet.errors import StoreUnavailableError, StoreUnusableError, WorkflowNotFoundError
from minuet.plan.digest import digest_plan, encode_plan
from minuet.simulation.checker import BrokenRule
from minuet.simulation.coverage import Coverage
from minuet.store.records import Run, WorkflowVersion
from minuet.store.rules.workflows import Named

#: Tags that runs are started by, and how many contents there are of a workflow.
TAGS = ("main", "canary")
VARIANTS = 3

#: How often a deployer deploys, and the mean seconds between two times.
DEPLOYMENTS = 8
GAP = 0.2


class Tables(Protocol):
    """Where versions are kept: the model of the store, or that of the log."""

    @property
    def versions(self) -> dict[tuple[str, str, int], WorkflowVersion]: ...

    @property
    def named(self) -> dict[tuple[str, str], Named]: ...


def revise(workflow: CompiledWorkflow, description: str) -> CompiledWorkflow:
    """The same plan with another description, and so with another digest."""
    plan = msgspec.structs.replace(workflow.plan, description=description)
    data = encode_plan(plan)
    return msgspec.structs.replace(workflow, plan=plan, data=data, digest=digest_plan(data))


def variants(workflow: CompiledWorkflow) -> list[CompiledWorkflow]:
    """What is deployed under the name of a workflow."""
    return [workflow, *(revise(workflow, f"variant {n}") for n in range(1, VARIANTS))]


class Shelf:
    """The deployed versions, as they were seen first."""

    def __init__(
        self,
        tables: Tables,
        rollbacks: Callable[[], int],
        fail: Callable[[BrokenRule], None],
    ) -> None:
        self._tables = tables
        #: How often the tables were rolled back. Then versions are lost, and numbers used again.
        self._rollbacks = rollbacks
        self._fail = fail
        self._timeline = 0
        self._seen: dict[tuple[str, str, int], WorkflowVersion] = {}
        self._acknowledged: dict[tuple[str, str, int], str] = {}

    def acknowledge(self, tenant: str, deployed: CompiledWorkflow, view: WorkflowView) -> None:
        """A deployment got a reply."""
        if not self._rollbacks() and view.digest != deployed.digest:
            self._broken(f"{deployed.digest} was deployed, and {view.name}@{view.version} is other")
        self._acknowledged[tenant, view.name, view.version] = view.digest
        self.check()

    def check(self) -> None:
        """Check all versions and tags."""
        if self._timeline != self._rollbacks():
            self._timeline, self._seen = self._rollbacks(), {}
        versions, named = self._tables.versions, self._tables.named
        for key, version in self._seen.items():
            if versions.get(key) != version:
                self._broken(f"{key[1]}@{key[2]} is not what it was")
        self._seen = versions
        for (tenant, name), row in named.items():
            numbers = sorted(key[2] for key in versions if key[:2] == (tenant, name))
            if numbers != list(range(1, row.newest + 1)):
                self._broken(f"{name} has versions {numbers}, and the newest is {row.newest}")
            for tag, number in row.tags.items():
                if number not in numbers:
                    self._broken(f"{name}@{tag} is version {number}, which does not exist")

    def judge(self, runs: Iterable[tuple[Run, str]]) -> None:
        """Check at the end what was promised, and runs with the plans that they were created
        with."""
        self.check()
        if self._timeline:
            return
        versions = self._tables.versions
        for key, digest in self._acknowledged.items():
            if key not in versions or versions[key].plan != digest:
                self._broken(f"{key[1]}@{key[2]} was acknowledged as {digest}")
        for run, plan in runs:
            if run.version is None:
                continue
            version = versions.get((run.tenant, run.workflow, run.version))
            if version is None or version.plan != plan:
                message = f"it does not have the plan of {run.workflow}@{run.version}"
                self._broken(message, run.run)

    def _broken(self, message: str, run: str = "") -> None:
        self._fail(BrokenRule("registry", message, run))


class Deployer:
    """A process that deploys variants of a tenant's workflows."""

    def __init__(
        self,
        app: App,
        tenant: str,
        workflows: list[CompiledWorkflow],
        shelf: Shelf,
        chance: random.Random,
        coverage: Coverage,
    ) -> None:
        self._app = app
        self._tenant = tenant
        self._workflows = workflows
        self._shelf = shelf
        self._chance = chance
        self._coverage = coverage

    async def run(self) -> None:
        """Deploy variants under changing tags."""
        await self._open()
        for _ in range(DEPLOYMENTS):
            await asyncio.sleep(self._chance.expovariate(1 / GAP))
            workflow = self._chance.choice(variants(self._chance.choice(self._workflows)))
            try:
                await deploy(
                    self._app,
                    self._tenant,
                    workflow,
                    self._chance.choice(TAGS),
                    self._shelf,
                    self._coverage,
                )
            except (StoreUnavailableError, WorkflowNotFoundError):
                # Nobody knows whether it was done, or a rollback has lost it.
                self._coverage.hit("deployment without a reply")

    async def _open(self) -> None:
        while True:
            try:
                return await self._app.open()
            except StoreUnavailableError:
                await asyncio.sleep(GAP)


async def deploy(
    app: App,
    tenant: str,
    workflow: CompiledWorkflow,
    tag: str,
    shelf: Shelf,
    coverage: Coverage,
) -> None:
    """Deploy a workflow and note what was promised."""
    view = await app.workflows.deploy(workflow, tag)
    coverage.hit("workflow deployed" if view.is_new else "workflow deployed again")
    shelf.acknowledge(tenant, workflow, view)


async def start_by_name(
    app: App,
    tenant: str,
    workflow: CompiledWorkflow,
    tag: str,
    input: object,
    key: str,
    shelf: Shelf,
    coverage: Coverage,
) -> str:
    """Start a run of what a tag names. Deploy it if there is nothing, or if its plan is lost."""
    while True:
        try:
            name = f"{workflow.plan.name}@{tag}"
            run: str = await app.start(name, input, idempotency_key=key)
        except (WorkflowNotFoundError, StoreUnusableError):
            try:
                await deploy(app, tenant, workflow, tag, shelf, coverage)
            except WorkflowNotFoundError:
                coverage.hit("deployment without a reply")
        else:
            coverage.hit("run started by name")
            return run
