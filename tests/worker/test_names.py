"""A null character in a name is refused in words, and means nothing where it is asked for: on every
store alike, whatever its server would say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minuet.app.app import App
from minuet.errors import ConfigError, DocumentError, RunNotFoundError

#: Each has another character that PostgreSQL's text, or UTF-8, cannot hold.
NAMES = ["a\0b", "\0", "a\ud800"]


def document(**fields: Any) -> dict[str, Any]:
    node = {"id": "only", "type": "noop", **fields.pop("node", {})}
    return {"name": "plain", "nodes": [node], **fields}


#: Where a name stands in a document, and a document with it.
PLACES: dict[str, Callable[[str], Any]] = {
    "name": lambda name: document(name=name),
    "nodes[0].id": lambda name: document(node={"id": name}),
    "defaults.queue": lambda name: document(defaults={"queue": name}),
    "nodes[0].handler": lambda name: document(node={"type": "task", "handler": name}),
}


async def test_in_a_document_it_is_a_problem_with_its_place(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        for place, make in PLACES.items():
            for name in NAMES:
                with pytest.raises(DocumentError, match=r"error\[bad-character\]") as refused:
                    await app.start(make(name))
                assert f"(at {place})" in str(refused.value)
        assert await app.runs.list() == []


@pytest.mark.parametrize("name", NAMES)
async def test_a_tenant_or_a_queue_by_such_a_name_is_refused(store_url: str, name: str) -> None:
    with pytest.raises(ConfigError, match=r"tenant: expected text without U\+0000 .* got "):
        App(store_url, tenant=name)
    with pytest.raises(
        ConfigError, match=r"queues: expected text without U\+0000 .* at position 1, got"
    ):
        App(store_url, queues=["good", name])


@pytest.mark.parametrize("name", NAMES)
async def test_a_run_by_such_a_name_does_not_exist(store_url: str, name: str) -> None:
    async with App(store_url, worker=False) as app:
        await app.start(document())
        for ask in (app.runs.show, app.runs.events, app.cancel, app.runs.pause, app.wait):
            with pytest.raises(RunNotFoundError):
                await ask(name)
        assert await app.runs.list(workflow=name) == []
        assert await app.dead_letters.list(run_id=name) == []


async def test_in_data_it_is_kept(store_url: str) -> None:
    async with App(store_url) as app:
        result = await app.run(
            document(node={"type": "transform", "config": {"value": "{{ input.text }}"}}),
            {"text": "a\0b"},
            timeout=60,
        )

    assert result.output == {"only": "a\0b"}
