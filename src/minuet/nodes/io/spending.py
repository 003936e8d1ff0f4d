"""What an agent has spent, and what it may spend.

A budget is looked at before each call of a model. So it can be exceeded by the calls that are
under way, but not by more; an answer that was paid for is not thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from minuet.errors import AgentError
from minuet.nodes.io.asking import add_usage
from minuet.nodes.io.chat import Usage
from minuet.types import Json


class Spending(msgspec.Struct):
    """What some calls have used and cost."""

    usage: Usage | None = None
    #: In US dollars; None: not known, at least of one of them.
    cost: float | None = 0.0
    calls: int = 0
    #: Whether a call did not say what it used.
    is_unknown: bool = False

    def add(self, usage: Usage | None, cost: float | None) -> None:
        """Add a call."""
        self.calls += 1
        self.is_unknown = self.is_unknown or usage is None
        self.usage = add_usage(self.usage, usage)
        self.cost = None if self.cost is None or cost is None else round(self.cost + cost, 9)

    def check(self, budget: dict[str, Any], whose: str) -> None:
        """AgentError unless there is something left of a budget. What is not known is not left."""
        tokens, usd = budget.get("tokens"), budget.get("usd")
        if tokens is not None and self.is_unknown:
            raise _refusal(
                f"the service does not say how many tokens it uses, so {whose} cannot be kept"
            )
        if usd is not None and self.cost is None:
            raise _refusal(
                f"what the model costs is not known, so {whose} cannot be kept: add the model to "
                "MINUET_LLM_PRICES"
            )
        used = 0 if self.usage is None else self.usage.total_tokens
        if tokens is not None and used >= tokens:
            raise _refusal(f"{whose} is used up: {used:,} of {tokens:,} tokens", self)
        if usd is not None and (self.cost or 0.0) >= usd:
            raise _refusal(f"{whose} is used up: {self.cost:g} of {usd:g} US dollars", self)


def spent_in(results: Iterable[Json]) -> Spending:
    """What calls have spent, by what was kept of them."""
    found = Spending()
    for one in results:
        if isinstance(one, dict):
            usage = one.get("usage")
            found.add(None if usage is None else msgspec.convert(usage, Usage), one.get("cost"))
    return found


def _refusal(message: str, spending: Spending | None = None) -> AgentError:
    details = {} if spending is None else {"usage": msgspec.to_builtins(spending.usage)}
    return AgentError(message, code="agent-budget", details=details)
