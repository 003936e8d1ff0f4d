"""An order that is reserved, charged and cannot be shipped, and a receiver that honours keys."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import minuet

LEDGER = "MINUET_TEST_LEDGER"

DOCUMENT: dict[str, Any] = {
    "name": "saga",
    "on_failure": {"compensate": True},
    "nodes": [
        {
            "id": "reserve",
            "handler": "change_stock",
            "config": {"by": -2},
            "compensator": {
                "handler": "change_stock",
                "config": {"by": "{{ 0 - output.by }}"},
                "retry": {"max_attempts": 5, "backoff_ms": 1},
            },
        },
        {
            "id": "charge",
            "handler": "change_money",
            "dependencies": ["reserve"],
            "config": {"by": 40},
            "compensator": {
                "handler": "change_money",
                "config": {"by": "{{ 0 - output.by }}"},
                "retry": {"max_attempts": 5, "backoff_ms": 1},
            },
        },
        {"id": "ship", "handler": "saga.ship", "dependencies": ["charge"]},
    ],
}


def receive(key: str, text: str) -> None:
    """Another service: what has a key that it knows changes nothing."""
    folder = Path(os.environ[LEDGER])
    folder.mkdir(exist_ok=True)
    try:
        file = os.open(folder / key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except FileExistsError:
        return
    os.write(file, text.encode())
    os.close(file)


@minuet.task
async def change_stock(by: int, ctx: minuet.Context) -> dict[str, int]:
    receive(ctx.idempotency_key, f"stock {by}")
    return {"by": by}


@minuet.task
async def change_money(by: int, ctx: minuet.Context) -> dict[str, int]:
    receive(ctx.idempotency_key, f"money {by}")
    return {"by": by}


@minuet.task(name="saga.ship")
async def ship(ctx: minuet.Context) -> None:
    raise minuet.NonRetryable("the carrier does not answer")


def read_effects(folder: Path) -> list[str]:
    """What the receiver has done, in no order."""
    return sorted(path.read_text() for path in folder.iterdir()) if folder.exists() else []
