"""The workflow control-flow patterns: each workflow takes the path that its pattern asks for."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from minuet.app.app import App
from minuet.app.results import RunResult
from minuet.events import NodeCompleted

PATIENCE = 60.0

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "patterns"
PAGE = ROOT / "docs" / "reference" / "patterns.md"


class Case:
    """A run of a pattern: its input, what is done to it, and what must come of it.

    `acts` are done one after the other: a signal is sent once a node waits for it (`!` before its
    name: at once), `cancel` cancels the run. `nodes` says how each node ends, and how often it has
    run if that is not once. `order` are nodes in the order in which they complete,
    `gone` is an instance that is withdrawn.
    """

    def __init__(
        self,
        input: Any = None,
        *,
        acts: tuple[str, ...] = (),
        order: str = "",
        status: str = "COMPLETED",
        output: Any = None,
        gone: str = "",
        **nodes: str,
    ) -> None:
        self.input, self.acts, self.status, self.output = input, acts, status, output
        self.order, self.gone = order.split(), gone
        self.nodes = {
            name: f"COMPLETED {how}" if how.isdigit() else how for name, how in nodes.items()
        }


RAN, NOT, GONE = "COMPLETED", "SKIPPED", "CANCELLED"
ONCE_EACH = {"at_once": 1}

CASES: dict[str, Case] = {
    "01_sequence": Case(order="a b c"),
    "02_parallel_split": Case(a=RAN, b=RAN, c=RAN),
    "03_synchronization": Case(order="a d", b=RAN, c=RAN),
    "04_exclusive_choice": Case({"amount": 500}, review=NOT, note=RAN, accept=NOT),
    "05_simple_merge": Case({"amount": 5}, order="accept archive", review=NOT, archive=RAN),
    "06_multi_choice": Case({"wanted": ["flight", "car"]}, flight=RAN, hotel=NOT, car=RAN),
    "07_structured_synchronizing_merge": Case(
        {"wanted": ["flight", "car"]}, order="car itinerary", flight=RAN, hotel=NOT
    ),
    "08_multi_merge": Case(log="2"),
    "09_structured_discriminator": Case(acts=("go",), order="fast answer slow", answer=RAN),
    "10_arbitrary_cycles": Case({"rounds": 2}, draft="2", edit="2", publish=RAN, give_up=NOT),
    "11_implicit_termination": Case(order="long longer", short=RAN),
    "12_instances_without_synchronization": Case(contact="3", log="3"),
    "13_instances_known_at_design_time": Case(order="sign file", output={"file": {}}),
    "14_instances_known_at_run_time": Case({"lines": [1, 2]}, order="list check pay"),
    "16_deferred_choice": Case(acts=("called",), call=RAN, answer=GONE, talk=RAN, write=NOT),
    "17_interleaved_parallel_routing": Case(order="a b", output={"b": ONCE_EACH, "c": ONCE_EACH}),
    "18_milestone": Case(acts=("close",), close=RAN, change=GONE, settle=RAN),
    "19_cancel_activity": Case(acts=("stop",), work=GONE, next=RAN),
    "20_cancel_case": Case(acts=("cancel",), status="CANCELLED", a=RAN, work=GONE),
    "21_structured_loop": Case(poll="3", done=RAN),
    "22_recursion": Case({"n": 3}, output=3),
    "24_persistent_trigger": Case(acts=("!go", "begin"), order="a b c"),
    "25_cancel_region": Case(acts=("picked", "stop"), pick=RAN, wrap=GONE, pack=NOT, end=RAN),
    "26_cancel_instances": Case(acts=("answer-bob", "stop"), ask="CANCELLED 3", next=RAN),
    "28_blocking_discriminator": Case(first="2", end=RAN),
    "29_cancelling_discriminator": Case(order="fast answer", slow=GONE),
    "30_structured_partial_join": Case(acts=("go",), order="next c"),
    "31_blocking_partial_join": Case(two="2", end=RAN),
    "32_cancelling_partial_join": Case(c=GONE, next=RAN),
    "35_cancelling_partial_join_of_instances": Case(
        acts=("answer-eve", "answer-ann"), gone="ask[1]", ask="3", next=RAN
    ),
    "37_local_synchronizing_merge": Case(
        {"wide": True, "deep": True}, order="right below merge", left=RAN
    ),
    "38_general_synchronizing_merge": Case({"both": True}, repeat="3", other=RAN, merge=RAN),
    "39_critical_section": Case({"account": "x"}, debit=RAN, credit=RAN, report=RAN),
    "40_interleaved_routing": Case(a=RAN, b=RAN, c=RAN, end=RAN),
    "41_thread_merge": Case({"parcels": ["a", "b"]}, output={"invoice": ["a", "b"]}),
    "42_thread_split": Case(wrap="3", send="3"),
    "43_explicit_termination": Case(busy=GONE, also_busy=NOT, end=RAN),
}


async def act(app: App, run: str, what: str) -> None:
    """Cancel a run that waits, or send it a signal."""
    early = what.startswith("!")
    async with asyncio.timeout(PATIENCE):
        while not early:
            nodes = await app.runs.instances(run)
            waits = [node.waiting_for for node in nodes.values() if node.waiting_for is not None]
            if any(wait.key == what or what == "cancel" for wait in waits):
                break
            await app.store.wait_for_change(run, (await app.runs.get(run)).seq, 20)
    await (app.cancel(run) if what == "cancel" else app.signal(run, what.removeprefix("!")))


def ended(result: RunResult, name: str) -> str:
    node = result.nodes[name]
    return f"{node.status} {node.instances}" if node.instances > 1 else node.status


@pytest.mark.parametrize("name", CASES)
async def test_a_pattern_takes_its_path(name: str) -> None:
    case = CASES[name]
    async with App("memory://", handlers=[str(FOLDER / "handlers.py")]) as app:
        await app.workflows.deploy(FOLDER / "22_recursion.yaml")
        run = await app.start(FOLDER / f"{name}.yaml", case.input)
        for what in case.acts:
            await act(app, run, what)
        result = await app.wait(run, timeout=PATIENCE)
        history = await app.runs.history(run)
        each = await app.runs.instances(run)

    assert result.status == case.status
    assert {node: ended(result, node) for node in case.nodes} == case.nodes
    completed = [event.node for _, _, event in history if isinstance(event, NodeCompleted)]
    assert [node for node in completed if node in case.order] == case.order
    assert not case.gone or each[case.gone].status == GONE
    if case.output is not None:
        assert result.output == case.output


def test_every_pattern_has_a_case_and_is_in_the_table() -> None:
    files = {path.stem for path in FOLDER.glob("*.yaml")}
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    linked = {name for _, how in rows for name in re.findall(r"patterns/(\w+)\.yaml", how)}

    assert files == set(CASES) == linked
    assert [int(number) for number, _ in rows] == list(range(1, 44))
    assert all(f"{int(name[:2])}" in {number for number, _ in rows} for name in files)
