"""What models cost: from the operator's table, by the name of the model."""

from __future__ import annotations

from pathlib import Path

import msgspec

from minuet.errors import ConfigError
from minuet.nodes.io.chat import Usage

#: Prices are for so many tokens.
TOKENS = 1_000_000


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one model, in US dollars for a million tokens."""

    input: float
    output: float
    #: Of a prompt's tokens that the service had in its cache; None: as all others.
    cached_input: float | None = None


class Prices(msgspec.Struct, frozen=True):
    """Prices by model; a name that ends with `*` stands for all that begin so."""

    by_model: dict[str, Price] = {}

    def cost(self, model: str, usage: Usage | None) -> float | None:
        """What a call has cost in US dollars; None if that is not known."""
        price = self._find(model)
        if price is None or usage is None:
            return None
        cached = price.input if price.cached_input is None else price.cached_input
        fresh = usage.prompt_tokens - usage.cached_tokens
        total = (
            fresh * price.input
            + usage.cached_tokens * cached
            + usage.completion_tokens * price.output
        )
        return round(total / TOKENS, 9)

    def _find(self, model: str) -> Price | None:
        exact = self.by_model.get(model)
        if exact is not None:
            return exact
        begins = [
            name for name in self.by_model if name.endswith("*") and model.startswith(name[:-1])
        ]
        return self.by_model[max(begins, key=len)] if begins else None


def read_prices(text: str | None) -> Prices:
    """The prices that a setting gives: JSON, or the name of a file with JSON."""
    if not text:
        return Prices()
    try:
        data = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
        return Prices(msgspec.json.decode(data, type=dict[str, Price]))
    except (OSError, UnicodeError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"MINUET_LLM_PRICES: {error}; write JSON, or the name of a file with JSON: "
            '{"model": {"input": 2.5, "output": 10}}, in US dollars for a million tokens'
        ) from None
