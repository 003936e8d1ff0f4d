"""All rules together: what a store applies to the rows of one atomic step."""

from __future__ import annotations

from minuet.store.rules.items import Items


class Transition(Items):
    """The rows that one atomic step has touched, and the rules that change them."""
