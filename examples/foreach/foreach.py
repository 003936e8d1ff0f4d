"""The handler of foreach.yaml."""

import minuet


@minuet.task
async def price_order(lines: list[int]) -> int:
    return sum(lines)
