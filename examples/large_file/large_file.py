"""The handlers of large_file.yaml."""

from collections.abc import AsyncIterator
from typing import Any

import minuet


@minuet.task
async def export(rows: int, ctx: minuet.Context) -> dict[str, Any]:
    async def lines() -> AsyncIterator[bytes]:
        for number in range(rows):
            yield f"{number},{number * number}\n".encode()

    # The file is never in memory as a whole, and the output is a few bytes.
    return {"file": await ctx.blob(lines()), "rows": rows}


@minuet.task
def summarize(file: dict[str, Any], ctx: minuet.Context) -> dict[str, int]:
    # In a sync handler, ctx.open gives a file; in an async one, pieces to iterate over.
    with ctx.open(file) as opened:
        total = sum(int(line.split(b",")[1]) for line in opened)
    return {"bytes": file["bytes"], "sum": total}
