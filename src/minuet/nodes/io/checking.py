"""What holds for every call of a service: its config fits, and its time is limited.

What a document says is checked when it is compiled. What its templates become is known only when
the node runs.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from minuet.errors import ServiceRefusedError, ServiceUnavailableError
from minuet.schemas import compile_schema

T = TypeVar("T")


def check_config(node_type: str, schema: dict[str, Any], config: dict[str, Any]) -> None:
    """ServiceRefusedError with all problems unless a rendered config fits."""
    problems = compile_schema(msgspec.json.encode(schema)).find_problems(config, "config")
    if problems:
        raise ServiceRefusedError(f"{node_type}: {'; '.join(problems)}", code="invalid-config")


async def in_time(work: Awaitable[T], seconds: float, what: str) -> T:
    """The result of some work; ServiceUnavailableError if it takes too long."""
    # Not needed to read documents, and slow to import.
    import asyncio

    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise ServiceUnavailableError(
            f"{what} took longer than {seconds:g} s", code="service-timeout"
        ) from None
