"""Each invariant sees its violation, and a healthy run has none.

What is planted in the stored state alone always shows as a difference to the events, too (I6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from minuet import events
from minuet.bridge.snapshot import events_of, facts_of, state_of
from minuet.events import Event
from minuet.kernel.fold import NumberedEvent, State, TokenView, fold
from minuet.kernel.invariants import INVARIANTS, Leased, RunFacts, Violation, check_run
from minuet.kernel.program import Program
from minuet.store import changes

from .driver import Driver, outputs, program_of

replace = msgspec.structs.replace


class Case:
    """A healthy run to be spoilt."""

    def __init__(self, driver: Driver) -> None:
        snapshot = driver.snapshot
        self.program: Program | None = driver.program
        self.events: list[NumberedEvent] = events_of(snapshot)
        self.stored: State = state_of(snapshot)
        self.facts: RunFacts = facts_of(snapshot, driver.clock.now_ms(), max_expiry=3)
        assert self.violations() == []

    def violations(self) -> list[Violation]:
        return check_run(self.program, self.events, self.stored, self.facts)

    def ids(self) -> list[str]:
        return sorted({violation.id for violation in self.violations()})

    def find(self, kind: type[Event], node: str = "") -> int:
        """Where in the list an event stands."""
        return next(
            number
            for number, (_, _, event) in enumerate(self.events)
            if isinstance(event, kind) and getattr(event, "node", "") == node
        )

    def change(self, number: int, **fields: Any) -> None:
        """Change an event."""
        seq, at_ms, event = self.events[number]
        self.events[number] = (seq, at_ms, replace(event, **fields))

    def renumber(self, told: list[Event]) -> None:
        self.events = [(number, 1000, event) for number, event in enumerate(told, start=1)]

    @property
    def told(self) -> list[Event]:
        return [event for _, _, event in self.events]

    def append(self, *told: Event) -> None:
        self.renumber([*self.told, *told])
        self.stored.seq += len(told)

    def refold(self) -> None:
        """Let the store agree with the events."""
        self.stored = fold(self.events)


def diamond(table: dict[str, Any] | None = None, **fields: Any) -> Driver:
    program = program_of(
        {"id": "a"},
        {"id": "b", "dependencies": ["a"]},
        {"id": "c", "dependencies": ["a"]},
        {"id": "d", "dependencies": ["b", "c"]},
        **fields,
    )
    return Driver(program, outputs(table or {}))


@pytest.fixture
def half() -> Case:
    """A run in which `a` and `b` are completed and a worker holds `c`."""
    driver = diamond()
    driver.settle(*driver.take())
    (first, _) = driver.take(2)
    assert first.node == "b"
    driver.settle(first)
    return Case(driver)


@pytest.fixture
def over() -> Case:
    driver = diamond()
    driver.run()
    return Case(driver)


@pytest.fixture
def broken() -> Case:
    driver = diamond({"b": ValueError("broken")})
    driver.run()
    return Case(driver)


def test_the_table_has_the_invariants_of_one_run() -> None:
    wanted = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 19, 34, 38, 39, 40]

    assert sorted(INVARIANTS) == sorted(f"I{number}" for number in wanted)
    for id_, check in INVARIANTS.items():
        assert check.__doc__ is not None
        assert check.__doc__.startswith(f"{id_}: ")


def test_without_a_plan_the_rest_is_still_checked(over: Case) -> None:
    over.program = None

    assert over.ids() == []
    over.stored.counter = 1
    assert over.ids() == ["I2", "I3", "I6"]


def test_i1_sees_a_counter_that_does_not_add_up(half: Case) -> None:
    half.change(half.find(events.NodeCompleted, "a"), counter=3)

    assert half.ids() == ["I1"]


def test_i1_counts_fan_outs_skips_failures_and_retries() -> None:
    driver = diamond({"b": ValueError("broken")})
    driver.run()
    driver.change(changes.RetryRun())
    case = Case(driver)
    counting = [n for n, event in enumerate(case.told) if hasattr(event, "counter")]
    for number in counting:
        original = case.events[number]
        case.change(number, counter=77)
        assert case.ids() == ["I1"]
        case.events[number] = original


def test_i2_sees_a_counter_that_is_not_the_number_of_tokens(half: Case) -> None:
    half.stored.counter += 1

    assert half.ids() == ["I2", "I6"]


def test_i3_sees_a_negative_counter(over: Case) -> None:
    over.stored.counter = -1

    assert over.ids() == ["I2", "I3", "I6"]


def test_i3_sees_an_open_run_whose_counter_is_zero(half: Case) -> None:
    half.stored.counter = 0

    assert half.ids() == ["I2", "I3", "I6"]
    assert "counter is 0 in a run that is RUNNING" in half.violations()[1].message


def test_i3_allows_zero_before_the_start(half: Case) -> None:
    half.renumber([half.told[0]])
    half.refold()
    half.facts = replace(half.facts, leased=())

    assert half.stored.status == "PENDING"
    assert half.ids() == []


def test_i4_sees_what_lives_on_after_the_end(over: Case) -> None:
    over.stored.tokens["d", ""].state = "waiting"
    assert over.ids() == ["I2", "I4", "I6"]


def test_i4_sees_a_lease_after_the_end(over: Case) -> None:
    held = Leased("d", "", "other", "session-1", over.facts.now_ms)
    over.facts = replace(over.facts, leased=(held,))

    assert over.ids() == ["I4"]


def test_i4_sees_a_deadline_after_the_end(over: Case) -> None:
    over.facts = replace(over.facts, deadline_ms=5)

    assert over.ids() == ["I4"]


def test_i5_sees_a_gap(half: Case) -> None:
    del half.events[2]

    assert "I5" in half.ids()
    assert half.violations()[0].message.startswith("event 4 is in the place of event 3")


def test_i5_sees_an_event_that_is_missing_at_the_end(half: Case) -> None:
    half.stored.seq += 1

    assert half.ids() == ["I5"]


def spoil_token(state: State) -> None:
    state.tokens["a", ""].attempt = 2


def lose_token(state: State) -> None:
    del state.tokens["d", ""]


def add_token(state: State) -> None:
    state.tokens["x", ""] = TokenView("x", "", state="done", outcome="completed")


def spoil_join(state: State) -> None:
    state.joins["d", ""].sources["c"] = False


def spoil_steps(state: State) -> None:
    state.steps["a", "", "s"] = b"1"


def spoil_input(state: State) -> None:
    state.input = b"1"


def spoil_output(state: State) -> None:
    state.tokens["a", ""].output = b'"other"'


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_token, "token ('a', ''): attempt: the events say 1, the store has 2"),
        (lose_token, "token ('d', ''): the events have it, the store does not"),
        (add_token, "token ('x', ''): the store has it, the events do not"),
        (
            spoil_join,
            "join ('d', ''): sources: the events say {'b': True, 'c': True}, "
            "the store has {'b': True, 'c': False}",
        ),
        (spoil_steps, "step ('a', '', 's'): the store has it, the events do not"),
        (spoil_input, "input: the events say b'null', the store has b'1'"),
        (spoil_output, "token ('a', ''): output: the events say b'{}', the store has b'\"other\"'"),
    ],
)
def test_i6_says_what_differs(over: Case, spoil: Callable[[State], None], message: str) -> None:
    over.stored.joins["d", ""].sources = dict(sorted(over.stored.joins["d", ""].sources.items()))
    spoil(over.stored)

    (violation,) = over.violations()

    assert violation.id == "I6"
    assert violation.message.replace("{'c': True, 'b': True}", "{'b': True, 'c': True}") == message


def test_i6_compares_recorded_steps(half: Case) -> None:
    half.renumber([*half.told, events.StepRecorded("c", "", "s", msgspec.Raw(b"1"))])
    half.refold()
    half.stored.steps["c", "", "s"] = b"2"

    assert [v.message for v in half.violations()] == [
        "step ('c', '', 's'): the events say b'1', the store has b'2'"
    ]


def test_i6_sees_a_history_that_cannot_be_folded(half: Case) -> None:
    half.append(events.NodeResumed("c", ""))

    (violation,) = half.violations()

    assert violation.id == "I6"
    assert violation.message.startswith("the events cannot be folded")


def test_i7_sees_a_second_result(half: Case) -> None:
    again = half.told[half.find(events.NodeCompleted, "a")]
    assert isinstance(again, events.NodeCompleted)
    half.append(replace(again, to=[], counter=1, lease="another"))

    assert half.ids() == ["I7"]


def test_i7_sees_an_event_after_the_result(half: Case) -> None:
    half.append(events.LeaseExpired("b", "", 1))

    assert half.ids() == ["I7"]


def test_i8_sees_a_join_that_was_settled_too_early(half: Case) -> None:
    settled = events.NodeCompleted("d", "", lease="x", session="s", counter=1)
    half.append(settled)

    assert half.ids() == ["I8"]


def test_i8_forgives_an_early_join_its_later_arrivals(half: Case) -> None:
    arrives = events.NodeCompleted(
        "c", "", to=[("d", "", 1, 2, 2)], lease="y", session="s", counter=0
    )
    half.append(events.NodeCompleted("d", "", lease="x", session="s", counter=1), arrives)
    half.facts = replace(half.facts, leased=())

    assert half.ids() == ["I8"]


def test_i8_sees_a_source_that_arrives_twice(half: Case) -> None:
    number = half.find(events.NodeCompleted, "b")
    half.change(number, to=[("d", "", 1, 2, 2), ("d", "", 1, 2, 2)])

    assert half.ids() == ["I8"]


def test_i8_sees_a_join_that_the_store_has_fired_in_vain(half: Case) -> None:
    half.stored.joins["d", ""].fired = True
    assert half.ids() == ["I6", "I8"]


def test_i8_sees_a_join_that_the_store_has_not_fired(over: Case) -> None:
    over.stored.joins["d", ""].fired = False

    assert over.ids() == ["I6", "I8"]
    assert "has not fired with 2 live and 0 skipped of 2" in over.violations()[0].message


def test_i9_sees_a_second_token(half: Case) -> None:
    number = half.find(events.NodeCompleted, "b")
    half.change(number, to=[("d", "", 1, 2, 2), ("c", "", 1, 1, 1)])

    assert half.ids() == ["I9"]


def test_i9_sees_a_result_of_a_node_that_was_never_emitted(over: Case) -> None:
    number = over.find(events.RunStarted)
    over.change(number, to=[], counter=0)

    assert over.ids() == ["I9"]


def test_i9_sees_a_withdrawal_of_what_was_never_emitted(half: Case) -> None:
    half.change(half.find(events.NodeCompleted, "b"), withdrawn=[("d", "")])

    assert half.ids() == ["I9"]


def test_i10_sees_a_second_end(over: Case) -> None:
    over.append(events.RunCompleted())

    assert over.ids() == ["I10"]


def test_i10_sees_anything_after_the_end(over: Case) -> None:
    over.append(events.RunPaused())

    assert over.ids() == ["I10"]


def test_i10_sees_a_closed_run_without_its_last_event(over: Case) -> None:
    over.renumber(over.told[:-1])
    over.stored.seq -= 1

    assert over.ids() == ["I10", "I6"]
    assert "its events say that it is not over" in over.violations()[0].message


def test_i10_allows_a_retry_of_the_run(broken: Case) -> None:
    places = [("b", ""), ("c", "")]
    broken.append(events.RunRetried(2, [p for p in places if p in broken.stored.tokens], 1))
    broken.refold()
    retried = broken.told[-1]
    assert isinstance(retried, events.RunRetried)
    broken.change(-1, counter=len(retried.tokens))

    # Its dead letter is still pending, which a retry never leaves.
    assert broken.ids() == ["I34"]
    broken.facts = replace(broken.facts, pending_letters=())
    assert broken.ids() == []


@pytest.mark.parametrize("field", ["lease", "session"])
def test_i11_sees_a_result_without_a_lease(half: Case, field: str) -> None:
    half.change(half.find(events.NodeCompleted, "a"), **{field: ""})

    assert half.ids() == ["I11"]


def test_i11_sees_a_result_of_another_session(half: Case) -> None:
    half.change(half.find(events.NodeCompleted, "b"), session="thief", lease=held(half).lease)
    half.facts = replace(half.facts, leased=(replace(held(half), session="owner"),))

    assert half.ids() == ["I11"]


def held(case: Case) -> Leased:
    (leased,) = case.facts.leased
    return leased


def test_i11_sees_two_sessions_under_one_lease(half: Case) -> None:
    lease = half.told[half.find(events.NodeCompleted, "a")].lease  # type: ignore[union-attr]
    half.change(half.find(events.NodeCompleted, "b"), lease=lease, session="thief")

    assert half.ids() == ["I11"]


def test_i12_sees_a_lease_that_settles_twice(half: Case) -> None:
    waits = events.NodeWaiting("c", "", "timer", lease="once", session="s")
    half.append(waits, events.NodeResumed("c", ""), waits)
    half.refold()
    half.facts = replace(half.facts, leased=())

    assert half.ids() == ["I12"]


def test_i12_sees_a_lease_that_was_granted_again(half: Case) -> None:
    waits = events.NodeWaiting("c", "", "timer", lease="once", session="s")
    half.append(waits, events.NodeResumed("c", ""))
    half.refold()
    half.facts = replace(half.facts, leased=(replace(held(half), lease="once", session="s"),))

    assert half.ids() == ["I12"]


def test_i12_sees_two_leases_of_one_token(half: Case) -> None:
    half.facts = replace(half.facts, leased=(held(half), replace(held(half), lease="other")))

    assert half.ids() == ["I12"]


@pytest.mark.parametrize("node", ["b", "nobody"])
def test_i12_sees_a_lease_on_what_is_not_alive(half: Case, node: str) -> None:
    half.facts = replace(half.facts, leased=(replace(held(half), node=node, lease="other"),))

    assert half.ids() == ["I12"]


@pytest.mark.parametrize("due_ms", [None, 10**15])
def test_i13_sees_a_lease_without_end(half: Case, due_ms: int | None) -> None:
    half.facts = replace(half.facts, leased=(replace(held(half), due_ms=due_ms),))

    assert half.ids() == ["I13"]


def test_i16_sees_too_many_attempts(half: Case) -> None:
    for attempt in (1, 2, 3):
        half.append(events.NodeRetried("c", "", attempt, {}, 0, lease=f"l{attempt}", session="s"))
    half.refold()
    half.facts = replace(half.facts, leased=())

    assert half.ids() == ["I16"]
    assert "in attempt 4 of at most 3" in half.violations()[0].message


def test_i16_sees_too_many_expiries(half: Case) -> None:
    half.append(events.LeaseExpired("c", "", 4))
    half.refold()
    half.facts = replace(half.facts, leased=())

    assert half.ids() == ["I16"]


def test_i16_sees_too_many_hops(half: Case) -> None:
    assert half.program is not None
    half.program = Program(replace(half.program.plan, max_hops=2), "plan-1")

    assert half.ids() == ["I16"]
    assert "from hop 1, at most 2" in half.violations()[0].message


def test_i16_sees_too_large_a_fan_out(half: Case) -> None:
    assert half.program is not None
    half.program = Program(replace(half.program.plan, max_fanout=1), "plan-1")

    assert half.ids() == ["I16"]
    assert "sent to 2 nodes" in half.violations()[0].message


def test_i16_sees_too_many_iterations() -> None:
    loop = {"condition": "output.again", "max_iterations": 3}
    program = program_of({"id": "a", "loop": loop})
    driver = Driver(program, outputs({"a": [{"again": True}, {"again": True}, {"again": False}]}))
    driver.run()
    case = Case(driver)
    node = program.nodes["a"]
    assert node.loop is not None
    tight = replace(node, loop=replace(node.loop, max_iterations=2))
    case.program = Program(replace(program.plan, nodes=(tight,)), "plan-1")

    assert case.ids() == ["I16"]
    assert "begins iteration 3 of the loop at 'a'" in case.violations()[0].message


def patched(case: Case, plan: str) -> None:
    case.append(events.RunPatched(plan, counter=case.stored.counter))
    case.refold()


def test_i16_does_not_judge_a_run_by_a_plan_that_it_got_later(half: Case) -> None:
    patched(half, "plan-2")
    assert half.program is not None
    half.program = Program(replace(half.program.plan, max_fanout=1), "plan-2")

    assert half.ids() == []


def test_i19_sees_a_plan_that_the_events_do_not_know(half: Case) -> None:
    half.stored.plan = "other"

    assert half.ids() == ["I19", "I6"]


def test_i19_sees_that_the_wrong_plan_is_at_hand(half: Case) -> None:
    assert half.program is not None
    half.program = Program(half.program.plan, "plan-9")

    assert half.ids() == ["I19"]


def test_i19_sees_a_node_that_is_not_in_the_plan(half: Case) -> None:
    patched(half, "plan-1")
    half.append(
        events.NodeCompleted(
            "c", "", to=[("ghost", "", 1, 1, 1)], lease="x", session="s", counter=1
        )
    )
    half.refold()
    half.facts = replace(half.facts, leased=())

    assert half.ids() == ["I19"]


def test_i19_sees_a_scope_that_does_not_fit_the_node(half: Case) -> None:
    patched(half, "plan-1")
    half.append(
        events.NodeCompleted("c", "", to=[("d", "a0", 1, 1, 1)], lease="x", session="s", counter=1)
    )
    half.refold()
    half.facts = replace(half.facts, leased=())

    assert half.ids() == ["I19"]


def test_i19_sees_a_join_that_needs_something_else_than_planned(half: Case) -> None:
    half.change(half.find(events.NodeCompleted, "b"), to=[("d", "", 1, 1, 3)], counter=2)
    half.refold()

    assert half.ids() == ["I19"]


def test_i34_sees_a_failure_that_is_no_dead_letter(broken: Case) -> None:
    assert broken.facts.dead_letters == (("b", "", 1),)
    broken.facts = replace(broken.facts, dead_letters=())

    assert broken.ids() == ["I34"]


@pytest.mark.parametrize("letter", [("b", "", 2), ("a", "", 1)])
def test_i34_sees_a_dead_letter_that_did_not_fail(
    broken: Case, letter: tuple[str, str, int]
) -> None:
    broken.facts = replace(broken.facts, dead_letters=(("b", "", 1), letter))

    assert broken.ids() == ["I34"]
