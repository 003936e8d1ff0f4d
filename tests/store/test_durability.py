"""Every store says in one line what it is and what it can lose."""

from __future__ import annotations

from typing import Any


async def test_a_store_says_what_it_can_lose(world: Any) -> None:
    said = world.store.durability

    name, _, rest = said.partition(": ")
    assert name.split()[0].rstrip(",") in ("memory", "SQLite", "PostgreSQL", "Redis", "Valkey")
    assert "los" in rest
    assert "\n" not in said
