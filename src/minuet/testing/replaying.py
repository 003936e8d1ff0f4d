"""`record`, `replay` and `areplay`: play a workflow again with what its handlers have returned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, TypedDict, Unpack

import msgspec

from minuet import events as happened
from minuet.app.compiling import read_source
from minuet.app.options import OptionArguments
from minuet.app.portal import refuse_loop

# What a recording is, and how a file of one is read: callers need both.
from minuet.bridge.recording import Recording as Recording
from minuet.bridge.recording import read_recording as read_recording
from minuet.errors import InputError, PlayError
from minuet.ids import SeededIds
from minuet.nodes.secrets import SecretProvider
from minuet.plan.child import TYPE as CHILD_TYPE
from minuet.plan.digest import decode_plan
from minuet.plan.plan import Plan
from minuet.store.records import WorkflowVersion
from minuet.testing.comparing import STOPS, Difference, find_differences
from minuet.testing.functions import RecordedFunctions
from minuet.testing.played import Played
from minuet.testing.playing import TIMEOUT_S, Play
from minuet.testing.recorded import Results
from minuet.testing.stubs import Spot, spots_of, spots_of_plan

#: How many differences are kept. The first one usually explains the others.
DIFFERENCES_MAX = 20


class Replayed(msgspec.Struct, frozen=True):
    """A recorded run that was played again."""

    #: What is not as it was recorded, the earliest first.
    differences: tuple[Difference, ...]
    played: Played

    @property
    def same(self) -> bool:
        """Whether everything is as it was recorded."""
        return not self.differences

    @property
    def difference(self) -> Difference | None:
        """The first difference."""
        return self.differences[0] if self.differences else None

    def __repr__(self) -> str:
        found = "as recorded" if self.same else f"differs: {self.difference}"
        return f"<replayed {self.played.workflow!r}: {found}>"


def record(run: Played | Recording, path: str | Path | None = None) -> Recording:
    """The recording of a played run, or of what `app.runs.export` returned; with `path`, it is
    written to a file."""
    recording = run.recording if isinstance(run, Played) else run
    if recording is None:
        problem = "run: this is a child run: record the run that has started it"
        raise InputError([problem], argument="run")
    if path is not None:
        Path(path).write_bytes(recording.encode())
    return recording


async def areplay(
    recorded: Any,
    workflow: Any = None,
    *,
    workflows: Iterable[Any] = (),
    handlers: Mapping[str, Any] | None = None,
    live: Iterable[str] = (),
    modules: Iterable[str | ModuleType] = (),
    secrets: Mapping[str, str] | SecretProvider | None = None,
    timeout: float = TIMEOUT_S,
    options: OptionArguments | None = None,
) -> Replayed:
    """Play a recorded run again, and compare it with what happened.

    `recorded` is a recording, or a file that `record` or `minuet runs export` has written. Without
    `workflow`, the run follows the plan that it had; `workflows` replaces those of its child runs.

    No handler is called: each gives what it has returned or raised in the recorded run. The code of
    a durable function is executed, with the recorded results of its steps; where it asks for
    something else, the difference says what. The nodes
    in `live` call their handlers, and what they return is compared. `handlers` has stubs, as in a
    play: for nodes that the recorded run did not have. The other arguments are those of a play.
    """
    recording = read_recording(recorded)
    first = recording.runs[0]
    results = Results(recording)
    play = Play(
        results,
        modules=modules,
        secrets=secrets,
        now=datetime.fromtimestamp(first.events[0].at_ms / 1000, UTC),
        # Results are at hand, so nothing waits for anything: this is only faster.
        concurrency=10,
        ids=_RecordedIds(first.run_id),
        options=options,
    )
    documents = [
        read_source(one) for one in (*([] if workflow is None else [workflow]), *workflows)
    ]
    given = {document.workflow.name for document in documents}
    plans = _plans(recording, given if workflow is None else {*given, first.workflow})
    spots = [*spots_of(documents), *(s for plan in plans.values() for s in spots_of_plan(plan))]
    functions = RecordedFunctions(recording, play.app.handlers)
    _replace(play, spots, results, functions, handlers or {}, set(live))
    async with play.app as app:
        for document in documents[0 if workflow is None else 1 :]:
            await app.workflows.deploy(document)
        await _deploy(play, recording, plans)
        created = first.events[0].read()
        assert isinstance(created, happened.RunCreated)
        source = first.workflow if workflow is None else documents[0]
        try:
            played = await play.run(source, _input(recording), created.tags, timeout)
        except PlayError as error:
            # An open run waits in the same way. Of another one, what is missing differs.
            played = error.played
    assert played.recording is not None
    found = chain(
        find_differences(recording, played.recording),
        _differences_of_children(recording, played.recording, functions),
    )
    return Replayed(tuple(one for one, _ in zip(found, range(DIFFERENCES_MAX))), played)  # noqa: B905


def _differences_of_children(
    recording: Recording, replayed: Recording, functions: RecordedFunctions
) -> Iterator[Difference]:
    """Functions whose parents are functions: those have their results from the recording, so they
    did not start them again."""
    again = {run.run_id for run in replayed.runs}
    for run in recording.runs[1:]:
        if run.run_id not in again:
            for error in functions.check_child(recording, run):
                yield Difference(run.workflow, "taken", "ran", f"{STOPS}{error}")


class ReplayArguments(TypedDict, total=False):
    """What a replay can be given besides the run and the workflow; `areplay` says what each
    means."""

    workflows: Iterable[Any]
    handlers: Mapping[str, Any] | None
    live: Iterable[str]
    modules: Iterable[str | ModuleType]
    secrets: Mapping[str, str] | SecretProvider | None
    timeout: float
    options: OptionArguments | None


def replay(recorded: Any, workflow: Any = None, **arguments: Unpack[ReplayArguments]) -> Replayed:
    """As `areplay`, for tests that do not use asyncio. It takes the same arguments."""
    refuse_loop("replay(…)", "await areplay(…)")
    return asyncio.run(areplay(recorded, workflow, **arguments))


class _RecordedIds(SeededIds):
    """The run has the id that it had: child runs and idempotency keys follow from it."""

    def __init__(self, run_id: str) -> None:
        super().__init__()
        self._run_id = run_id

    def run_id(self) -> str:
        return self._run_id


def _plans(recording: Recording, without: set[str]) -> dict[str, Plan]:
    """The recorded plans, without those of workflows that are replaced, by their digests."""
    plans = {digest: decode_plan(bytes(data)) for digest, data in recording.plans.items()}
    return {digest: plan for digest, plan in plans.items() if plan.name not in without}


def _replace(
    play: Play,
    spots: list[Spot],
    results: Results,
    functions: RecordedFunctions,
    stubs: Mapping[str, Any],
    live: set[str],
) -> None:
    """Let every node that calls something give what it gave, except for `live` and stubs."""
    unknown = sorted(live - {spot.node.id for spot in spots})
    if unknown:
        problem = f"live: the workflow has no node {unknown[0]!r}"
        raise InputError([problem], argument="live")
    known = play.app.handlers
    for spot in spots:
        if spot.kind(known) == "flow" and spot.node.handler and spot.node.id not in live:
            known.find_function(spot.node.handler)  # HandlerError, if its code is not here.
            known.stand_ins[spot.place] = functions.stand_in(spot.node.handler)
        is_called = spot.kind(known) in ("handler", "io", "registered")
        if is_called and spot.node.type != CHILD_TYPE and spot.node.id not in live:
            known.stand_ins[spot.place] = results.stand_in()
    play.replace(spots, stubs, {}, {})


async def _deploy(play: Play, recording: Recording, plans: Mapping[str, Plan]) -> None:
    """Have the recorded plans and contents in the store, and the plans under their names."""
    store, tenant = play.store, play.app.tenant
    for data in recording.blobs.values():
        await store.put_blob(data, tenant=tenant)
    for digest, data in recording.plans.items():
        if digest in plans:
            await store.put_blob(bytes(data), tenant=tenant)
    for run in recording.runs:
        created = run.events[0].read()
        if run.plan in plans and isinstance(created, happened.RunCreated):
            version = WorkflowVersion(tenant, run.workflow, 0, plan=run.plan, document=run.plan)
            await store.deploy_workflow(version, sorted({"main", created.tag or "main"}))


def _input(recording: Recording) -> Any:
    """The input of the recorded run: it came with its creation, or with its start."""
    found: Any = None
    for recorded in recording.runs[0].events[:2]:
        event = recorded.read()
        if isinstance(event, happened.RunCreated | happened.RunStarted) and bytes(event.input):
            found = recording.value(event.input)
    return found
