"""The smallest world in which a seed still fails.

Everything that a config can leave out is removed as long as the world still breaks the same
rule: classes of faults, clients' interference, runs, workers, nodes. Then the steps are cut to
those that are needed. What remains belongs in a regression test: seeds lose their meaning when
code changes, and a small world loses it more slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from minuet.simulation.config import Config, Outcome
from minuet.simulation.parts import REAL, Parts
from minuet.simulation.run import simulate


def minimise(
    config: Config, report: Callable[[str], None] = lambda line: None, *, parts: Parts = REAL
) -> Outcome:
    """Shrink a failing world. ValueError if it does not fail."""
    best = simulate(config, parts)
    if best.broken is None:
        raise ValueError(f"seed {config.seed} does not fail")
    rule, progress = best.broken.id, True
    while progress:
        progress = False
        for what, smaller in _smaller(best):
            outcome = simulate(smaller, parts)
            if outcome.broken is not None and outcome.broken.id == rule:
                report(f"{what}: still {rule}, {outcome.steps} steps")
                best, progress = outcome, True
                break
    return _cut(best, rule, parts)


def _smaller(outcome: Outcome) -> Iterator[tuple[str, Config]]:
    """Worlds with one thing less, the largest cuts first."""
    config = outcome.config
    if len(outcome.faults) > 1:
        yield (
            "no faults",
            msgspec.structs.replace(config, without=(*config.without, *sorted(outcome.faults))),
        )
    if not config.calm_clients:
        yield "calm clients", msgspec.structs.replace(config, calm_clients=True)
    for fault in sorted(outcome.faults):
        without = (*config.without, fault)
        yield f"without {fault}", msgspec.structs.replace(config, without=without)
    for name in ("tenants", "runs", "workers", "size"):
        known = getattr(config, name)
        for number in range(1, known if known is not None else 4):
            yield f"{name} {number}", msgspec.structs.replace(config, **{name: number})


def _cut(outcome: Outcome, rule: str, parts: Parts) -> Outcome:
    """Give the world no more steps than it needs to fail."""
    low, high = 1, outcome.steps + 1
    while low < high:
        middle = (low + high) // 2
        tried = simulate(msgspec.structs.replace(outcome.config, steps_max=middle), parts)
        if tried.broken is not None and tried.broken.id == rule:
            high, outcome = middle, tried
        else:
            low = middle + 1
    return outcome
