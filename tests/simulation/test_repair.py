"""What a repair makes of a run's history is what the store had, in worlds full of faults."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from minuet.bridge.rebuild import rebuild
from minuet.bridge.repairs import compare
from minuet.bridge.traces import RepairError
from minuet.events import RunPatched, decode_event
from minuet.simulation.config import Config
from minuet.simulation.run import run_world
from minuet.simulation.server import apply
from minuet.simulation.world import World
from minuet.store.records import Snapshot

SEEDS = range(3_000, 3_030)

#: What no event tells, and who holds a token at the moment.
HELD = (
    "lease",
    "session",
    "taken_ms",
    "delivery",
    "slot",
    "slot_limit",
    "lane",
    "due_ms",
    "cursor",
)


def snapshots(seed: int) -> list[tuple[Snapshot, Any]]:
    """The runs of a world, as they stood after a third of their changes."""
    world = World(Config(seed, calm_clients=seed % 2 == 0))
    found: list[tuple[Snapshot, Any]] = []

    def look(run: str) -> None:
        row = world.model.run(run)
        assert row is not None
        if row.seq % 3 == seed % 3:
            snapshot, _ = apply(world.model.read_snapshot(row.tenant, run))
            found.append((copy.deepcopy(snapshot), world.programs[row.plan]))

    world.checker.watch = look
    assert run_world(world).broken is None
    return found


def held_away(snapshot: Snapshot) -> list[Any]:
    tokens = []
    for token in snapshot.tokens:
        plain = copy.copy(token)
        if plain.state == "leased":
            plain.state = "ready"
        for name in HELD:
            setattr(plain, name, None)
        if plain.state in ("done", "dead") or plain.skip:
            # Of no use any more, and not in the history in every case.
            plain.resolution = None
        tokens.append(plain)
    return tokens


@pytest.mark.slow
def test_rows_that_are_right_stay_and_rows_made_from_the_history_alone_are_the_same() -> None:
    looked = patched = 0
    for seed in SEEDS:
        for stored, program in snapshots(seed):
            assert compare(stored, rebuild(stored, program, 0)) == []
            nothing = msgspec.structs.replace(
                stored, tokens=(), joins=(), arrivals=(), steps=(), dead_letters=()
            )
            try:
                made = rebuild(nothing, program, 0)
            except RepairError:
                # Only a patch may have sent what no event tells the whole of.
                events = [decode_event(record.data) for record in stored.events]
                assert any(isinstance(event, RunPatched) for event in events)
                patched += 1
                continue
            looked += 1
            assert held_away(made) == held_away(stored)
            assert made.run == stored.run
            assert made.joins == stored.joins
            assert made.arrivals == stored.arrivals
            assert made.steps == stored.steps
            assert made.dead_letters == stored.dead_letters
    assert looked > 200
    assert patched < looked / 20
