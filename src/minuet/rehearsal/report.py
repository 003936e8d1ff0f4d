"""Play many seeds, and report on all of them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from minuet.app.compiling import CompiledWorkflow, check_input
from minuet.errors import ConfigError, InputError
from minuet.kernel.program import Program
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.plan.plan import FLOW, Plan, author_of
from minuet.rehearsal.fields import INPUT, Shape, find_shapes
from minuet.rehearsal.findings import Finding, Findings
from minuet.rehearsal.handlers import find_roles, wanted_arguments
from minuet.rehearsal.stage import InnerSetup, Seen, StageSetup, rehearse
from minuet.rehearsal.steps import Functions
from minuet.rehearsal.values import draw_schema, draw_shape, overlay
from minuet.rehearsal.watch import all_turns
from minuet.simulation.streams import Streams
from minuet.types import Json

#: How many inputs are drawn to find one that fits the workflow's schema.
TRIES = 50


class Report(msgspec.Struct):
    """The results of all seeds."""

    workflow: str
    #: The first seed.
    start: int | None = None
    seeds: int = 0
    #: How many runs ended in each way. `HANGS`, `WAITS`, `TOO LONG` and `BROKEN` did not end.
    ends: dict[str, int] = {}
    findings: list[Finding] = []
    #: Turns that the document offers, and those that were taken.
    turns: int = 0
    turns_taken: int = 0
    #: A hash of everything that happened.
    history: str = ""

    @property
    def fails(self) -> bool:
        """Whether a run can hang or fail unhandled."""
        return any(found.severity == "error" for found in self.findings)


def _find_functions(plans: Iterable[Plan], handlers: Handlers | None, *, stubs: bool) -> Functions:
    """The durable functions that a workflow can come to. Their code runs in any case."""
    found = handlers or REGISTERED
    known = found.functions_by_name()
    names = [
        (node.handler, author_of(node.id), plan.name)
        for plan in plans
        for node in plan.nodes
        if node.type == FLOW
    ]
    for function, node, workflow in names:
        if function not in known:
            raise ConfigError(
                f"node {node!r} of {workflow!r} runs the durable function {function!r}, whose code "
                "is needed to simulate it: name its file with --handlers FILE.py. To simulate the "
                "function alone: minuet simulate FILE.py:NAME"
            )
    if not names:
        return Functions()
    # All of them: one can start another.
    return Functions(tuple(known.values()), found, handlers is not None and not stubs)


class Rehearsal:
    """A workflow with its handlers and its input, ready to play seeds."""

    def __init__(
        self,
        workflow: CompiledWorkflow,
        *,
        input: Json = None,
        draw_input: bool = False,
        handlers: Handlers | None = None,
        stubs: bool = False,
        without: tuple[str, ...] = (),
        printed: Any = None,
    ) -> None:
        plan = workflow.plan
        plans = [plan, *(child.plan for child in workflow.children)]
        functions = _find_functions(plans, handlers, stubs=stubs)
        self._input = input
        self._draw_input = draw_input
        roles = find_roles(plan, handlers, stubs=stubs)
        shapes = find_shapes(plan, wanted_arguments(roles))
        program = Program(plan, workflow.digest)
        is_varied = draw_input and (plan.input_schema is not None or bool(shapes[INPUT].fields))
        inner = []
        for child in workflow.children:
            played = find_roles(child.plan, handlers, stubs=stubs)
            values = find_shapes(child.plan, wanted_arguments(played))
            inner.append(InnerSetup(Program(child.plan, child.digest), played, values))
        self._setup = StageSetup(
            workflow, program, roles, shapes, without, is_varied, printed, tuple(inner), functions
        )

    def play(self, seed: int) -> Seen:
        """Play one seed."""
        plan, value = self._setup.workflow.plan, self._input
        if self._draw_input:
            chance = Streams(seed).get("input")
            value = draw_fitting_input(chance, plan, self._setup.shapes[INPUT])
        check_input(plan, value)
        return rehearse(self._setup, seed, value)

    def play_all(
        self, seeds: Iterable[int], progress: Callable[[Seen, int], None] | None = None
    ) -> Report:
        """Play many seeds. `progress` gets each seed's result and the number of findings so far."""
        findings = Findings(self._setup)
        plan = self._setup.program.plan
        offered = all_turns(plan)
        report = Report(plan.name, turns=len(offered))
        history = hashlib.blake2b(digest_size=16)
        for seed in seeds:
            seen = self.play(seed)
            findings.add(seen)
            history.update(seen.history.encode())
            report.start = seed if report.start is None else report.start
            report.seeds += 1
            report.ends[seen.end] = report.ends.get(seen.end, 0) + 1
            if progress is not None:
                progress(seen, len(findings))
        report.ends = dict(sorted(report.ends.items()))
        report.findings = findings.in_order(with_turns=report.seeds > 1)
        report.turns_taken = len(findings.turns & set(offered))
        report.history = history.hexdigest()
        return report


def draw_fitting_input(chance: random.Random, plan: Plan, shape: Shape) -> Json:
    """Draw an input that fits the schema and has the fields that the document reads."""
    refused: InputError | None = None
    for attempt in range(TRIES):
        schema = plan.input_schema
        value = {} if schema is None else draw_schema(chance, schema)
        if shape.fields and (schema is None or attempt % 2 == 0):
            value = overlay(value, draw_shape(chance, shape))
        try:
            check_input(plan, value)
        except InputError as error:
            refused = error
        else:
            return value
    raise ConfigError(
        f"could not generate an input that fits the workflow's schema ({refused}): pass one with -i"
    )
