"""Run worlds, and compare one with the same world without faults."""

from __future__ import annotations

import gc
from typing import Any

import msgspec

from minuet.simulation.checker import BrokenRule
from minuet.simulation.config import Config, Outcome
from minuet.simulation.faults import FAULTS
from minuet.simulation.judge import differing_results
from minuet.simulation.loop import DeadlockError, StepsExceededError
from minuet.simulation.parts import REAL, Parts
from minuet.simulation.surroundings import errors_logged, small_parts
from minuet.simulation.world import BrokenError, World


def simulate(config: Config, parts: Parts = REAL) -> Outcome:
    """Run one world and, if possible, compare it with the same world without faults."""
    world = World(config, parts)
    outcome = run_world(world)
    if outcome.broken is not None or not (config.compare and outcome.results):
        return outcome
    without = tuple(sorted({*config.without, *FAULTS}))
    calm = msgspec.structs.replace(
        config,
        without=without,
        calm_clients=True,
        fleet=world.is_fleet,
        families=world.has_families,
        registry=world.has_registry,
        functions=world.has_functions,
        agents=world.has_agents,
    )
    difference = differing_results(outcome.results, run_world(World(calm)).results)
    if difference is None:
        outcome.coverage["compared"] = outcome.coverage.get("compared", 0) + 1
        return outcome
    return msgspec.structs.replace(outcome, broken=BrokenRule("compared", difference))


def run_world(world: World) -> Outcome:
    """Run a new world."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with small_parts(world.sends_max), errors_logged(world.fail), world.parts.patch():
            broken = _run(world)
        return world.outcome(broken)
    finally:
        world.loop.bury()
        if collecting:
            gc.enable()


def _run(world: World) -> BrokenRule | None:
    loop = world.loop
    loop.set_exception_handler(lambda _, context: _unexpected(world, context))
    main = loop.create_task(world.run(), context=loop.outer)
    try:
        loop.run_until_complete(main)
    except BrokenError as error:
        return error.broken
    except DeadlockError as error:
        return BrokenRule("deadlock", str(error))
    except StepsExceededError as error:
        return BrokenRule("steps", f"no end after {error}")
    return None


def _unexpected(world: World, context: dict[str, Any]) -> None:
    error = context.get("exception")
    world.fail(BrokenRule("unexpected", f"{context.get('message')}: {error!r}"))
