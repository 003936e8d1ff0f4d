"""Following a run: its events as they happen, and nothing after the last one."""

from __future__ import annotations

from typing import Any

from ..scenario.harness import node, workflow


class EndsBetweenLooks:
    """A store on which every run ends after its row was read and before its events are."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.end: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read_run(self, tenant: str, run: str) -> Any:
        row = await self._store.read_run(tenant, run)
        if self.end is not None:
            end, self.end = self.end, None
            await end()
        return row

    async def wait_for_change(self, run: str, after_seq: int, timeout_ms: int) -> bool:
        raise AssertionError(f"waits for more than the {after_seq} events that {run} has")


async def test_who_follows_a_run_does_not_wait_for_more_than_its_end(scene: Any) -> None:
    made: list[EndsBetweenLooks] = []

    def around(store: Any) -> EndsBetweenLooks:
        made.append(EndsBetweenLooks(store))
        return made[0]

    document = workflow(node("w", type="wait", config={"seconds": 3600}))
    async with scene(around=around) as s:
        run_id = await s.app.start(document)
        (store,) = made
        store.end = lambda: s.app.cancel(run_id)
        seen = [seq async for seq, _, _ in s.app.follow(run_id)]
        seq = (await s.app.runs.get(run_id)).seq

        assert store.end is None
        assert seen == list(range(1, seq + 1))
