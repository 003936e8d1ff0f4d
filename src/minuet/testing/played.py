"""What a play answers: how the run ended, the way that it took, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from minuet import events as happened
from minuet.app.app import App
from minuet.app.results import Explanation, NodeResult, RunTree
from minuet.app.watch import instance_name
from minuet.bridge.history import HistoryReader
from minuet.bridge.recording import Recording
from minuet.events import Place
from minuet.kernel.explain.answer import explain
from minuet.kernel.explain.waiting import Fact
from minuet.kernel.fold import Fold, NumberedEvent, replay
from minuet.kernel.program import Program
from minuet.plan.plan import HIDDEN, is_list
from minuet.types import Json, RunStatus

#: How much of a path `repr` shows.
SHOWN_MAX = 12


class Seen(msgspec.Struct, frozen=True):
    """What explanations are made of."""

    program: Program
    fold: Fold
    facts: Mapping[Place, Fact]


class Played(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A run that was played."""

    run_id: str
    workflow: str
    #: COMPLETED, FAILED or CANCELLED; of a run that cannot go on (`PlayError.played`), RUNNING.
    status: RunStatus
    #: The run's output; None unless it completed.
    output: Json
    #: How each node ended, by its id.
    nodes: dict[str, NodeResult]
    #: How each node instance ended: `check[2]` is the third iteration of a loop, or the third item.
    instances: dict[str, NodeResult]
    #: The node instances that ran, in the order in which they settled. Skipped ones are left out.
    path: list[str]
    #: The run's history, as `app.runs.events` returns it.
    events: list[dict[str, Any]]
    #: Why the run FAILED or was CANCELLED: `code`, `message`, `node` and, for exceptions, `type`.
    error: dict[str, Any] | None
    #: The child runs, in the order of the nodes that started them.
    children: tuple[Played, ...]
    #: What `why` makes its answers of.
    seen: Seen
    #: The run with its history; child runs are in that of the run that started them.
    recording: Recording | None = None

    def why(self, node: str) -> Explanation:
        """Why a node, or one instance of it (`check[2]`), ran, was skipped, waits or failed."""
        return explain(self.seen.program, self.seen.fold, node, facts=self.seen.facts)

    def __repr__(self) -> str:
        shown = self.path[-SHOWN_MAX:]
        path = " → ".join(["…", *shown] if len(self.path) > len(shown) else shown)
        failed = f" ({describe(self.error)})" if self.error else ""
        return f"<played {self.workflow!r}: {self.status}{failed}, path {path or 'empty'}>"


def describe(error: Mapping[str, Any] | None) -> str:
    """An error in one line: node, type and message."""
    if not error:
        return ""
    text = str(error.get("message", error.get("code", "")))
    kind = error.get("type")
    if kind and kind not in text:
        text = f"{kind}: {text}"
    return f"{error['node']}: {text}" if error.get("node") else text


def report(played: Played) -> str:
    """A played run for people, in several lines."""
    lines = [f"{played.workflow}: {played.status}", f"path: {' → '.join(played.path) or '–'}"]
    if played.error:
        lines.append(f"error: {describe(played.error)}")
    for name, one in played.instances.items():
        error = f": {describe(one.error)}" if one.error else ""
        attempts = f" after {one.attempts} attempts" if one.attempts > 1 else ""
        lines.append(f"  {name}: {one.status}{attempts}{error}")
    for child in played.children:
        lines += [f"  | {line}" for line in report(child).splitlines()]
    return "\n".join(lines)


def path_of(history: Sequence[NumberedEvent]) -> list[str]:
    """The node instances that ran, in the order in which they settled."""
    return list(_settled(history))


def _settled(history: Sequence[NumberedEvent]) -> Iterator[str]:
    for _, _, event in history:
        match event:
            case happened.NodeCompleted() | happened.NodeFailed():
                # What no author wrote is left out: the list of a foreach, the run's output.
                if not (is_list(event.node) or event.node.startswith(HIDDEN)):
                    yield instance_name(event.node, event.scope)


async def read_played(app: App, run_id: str) -> Played:
    """A run as it stands in an App."""
    played = await _read(app, await app.runs.tree(run_id))
    return msgspec.structs.replace(played, recording=await app.runs.export(run_id))


async def _read(app: App, tree: RunTree) -> Played:
    run_id = tree.run_id
    result = await app.runs.show(run_id)
    history = await app.runs.history(run_id)
    fold = replay(history)
    program = await app.runs.program(run_id, fold.state.plan)
    reader = HistoryReader(app.store, app.tenant)
    await reader.load_conditions(run_id, program)
    await reader.open_blobs(run_id, fold)
    return Played(
        run_id=run_id,
        workflow=result.workflow,
        status=result.status,
        output=result.output,
        nodes=result.nodes,
        instances=await app.runs.instances(run_id),
        path=path_of(history),
        events=await app.runs.events(run_id),
        error=result.error,
        children=tuple([await _read(app, child) for child in tree.children]),
        seen=Seen(program, fold, await reader.live_facts(run_id)),
    )
