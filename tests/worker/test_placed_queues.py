"""Queues with constraints: which of them a worker serves, and what it asks for."""

from __future__ import annotations

from typing import Any

from minuet.plan.placement import MARK, Offer
from minuet.store.exchange import Take
from minuet.worker.placed_queues import KEEP_S, PlacedQueues

SERVED = ("", "inline", "task:work")


def queue(node: str = "n", base: str = "task:work", limit: int = 1, rest: str = "") -> str:
    return f'{MARK}{{"queue":"{base}","workflow":"w","node":"{node}","limit":{limit}{rest}}}'


def placed(*queues: str, **capabilities: Any) -> PlacedQueues:
    made = PlacedQueues(Offer("id", "name", frozenset({"task"}), capabilities))
    made.find(queues, SERVED, now=0.0)
    return made


def test_a_queue_is_served_if_its_constraints_are_met_and_its_handler_is_here() -> None:
    mine, foreign = queue("a"), queue("b", base="task:other")
    needy = queue("c", rest=',"capabilities":{"gpu":1}')

    assert list(placed(mine, foreign, needy, "@nonsense", "plain")) == [mine]
    assert set(placed(mine, foreign, needy, gpu=1)) == {mine, needy}


def test_a_worker_that_has_more_to_offer_is_judged_again() -> None:
    needy = queue(rest=',"executors":["later"]')
    made = placed(needy)
    assert not made

    made.offer(Offer("id", "name", frozenset({"later"})))

    assert made.find([needy], SERVED, now=0.0)
    assert not made.find([needy], SERVED, now=0.0)  # it is not new any more


def test_a_queue_in_which_nothing_was_ready_for_long_is_left_alone_until_it_is_found() -> None:
    one, two, wanted = queue("one"), queue("two"), queue("wanted", base="task:other")
    made = placed(one, two)
    assert made.insist(wanted)
    assert not made.insist("plain")

    made.find([two], SERVED, now=1.0)
    made.forget(now=KEEP_S)

    assert set(made) == {two, wanted}
    assert made.find([one], SERVED, now=KEEP_S)


def test_no_answer_can_bring_more_of_a_node_than_may_run() -> None:
    one, three = queue("one"), queue("three", limit=3)
    made = placed(one, three)

    assert made.share(8, ("task:work",), {}) == [Take((one, three), 1), Take(("task:work",), 7)]
    running = {("w", "one"): 1}
    assert made.share(8, ("task:work",), running) == [Take((three,), 3), Take(("task:work",), 5)]
    running = {("w", "one"): 1, ("w", "three"): 2}
    assert made.share(8, ("task:work",), running) == [Take((three,), 1), Take(("task:work",), 7)]
    running = {("w", "one"): 1, ("w", "three"): 4}
    assert made.share(8, ("task:work",), running) == [Take(("task:work",), 8)]


def test_all_takes_together_ask_for_no_more_than_there_is_room_for() -> None:
    made = placed(queue(limit=100))

    for room in range(1, 10):
        takes = made.share(room, ("task:work",), {})
        assert sum(take.limit for take in takes) == room


def test_with_room_for_one_both_kinds_of_queues_have_their_turn() -> None:
    name = queue()
    made = placed(name)

    asked = [made.share(1, ("task:work",), {}) for _ in range(4)]

    assert asked == [[Take((name,), 1)], [Take(("task:work",), 1)]] * 2
    assert [made.share(1, (), {}) for _ in range(2)] == [[Take((name,), 1)]] * 2
