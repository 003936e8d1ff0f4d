"""The journal of a function instance: its order, and what a retry leaves out."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import minuet
from minuet.errors import DamagedRowError
from minuet.functions.journal import (
    Entry,
    Journal,
    decode_entries,
    encode_entry,
    has_input,
    input_fields,
    key_of,
    label_of,
)

from .stage import Stage, perform

FAILED = {"type": "ValueError", "message": "no"}


def entry(n: int, name: str, *, epoch: tuple[int, int] = (1, 1), **fields: Any) -> Entry:
    kind = fields.pop("kind", "step")
    generation, attempt = epoch
    return Entry(n, kind, 1000 + n, name, generation=generation, attempt=attempt, **fields)


def names(journal: Journal) -> list[str]:
    found = []
    while journal.next is not None:
        found.append(journal.advance().name or journal._entries[journal._position - 1].kind)
    return found


def test_entries_are_read_in_the_order_in_which_they_were_made() -> None:
    made = [entry(2, "b"), entry(1, "d", epoch=(2, 1)), entry(1, "a"), entry(3, "c")]
    read = decode_entries("run", [encode_entry(one) for one in made])
    assert [one.name for one in read] == ["a", "b", "c", "d"]


def test_a_damaged_entry_is_named() -> None:
    with pytest.raises(DamagedRowError, match="run-1"):
        decode_entries("run-1", [b"{"])


def test_an_error_at_the_end_stays_within_its_attempt() -> None:
    journal = Journal([entry(1, "a"), entry(2, "b", error=FAILED)], (1, 1))
    assert (names(journal), journal.dropped) == (["a", "b"], {})


@pytest.mark.parametrize("epoch", [(2, 1), (1, 2)])
def test_the_errors_at_the_end_of_an_earlier_attempt_are_left_out(epoch: tuple[int, int]) -> None:
    made = [entry(1, "a"), entry(2, "b", error=FAILED), entry(3, "c", error=FAILED)]
    journal = Journal(made, epoch)
    assert names(journal) == ["a"]
    assert sorted(journal.dropped) == ["b", "c"]


def test_an_error_that_was_followed_by_a_step_stays() -> None:
    journal = Journal([entry(1, "a", error=FAILED), entry(2, "b")], (2, 1))
    assert (names(journal), journal.dropped) == (["a", "b"], {})


def test_what_was_only_noted_after_an_error_is_left_out_with_it() -> None:
    made = [entry(1, "a"), entry(2, "b", error=FAILED), entry(3, "", kind="now")]
    assert names(Journal(made, (2, 1))) == ["a"]
    assert names(Journal([made[0], entry(2, "", kind="now")], (2, 1))) == ["a", "now"]


def test_each_attempt_goes_on_where_the_one_before_it_failed() -> None:
    made = [
        entry(1, "a"),
        entry(2, "b", error=FAILED),
        entry(2, "b", epoch=(2, 1)),
        entry(3, "c", epoch=(2, 1), error=FAILED),
        entry(3, "c", epoch=(3, 1)),
    ]
    journal = Journal(decode_entries("run", map(encode_entry, made)), (3, 1))
    assert names(journal) == ["a", "b", "c"]
    assert len({one.key for one in made}) == len(made)
    assert journal.new("step", "d", 1, 5).key == "d~3.1"


def test_the_time_of_a_journal_does_not_go_back() -> None:
    journal = Journal([entry(1, "a")], (1, 1))
    journal.advance()
    assert journal.new("now", "", 1, 5).at_ms == 1001


@pytest.mark.parametrize(
    ("kind", "name", "occurrence", "key", "label"),
    [
        ("step", "charge", 1, "charge", "charge"),
        ("step", "charge", 2, "charge#2", "charge #2"),
        ("timer", "", 1, "$timer", "sleep"),
        ("timer", "timeout", 3, "$timer:timeout#3", "timeout #3"),
        ("signal", "paid", 1, "$signal:paid", "signal paid"),
        ("child", "ship", 2, "$child:ship#2", "child ship #2"),
        ("now", "", 1, "$now", "now"),
    ],
)
def test_keys_and_labels(kind: Any, name: str, occurrence: int, key: str, label: str) -> None:
    assert key_of(kind, name, occurrence) == key
    assert label_of(kind, name, occurrence) == label


def test_large_arguments_are_compared_by_their_hash() -> None:
    def made(value: Any) -> bytes:
        return msgspec.json.encode(value)

    large = {"text": 20_000 * "x", "n": 1}
    fields = input_fields(made(large))
    assert "input" not in fields
    kept = entry(1, "a", **fields)
    assert has_input(kept, made({"n": 1, "text": 20_000 * "x"}))
    assert not has_input(kept, made(large | {"n": 2}))
    # Arguments that are not JSON are not known.
    assert has_input(kept, b"")
    assert has_input(entry(1, "a"), made(large))


@minuet.task(name="journal-one")
async def one(n: Any) -> Any:
    return n


@minuet.task(name="journal-wrong")
async def wrong() -> int:
    return "text"  # type: ignore[return-value]


def test_a_result_that_is_not_what_its_task_promises_is_an_error_of_the_step() -> None:
    async def code(ctx: minuet.Flow) -> Any:
        try:
            return await wrong()
        except Exception as error:
            return [type(error).__name__, await one(1)]

    result, stage = perform(code)
    assert result == ["HandlerError", 1]
    assert stage.entries[0].error is not None
    assert perform(code, stage.entries)[0] == result


def test_a_retry_executes_the_failed_step_and_nothing_else() -> None:
    outcomes = [ValueError("not now"), "paid"]

    def charge() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)

    async def code(ctx: minuet.Flow) -> Any:
        first = await one(1)
        ctx.now()
        return [first, await ctx.step("charge", charge)]

    stage = Stage(code)
    with pytest.raises(ValueError, match="not now"):
        stage.run()
    result, again = perform(code, stage.entries, epoch=(2, 1))
    assert result == [1, "paid"]
    assert again.executed == ["charge"]
