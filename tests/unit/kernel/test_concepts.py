"""The page about the model says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from minuet.kernel.invariants import INVARIANTS
from minuet.kernel.lifecycle import NODE_TRANSITIONS
from minuet.kernel.program import Program
from minuet.kernel.settle import Succeeded
from minuet.model.document import read_document
from minuet.plan.compile import compile_workflow

from .driver import CATALOG, Driver, outputs

PAGE = Path(__file__).resolve().parents[3] / "docs" / "concepts.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)


def example(marker: str) -> Program:
    """The example that contains a text."""
    (text,) = [text for text in EXAMPLES if marker in text]
    return Program(
        compile_workflow(read_document("name: example\n" + text), CATALOG).plan, "plan-1"
    )


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_compiles_and_runs(number: int) -> None:
    plan = compile_workflow(read_document("name: example\n" + EXAMPLES[number]), CATALOG).plan
    handler = lambda node, scope, attempt: Succeeded({"amount": 5, "score": 9})  # noqa: E731

    assert Driver(Program(plan, "plan-1"), handler).run().status == "COMPLETED"


def test_the_table_of_node_statuses_is_the_kernels() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| .* \| ([A-Z, –]+) \|$", TEXT, re.MULTILINE)

    told = {status: set(re.findall(r"[A-Z]+", following)) for status, following in rows}

    assert told == {status: set(following) for status, following in NODE_TRANSITIONS.items()}


def test_the_table_of_invariants_names_them_all() -> None:
    named: set[str] = set()
    for cell in re.findall(r"^\| (I[\dI–, ]+) \|", TEXT, re.MULTILINE):
        for part in cell.split(", "):
            first, _, last = part.partition("–")
            numbers = range(int(first[1:]), int((last or first)[1:]) + 1)
            named |= {f"I{number}" for number in numbers}

    assert named == set(INVARIANTS)


def test_the_join_that_cancels_withdraws_the_slower_one() -> None:
    driver = Driver(example("join_rest"))
    grants = {grant.node: grant for grant in driver.take(2)}

    driver.settle(grants["fast"])

    assert driver.state.tokens["slow", ""].outcome == "superseded"


def test_an_each_join_runs_as_often_as_the_page_says() -> None:
    driver = Driver(example("join: each"))
    driver.run()

    assert [at for at in sorted(driver.ran) if at[0] in ("notify", "log")] == [
        ("log", (0,)),
        ("log", (1,)),
        ("notify", (0,)),
        ("notify", (1,)),
    ]


def test_the_archive_runs_once_with_one_input() -> None:
    driver = Driver(example("archive"), outputs({"check": {"amount": 5000}}))
    driver.run()

    assert driver.inputs["archive", ()] == ["review"]
    assert "accept" not in {node for node, _ in driver.ran}


def test_the_loop_goes_round_at_most_three_times() -> None:
    driver = Driver(example("judge"), outputs({"judge": {"score": 1}}))
    driver.run()

    assert [scope for node, scope in driver.ran if node == "draft"] == [(0,), (1,), (2,)]
    assert {node for node, _ in driver.ran} == {"outline", "draft", "judge", "give_up"}


def test_the_charge_that_fails_leads_to_an_apology() -> None:
    driver = Driver(example("apologize"), outputs({"charge": ValueError("declined")}))

    assert driver.run().status == "COMPLETED"
    assert driver.inputs["report", ()] == ["apologize"]
    assert "ship" not in {node for node, _ in driver.ran}
