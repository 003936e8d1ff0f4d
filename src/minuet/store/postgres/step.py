"""One atomic step: load what a call touches, let the rules change it, write it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from minuet.store.postgres.database import Link
from minuet.store.postgres.rows import Rows
from minuet.store.postgres.statements import statement
from minuet.store.rules.transition import Transition

Value = TypeVar("Value")

_WRITE_ROWS = statement("write_rows")


async def write_step(
    link: Link, rows: Rows, step: Transition, call: tuple[Any, ...], takes: tuple[Any, ...]
) -> list[Any]:
    """Write what a step has changed and take tokens."""
    rare = (step.new_runs, step.steps, step.reprocessed, step.dead_letters, step.signals)
    if any(rare) or step.settled_letters or step.repaired_tokens:
        await rows.write_rare(link, step)
    return await link.rows(_WRITE_ROWS, *call, *rows.changes(step), *takes)


async def change_rows(link: Link, rows: Rows, change: Callable[[Transition], Value]) -> Value:
    """Make a change that takes no tokens."""
    step = Transition(rows, rows.now_ms)
    value = change(step)
    step.promote_waiters()
    await write_only(link, rows, step)
    return value


async def write_only(link: Link, rows: Rows, step: Transition) -> None:
    """Write what a step has changed, without a session."""
    nobody = (None, None, 0, "", b"", rows.now_ms, 0)
    await write_step(link, rows, step, nobody, ([], [], None, None))
