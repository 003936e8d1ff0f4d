"""Hostile documents, templates, handlers and outputs, on every store whose rules are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..scenario.conftest import STORES, scene

__all__ = ["scene", "store_url"]


@pytest.fixture(params=[kind for kind in STORES if kind != "logged"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own for the test. A logged store is two of the others."""
    return STORES[request.param](tmp_path)
