"""A run is found by the beginning of its id, on every store."""

from __future__ import annotations

import pytest

from minuet.app.app import App
from minuet.app.finder import MATCHES_MAX
from minuet.errors import AmbiguousRunError, RunNotFoundError
from minuet.ids import SeededIds, format_uuid7

DOCUMENT = {"name": "plain", "nodes": [{"id": "only", "type": "noop"}]}


class CloseIds(SeededIds):
    """Ids that differ in their last digits alone."""

    def run_id(self) -> str:
        self._run += 1
        return format_uuid7(1_700_000_000_000, self._run.to_bytes(10, "big"))


async def test_a_run_is_found_by_its_id_and_by_any_beginning_of_it(store_url: str) -> None:
    async with App(store_url, worker=False) as app:
        run_id = await app.start(DOCUMENT)

        for length in (1, 8, 9, 20, 35, 36):
            assert await app.runs.find(run_id[:length]) == run_id
        for text in ("", "zzz", f"{run_id}0", run_id[1:], "%", "*", "a\0", "\ud800"):
            with pytest.raises(RunNotFoundError):
                await app.runs.find(text)


async def test_a_beginning_that_several_have_lists_the_newest(store_url: str) -> None:
    async with App(store_url, worker=False, ids=CloseIds()) as app:
        started = await app.start_many(DOCUMENT, range(MATCHES_MAX + 1))
        with pytest.raises(AmbiguousRunError) as refused:
            await app.runs.find(started[0][:10])

        assert list(refused.value.matches) == started[:0:-1]
        assert refused.value.more
        assert await app.runs.find(started[3]) == started[3]


async def test_a_run_of_another_tenant_is_not_found(store_url: str) -> None:
    async with App(store_url, worker=False, tenant="a") as app:
        run_id = await app.start(DOCUMENT)
    async with App(store_url, worker=False, tenant="b") as other:
        with pytest.raises(RunNotFoundError):
            await other.runs.find(run_id[:12])
