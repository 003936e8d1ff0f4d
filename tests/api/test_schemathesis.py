"""What the OpenAPI document says, tried out at random: right and wrong requests to every route.

`MINUET_TEST_REQUESTS` is how many for each route (3).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.generation import GenerationMode

from .conftest import open_site
from .contract import document
from .test_runs import FAILING, SHORT, WAITING

EXAMPLES = int(os.environ.get("MINUET_TEST_REQUESTS", "3"))

SCHEMA = schemathesis.openapi.from_dict(document())
# The server here needs no key, so a request without one is not wrong: see the tests of access.
SCHEMA.config.generation.update(with_security_parameters=False)
OPERATIONS: dict[str, Any] = {
    found.ok().label: found.ok()  # type: ignore[union-attr]
    for found in SCHEMA.get_all_operations()
}

CHECKS = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)


def can_be_wrong(name: str) -> bool:
    """Whether there are requests that the document forbids: any text can be an id."""
    method, _, path = name.partition(" ")
    found = document()["paths"][path][method.lower()]
    queries = [one for one in found.get("parameters", ()) if one["in"] == "query"]
    return bool(queries) or "application/json" in found.get("requestBody", {}).get("content", {})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server with a few runs, in a thread of its own."""
    told: SimpleQueue[Any] = SimpleQueue()

    async def serve() -> None:
        stop = asyncio.Event()
        async with open_site() as site:
            await site.app.workflows.deploy(SHORT)
            for one in (WAITING, SHORT, FAILING):
                await site.start(one, {"number": 1, "numerator": 1})
            told.put((site.url, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    found, loop, stop = told.get(timeout=60)
    yield found
    loop.call_soon_threadsafe(stop.set)
    thread.join()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_route_answers_as_it_is_described(url: str, name: str) -> None:
    answers = try_out(url, name, GenerationMode.POSITIVE)

    assert len(answers) >= 1


@pytest.mark.parametrize("name", [name for name in OPERATIONS if can_be_wrong(name)])
def test_a_route_refuses_what_is_wrong_as_it_is_described(url: str, name: str) -> None:
    answers = try_out(url, name, GenerationMode.NEGATIVE)

    assert any(status >= 400 for status in answers)


def try_out(url: str, name: str, mode: GenerationMode) -> list[int]:
    """Send some requests and check the answers; their statuses."""
    found: list[int] = []

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(case=OPERATIONS[name].as_strategy(generation_mode=mode))
    def call(case: Any) -> None:
        answer = case.call(base_url=url, timeout=60)
        found.append(answer.status_code)
        case.validate_response(answer, checks=list(CHECKS))

    call()
    return found
