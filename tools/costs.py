"""What tests cost: `python -m pytest -p tools.costs tests/worker`, without `-n`.

Prints the dearest files and tests by seconds of CPU, their own and of processes that have ended,
and the time that they took. Where that is far more, a test waits, or a server works for it. On a
busy machine only the seconds of CPU can be compared.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

#: Lines of each table.
SHOWN = 25


class Cost(NamedTuple):
    own_s: float = 0.0
    children_s: float = 0.0
    took_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        return self.own_s + self.children_s


_costs: dict[str, Cost] = {}


def _now() -> Cost:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(
        own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime, time.monotonic()
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _now()
    try:
        return (yield)
    finally:
        after = _now()
        _costs[item.nodeid] = Cost(
            *(late - early for late, early in zip(after, before, strict=True))
        )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for title, end in (("file", "::"), ("test", "[")):
        sums: defaultdict[str, Cost] = defaultdict(Cost)
        for name, cost in _costs.items():
            key = name.partition(end)[0]
            sums[key] = Cost(*(a + b for a, b in zip(sums[key], cost, strict=True)))
        terminalreporter.section(f"costs by {title}: CPU, of that in children, time (s)")
        dearest = sorted(sums.items(), key=lambda pair: -pair[1].cpu_s)[:SHOWN]
        for name, cost in dearest:
            terminalreporter.write_line(
                f"{cost.cpu_s:7.2f} {cost.children_s:7.2f} {cost.took_s:7.2f}  {name}"
            )
