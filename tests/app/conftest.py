"""The facade on every store."""

from __future__ import annotations

from ..scenario.conftest import scene, store_url

__all__ = ["scene", "store_url"]
