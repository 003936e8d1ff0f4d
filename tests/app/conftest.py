"""The facade on every store."""

from __future__ import annotations

from pathlib import Path

import pytest

from .. import chosen
from ..scenario.conftest import scene, store_url

__all__ = ["scene", "store_url"]

ARGUMENTS = Path(__file__).with_name("test_arguments.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Thousands of odd arguments: a logged store keeps them as two of the other stores do."""

    def is_chosen(item: pytest.Item, store: str) -> bool:
        return store != "logged" or item.path != ARGUMENTS

    chosen.leave_out(config, items, "store_url", is_chosen)
