"""A run while its events arrive: what a live picture of it shows.

Nothing is read here. The caller passes on the events of `app.runs.follow`, from the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from minuet.events import Event, Place, StepRecorded
from minuet.functions.steps import StepView, read_step
from minuet.kernel.fold import Fold
from minuet.kernel.program import Program as Program
from minuet.kernel.scope import decode, show
from minuet.kernel.view import NodeView, node_views
from minuet.plan.digest import decode_plan
from minuet.plan.plan import HIDDEN, author_of, authored
from minuet.types import UNDO


class ActiveInstance(msgspec.Struct, frozen=True):
    """A node instance that is not settled."""

    name: str
    #: QUEUED (or running: leases are not events) or WAITING.
    status: str
    attempt: int
    created_ms: int


class Watch:
    """A run, as far as its events have arrived."""

    def __init__(self, run_id: str, workflow: str, seq: int, program: Program) -> None:
        self.run_id = run_id
        self.workflow = workflow
        #: Number of its last event when the watch began.
        self.seq = seq
        self._program = program
        self._fold = Fold()
        #: Of durable functions: how many steps they have, and the last one.
        self._steps: dict[str, tuple[int, StepView]] = {}

    def add(self, seq: int, at_ms: int, event: Event) -> None:
        """The next event has arrived."""
        self._fold.apply(seq, at_ms, event)
        if isinstance(event, StepRecorded):
            step = read_step(event.name, bytes(event.value))
            if step is not None:
                count, _ = self._steps.get(event.node, (0, step))
                self._steps[event.node] = (count + 1, step)

    def last_step(self, node: str) -> tuple[int, StepView] | None:
        """How many steps a durable function has got, and the last one."""
        return self._steps.get(node)

    @property
    def status(self) -> str:
        """The run's status; "": no event has arrived."""
        return self._fold.state.status

    @property
    def size(self) -> int:
        """How many nodes the plan has."""
        return len(authored(self._program.plan))

    @property
    def output_node(self) -> str | None:
        """The hidden node that renders the run's output."""
        return self._program.plan.output_node

    def nodes(self, held: Mapping[Place, int]) -> list[NodeView]:
        """Every node. `held`: the instances that workers hold (`app.runs.held`)."""
        views = node_views(self._program, self._fold.state, self._fold.details, held.keys())
        return list(views.values())

    def counts(self) -> dict[str, int]:
        """How many node instances are in which state, in words."""
        counts = Counter(
            token.outcome or ("queued or running" if token.state == "ready" else token.state)
            for token in self._fold.state.tokens.values()
        )
        return dict(sorted(counts.items()))

    def active(self, limit: int) -> list[ActiveInstance]:
        """Node instances that are not settled, the oldest first."""
        tokens = self._fold.state.tokens.values()
        alive = [token for token in tokens if token.state in ("ready", "waiting")]
        return [
            ActiveInstance(
                instance_name(token.node, token.scope),
                "WAITING" if token.state == "waiting" else "QUEUED",
                token.attempt,
                self._fold.details[token.node, token.scope].created_ms,
            )
            for token in alive[:limit]
        ]

    @property
    def settled(self) -> int:
        """How many node instances are settled."""
        return sum(token.state == "done" for token in self._fold.state.tokens.values())

    @property
    def live(self) -> int:
        """How many node instances are not settled."""
        return self._fold.state.live()


def read_program(data: bytes, digest: str) -> Program:
    """The program of a plan, by its stored bytes."""
    return Program(decode_plan(data), digest)


def instance_name(node: str, scope: str | tuple[int, ...]) -> str:
    """A node instance as people write it: `check[2]`; its compensator is `undo of check[2]`. The
    hidden node that renders the output of the run is `(output)`."""
    if node == UNDO:
        return "(undo)"
    if node.endswith(UNDO):
        numbers = decode(scope) if isinstance(scope, str) else scope
        return f"undo of {author_of(node)}{show(numbers[:-1])}"
    name = author_of(node)
    if name.startswith(HIDDEN):
        name = f"({name.removeprefix(HIDDEN)})"
    return name + show(decode(scope) if isinstance(scope, str) else scope)
