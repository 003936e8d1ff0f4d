"""The Redis store and the reference give the same answers to the same calls."""

from __future__ import annotations

import pytest
from tests.differential.driver import EXPECTED
from tests.differential.long import Run, found_after, redis
from tests.differential.machine import same_answers

from minuet.store.redis import library

#: Scenes of several calls.
SCENES = 300

TestSameAnswers = same_answers(redis, examples=20)


@pytest.mark.slow
@pytest.mark.shows("D-08", "D-29", "O-02", "O-03")
async def test_thousands_of_random_calls_get_the_same_answers() -> None:
    run = Run(seed=3, factory=redis)

    await run.go(2000)

    assert run.steps == 2000
    assert len(run.seen.keys() & EXPECTED) > 0.9 * len(EXPECTED), sorted(run.missing)


async def test_scenes_of_many_calls_get_the_same_answers() -> None:
    run = Run(seed=1, factory=redis, scenes=True)

    await run.go(SCENES)

    assert not run.missing


def replace_in_library(monkeypatch: pytest.MonkeyPatch, right: str, wrong: str) -> None:
    """Change the text of the functions."""
    sound = library.source()
    assert right in sound
    changed = library.make(sound.replace(right, wrong))
    monkeypatch.setattr("minuet.store.redis.connection.library", lambda: changed)


async def test_the_collation_of_the_server_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_in_library(monkeypatch, "local bytewise = not ('a' < 'B')", "local bytewise = false")

    await Run(seed=4, factory=redis).go(500)


# Each with the seed that comes to what is wrong soon.
@pytest.mark.parametrize(
    ("right", "wrong", "seed"),
    [
        ("call('HGET', SLOTS, slot) or 0", "0", 21),
        ("call('ZRANGE', waiters_key(slot), first, first + 9)", "{}", 16),
        ("parse_join(found[1]), found[2]", "parse_join(found[1]), false", 193),
        ("local fields = fields_of(run, F_TOKEN)", "local fields = {}", 28),
        ("token[T_LEASE] ~= lease", "false", 5),
        ("limit + was_ready", "limit", 23),
        ("(not only or only[token[T_RUN][R_NAME]])", "true", 46),
        ("only[(parts(member))]", "true", 22),
        ("run[R_COUNTER] = run[R_COUNTER] - 1", "", 5),
        ("token[T_EVENT] > upto", "false", 12),
        ("lease_ms_by_queue[token[T_QUEUE]] or lease_ms", "lease_ms", 5),
        ("version[V_DOCUMENT] == document", "true", 46),
        ("asked > 0 and asked ~= newest + 1", "false", 11),
        ("source ~= '' and source ~= kept[V_SOURCE]", "source ~= kept[V_SOURCE]", 8),
        ("message = kept[V_MESSAGE]", "message = message", 46),
        ("for _, tag in ipairs(tags) do numbers[#numbers + 1] = named[tag] end", "", 30),
        ("math.max(newest, number), named", "number, named", 24),
        ("window + join[J_LIVE] + join[J_SKIPPED] - 2", "window + join[J_LIVE] - 2", 5),
        ("token[T_OUTCOME] == 'failed' and FAILED .. node or node", "node", 5),
        ("signal[S_NAME] == token[T_WAIT_KEY]", "true", 5),
        ("enter(kept_key(run[R_NAME]), id, seq)", "", 1),
        ("if run[R_NOTABLE] then return end", "", 1),
        ("run[R_SEQ] > upto and upto + 1 or nil", "nil", 32),
        ("if one[3] and call('HGET', cells, one[1]) ~= one[4] then return 0 end", "", 1),
    ],
    ids=[
        *("slots look free", "nobody waits", "arrivals forgotten", "tokens not found"),
        *("lease not looked at", "queue read too short"),
        *("any run made ready", "any run shown", "counter does not fall"),
        *(
            "later outputs are read",
            "leases of one length",
            "documents not compared",
            "versions with gaps",
            "texts forgotten",
            "messages replaced with the text",
        ),
        *("tags not compared", "the newest version falls back"),
        *("failed items issue none", "failed items look completed"),
        *("any signal is received", "early signals dropped"),
        *("last notable event only", "later events passed on", "cells not compared"),
    ],
)
async def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, seed: int
) -> None:
    replace_in_library(monkeypatch, right, wrong)

    assert await found_after(redis, seed)


@pytest.mark.parametrize(
    ("right", "wrong", "seed"),
    [
        ("leave(kept_key(run[R_NAME]), signal[S_ID])", "", 1),
        ("for _, signal in ipairs(kept) do enter(kept_key(name), signal[1], signal[2]) end", "", 1),
        ("(token[T_WAIT_EVENT] or 0) < (longest[T_WAIT_EVENT] or 0)", "true", 1),
        ("if not run or not is_held(tenant, held) then", "if not run then", 1),
        ("if held and not is_held(run[R_TENANT], held) then", "if false then", 15),
        (
            "if run[R_PARENT_NODE] or (run[R_CHILDREN] and status ~= 'COMPLETED') then",
            "if false then",
            1,
        ),
        ("found and found[R_TENANT] == run[R_TENANT] and TERMINAL[found[R_STATUS]]", "false", 9),
        ("window + join[J_LIVE] + join[J_SKIPPED] - 2", "window + join[J_LIVE] - 2", 1),
        ("version[V_DOCUMENT] == document", "true", 1),
        ("leave(kept_key(run[R_NAME]), id)", "", 1),
        ("if is_awaited(signal[S_NAME], key) then return wake(run, token) end", "", 1),
        ("if key ~= '' and is_awaited(name, key) then wake(run, token) end", "", 1),
        (
            "if run[R_UNDO_ON] == 'failure' or run[R_UNDO_ON] == 'both' then undo.undo(run) end",
            "",
            1,
        ),
        ("if undoes and wanted and", "if wanted and", 1),
        ("run[R_UNDOS] = (run[R_UNDOS] or 0) + 1", "run[R_UNDOS] = 1", 1),
        ("run[R_ENDS_AS] = nil", "", 1),
        ("(held or known or undo.is_part(node)) then field", "(held or known) then field", 1),
        ("+ output_bytes > max_bytes", "> max_bytes", 1),
        ("run[R_OUTPUT_BYTES] = (run[R_OUTPUT_BYTES] or 0) + item.output_bytes", "", 1),
    ],
    ids=[
        *("signals received again", "signals lost by a put", "any waiter receives"),
        *("children without a lease", "children retried without a lease"),
        *("ends not reported", "the end of a child is not seen"),
        *("failed items issue none", "documents not compared"),
        *("signals received by two steps", "functions miss early signals", "functions sleep on"),
        *("failed runs stay as they are", "moved runs are undone", "undos are not counted"),
        *("a run ends twice as the same", "one letter for all compensators"),
        *("the last bytes are not counted", "bytes are not kept"),
    ],
)
async def test_scenes_find_a_planted_bug(
    monkeypatch: pytest.MonkeyPatch, right: str, wrong: str, seed: int
) -> None:
    replace_in_library(monkeypatch, right, wrong)

    run = Run(seed, factory=redis, scenes=True)

    with pytest.raises(AssertionError):
        await run.go(SCENES)
