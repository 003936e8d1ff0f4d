"""What a translator keeps: as much as its plan is large, however many runs there are."""

from __future__ import annotations

import tracemalloc
from typing import Any

from minuet.app.compiling import compile_source
from minuet.bridge.translate import Translator
from minuet.kernel.program import Program
from minuet.kernel.settle import SENDS_PER_EXCHANGE_MAX, Sent, Succeeded, settle
from minuet.store.exchange import Delivery

#: A leak of anything in each run would be more than this many bytes after `RUNS` runs.
BYTES_MAX = 10_000
RUNS = 3_000

LOOP = {"condition": "output.again", "max_iterations": 3}


def translator_of(*nodes: dict[str, Any]) -> tuple[Program, Translator]:
    compiled = compile_source({"name": "w", "nodes": [{"type": "noop", **n} for n in nodes]})
    program = Program(compiled.plan, compiled.digest)
    return program, Translator(program)


def grown(work: Any) -> int:
    """By how many bytes memory grows while something is done again and again."""
    tracemalloc.start()
    try:
        # Python itself keeps some hundreds of small things that were let go of.
        for _ in range(RUNS):
            work()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(RUNS):
            work()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def test_the_first_tokens_of_many_runs_are_translated_once() -> None:
    program, translator = translator_of({"id": "a"}, {"id": "b", "loop": LOOP})

    assert translator.deliveries(program.entries()) is translator.deliveries(program.entries())
    assert grown(lambda: translator.deliveries(program.entries())) < BYTES_MAX


def test_what_leaves_a_loop_is_not_kept() -> None:
    program, translator = translator_of({"id": "a", "loop": LOOP}, {"id": "b", "depends_on": ["a"]})

    def leave() -> tuple[Delivery, ...]:
        return translator.deliveries(program.sends(program.nodes["a"], (0,), ("b",)))

    assert [(delivery.node, delivery.scope) for delivery in leave()] == [("b", "")]
    assert grown(leave) < BYTES_MAX


def test_the_parts_of_a_large_fan_out_are_not_kept() -> None:
    width = SENDS_PER_EXCHANGE_MAX + 10
    program, translator = translator_of(
        {"id": "a"}, *({"id": f"b{number}", "dependencies": ["a"]} for number in range(width))
    )

    def send_rest() -> tuple[Delivery, ...]:
        sent = settle(
            program,
            program.nodes["a"],
            (),
            Succeeded({}),
            variables={},
            cursor=SENDS_PER_EXCHANGE_MAX,
        )
        assert isinstance(sent, Sent)
        return translator.deliveries(sent.sends)

    assert len(send_rest()) == 10
    assert grown(send_rest) < BYTES_MAX
