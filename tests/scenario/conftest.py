"""Every engine test runs on every store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .harness import open_scene

#: Kinds of stores; a new one is added here and nowhere else.
STORES = ("memory", "sqlite")


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own for the test."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def scene(store_url: str) -> Callable[..., Any]:
    """`async with scene(handlers, **options) as s:` an App on the test's store."""
    return lambda handlers=None, **options: open_scene(store_url, handlers, **options)
