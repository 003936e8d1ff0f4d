"""Keep a copy of a server's runs in a SQLite file.

The change feed of the server says which runs have changed; each is fetched with all its rows and
put in the place of what the copy has. The position is noted with the copy, after what came before
it is there. So a process that dies repeats some of it, and misses nothing.

From time to time, and whenever the server cannot go on from the position, all runs are compared:
what was deleted there is deleted here, and what the feed has not said is fetched.

How old the copy is: it has all that had happened when the server was last asked and had no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.app.keys import FOLDER
from minuet.app.move.blobs import BlobCopier
from minuet.app.move.parcel import refs_in
from minuet.app.replica.giving import (
    Changes,
    Deployments,
    Standing,
    decode_cells,
    decode_changes,
    decode_deployments,
    decode_snapshot,
    decode_standings,
)
from minuet.bridge.pages import read_cell, read_runs, read_versions
from minuet.clock import Clock
from minuet.errors import (
    MinuetError,
    PositionError,
    RunConflictError,
    StoreUnavailableError,
    StoreUnusableError,
)
from minuet.store.records import Cell, CellChange, Snapshot
from minuet.store.rules.workflows import is_same
from minuet.store.sqlite.copied import CopiedStore

if TYPE_CHECKING:
    import httpx2

#: How long the server may wait for changes, and how much longer its answer may take.
WAIT_MS = 10_000
PATIENCE_S = 30.0

#: Pause after a failure.
PAUSE_S = 1.0

#: All runs are compared this often.
COMPARE_S = 60.0

#: A run is fetched again after this many times the time that it took: one that is large and busy
#: must not take all of it.
REST = 10

#: Keys of a copy.
KEYS_MAX = 100_000

#: Where the copy notes what it is.
CELL = "replica"

_log = logging.getLogger("minuet.replica")


class Noted(msgspec.Struct, frozen=True):
    """What a copy knows about itself."""

    primary: str
    tenant: str
    position: str | None = None
    #: When it had everything.
    complete_ms: int | None = None


class Primary:
    """The server that is copied, over HTTP."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def changes(self, after: str | None, wait_ms: int) -> Changes:
        params = {"wait_ms": wait_ms} | ({} if after is None else {"after": after})
        data = await self._get("/replica/changes", **params)
        assert data is not None
        return decode_changes(data)

    async def standings(self) -> AsyncIterator[list[Standing]]:
        """All runs, a page at a time."""
        before: dict[str, Any] = {}
        while page := decode_standings(await self._get("/replica/runs", **before) or b"\x90"):
            yield page
            before = {"before": page[-1].run}

    async def snapshot(self, run: str) -> Snapshot | None:
        data = await self._get(f"/replica/runs/{run}")
        return None if data is None else decode_snapshot(data)

    async def get_blob(self, ref: str, *, run: str | None = None, tenant: str = "") -> bytes | None:
        return await self._get("/replica/blob", ref=ref, **({} if run is None else {"run": run}))

    async def deployments(self) -> Deployments:
        return decode_deployments(await self._get("/replica/workflows") or b"")

    async def keys(self) -> list[Cell]:
        return decode_cells(await self._get("/replica/keys") or b"\x90")

    async def _get(self, path: str, **params: Any) -> bytes | None:
        """What the server answers; None: there is no such thing."""
        import httpx2

        try:
            answer = await self._client.get(f"/api/v1{path}", params=params)
        except httpx2.HTTPError as error:
            raise StoreUnavailableError(f"{type(error).__name__}: {error}") from error
        if answer.status_code == 404:
            return None
        if answer.status_code == 410:
            raise PositionError(str(params.get("after")))
        if answer.status_code >= 500 or answer.status_code == 429:
            raise StoreUnavailableError(f"{path}: {answer.status_code}")
        if answer.status_code != 200:
            raise StoreUnusableError(f"{path}: {answer.status_code} {answer.text[:500]}")
        return answer.content


class Replica:
    """A copy of the runs of one tenant."""

    def __init__(
        self,
        primary: str,
        store: CopiedStore,
        tenant: str,
        clock: Clock,
        *,
        key: str | None = None,
        compare_s: float = COMPARE_S,
    ) -> None:
        self.primary = primary.rstrip("/")
        self._store, self._tenant, self._clock = store, tenant, clock
        self._key = key
        self._compare_s = compare_s
        self._noted = Noted(self.primary, tenant)
        #: Runs to fetch, and not before when.
        self._wanted: dict[str, float] = {}
        self._not_before: dict[str, float] = {}
        self.is_connected = False

    @property
    def age_ms(self) -> int | None:
        """How old its data is at most; None: it has never been complete."""
        if self._noted.complete_ms is None:
            return None
        return max(0, self._clock.now_ms() - self._noted.complete_ms)

    async def open(self) -> None:
        """Read what the copy knows about itself; the store is open. StoreUnusableError if it is
        something else than a copy of this server."""
        cell = await read_cell(self._store, CELL)
        if cell is not None:
            noted = msgspec.json.decode(cell.data, type=Noted)
            if (noted.primary, noted.tenant) != (self.primary, self._tenant):
                raise StoreUnusableError(
                    f"the store is a copy of {noted.primary} (tenant {noted.tenant}), and not of "
                    f"{self.primary} (tenant {self._tenant}): use another file"
                )
            self._noted = noted
            return
        if await self._store.list_tenants():
            raise StoreUnusableError(
                "the store has runs of its own, which a copy would replace: name another file with "
                "--store sqlite:///FILE"
            )
        await self._note(None)

    @contextlib.asynccontextmanager
    async def copying(self) -> AsyncIterator[None]:
        """Copy while the block lasts."""
        task = asyncio.get_running_loop().create_task(self.run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def run(self) -> None:
        """Copy until it is cancelled."""
        import httpx2

        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        timeout = httpx2.Timeout(PATIENCE_S, connect=5.0)
        async with httpx2.AsyncClient(
            base_url=self.primary, headers=headers, timeout=timeout
        ) as client:
            primary = Primary(client)
            copier = BlobCopier(primary, self._store)  # type: ignore[arg-type]
            while True:
                try:
                    await self._follow(primary, copier)
                except PositionError:
                    self._noted = msgspec.structs.replace(self._noted, position=None)
                except (MinuetError, msgspec.MsgspecError) as error:
                    if self.is_connected:
                        _log.warning("%s cannot be copied for now: %s", self.primary, error)
                    self.is_connected = False
                    await asyncio.sleep(PAUSE_S)

    async def _follow(self, primary: Primary, copier: BlobCopier) -> None:
        loop = asyncio.get_running_loop()
        position = self._noted.position
        if position is None:
            position = (await primary.changes(None, 0)).position
        compared_s = -self._compare_s
        while True:
            asked_ms = self._clock.now_ms()
            found = await primary.changes(position, 0 if self._wanted else WAIT_MS)
            self._log_connected()
            position = found.position
            for run in found.runs:
                self._wanted.setdefault(run, self._not_before.get(run, 0.0))
            if loop.time() - compared_s >= self._compare_s:
                asked_ms = self._clock.now_ms()
                await self._compare(primary)
                await self._copy_workflows(primary)
                await self._copy_keys(primary)
                compared_s = loop.time()
            await self._fetch_due(primary, copier)
            if found.more:
                continue
            if not self._wanted:
                # An answer without changes was true at its end.
                complete_ms = asked_ms if found.runs else self._clock.now_ms()
                await self._note(position, max(complete_ms, self._noted.complete_ms or 0))
            else:
                await asyncio.sleep(min(self._wanted.values(), default=0.0) - loop.time())

    def _log_connected(self) -> None:
        if not self.is_connected:
            _log.info("copying %s", self.primary)
        self.is_connected = True

    async def _fetch_due(self, primary: Primary, copier: BlobCopier) -> None:
        loop = asyncio.get_running_loop()
        for run, not_before in list(self._wanted.items()):
            begin = loop.time()
            if not_before > begin:
                continue
            await self._fetch(primary, copier, run)
            del self._wanted[run]
            self._not_before = {r: at for r, at in self._not_before.items() if at > begin}
            self._not_before[run] = loop.time() + REST * (loop.time() - begin)

    async def _fetch(self, primary: Primary, copier: BlobCopier, run: str) -> None:
        """Have a run as the server has it."""
        rows = await primary.snapshot(run)
        if rows is None:
            await self._store.remove_runs([run])
            return
        blobs = await copier.copy(rows)
        known = await self._store.read_run(self._tenant, run)
        try:
            await self._store.put_run(
                self._tenant, rows, None if known is None else known.seq, blobs=blobs
            )
        except RunConflictError:
            # A run that is gone there had its idempotency key.
            await self._compare(primary)
            await self._store.put_run(
                self._tenant, rows, None if known is None else known.seq, blobs=blobs
            )

    async def _compare(self, primary: Primary) -> None:
        """Want every run that is not as the server has it, and remove those that it has not."""
        theirs: dict[str, int] = {}
        async for page in primary.standings():
            theirs.update((one.run, one.seq) for one in page)
        ours: dict[str, int] = {}
        async for one in read_runs(self._store, self._tenant, page=1000):
            ours[one.run] = one.seq
        gone = [run for run in ours if run not in theirs]
        if gone:
            await self._store.remove_runs(gone)
        for run, seq in theirs.items():
            if ours.get(run) != seq:
                self._wanted.setdefault(run, 0.0)

    async def _copy_workflows(self, primary: Primary) -> None:
        found = await primary.deployments()
        await self._delete_workflows(found)
        for version in found.versions:
            there = await self._store.read_workflow(self._tenant, version.name, version.version)
            if there is None or there.version != version:
                for ref in version.blobs:
                    await self._copy_blob(primary, ref)
                await self._store.deploy_workflow(version)
        newest = {(version.name, version.version): version for version in found.versions}
        for name, tags in found.tags.items():
            known = await self._store.read_workflow(self._tenant, name)
            for tag, number in tags.items():
                if known is not None and known.tags.get(tag) != number:
                    await self._store.deploy_workflow(newest[name, number], [tag])

    async def _delete_workflows(self, found: Deployments) -> None:
        """Delete the workflows that were deleted there, also when their names are used again."""
        theirs = {(version.name, version.version): version for version in found.versions}
        gone: set[str] = set()
        async for version in read_versions(self._store, self._tenant):
            there = theirs.get((version.name, version.version))
            # A text may be replaced, but is never removed alone.
            if (
                there is None
                or not is_same(there, version)
                or (version.source and not there.source)
            ):
                gone.add(version.name)
        for name in gone:
            await self._store.delete_workflow(self._tenant, name)

    async def _copy_keys(self, primary: Primary) -> None:
        """Let in who is let in there."""
        theirs = {cell.name: cell.data for cell in await primary.keys()}
        ours = {cell.name for cell in await self._store.list_cells(FOLDER, limit=KEYS_MAX)}
        changes = [CellChange(name, data) for name, data in theirs.items()]
        await self._store.write_cells(
            [*changes, *(CellChange(name, None) for name in ours - theirs.keys())]
        )

    async def _copy_blob(self, primary: Primary, ref: str) -> None:
        data = await primary.get_blob(ref)
        if data is not None:
            await self._store.put_blob(data, tenant=self._tenant)
            for named in refs_in(data):
                if named != ref:
                    await self._copy_blob(primary, named)

    async def _note(self, position: str | None, complete_ms: int | None = None) -> None:
        self._noted = Noted(self.primary, self._tenant, position, complete_ms)
        await self._store.write_cells([CellChange(CELL, msgspec.json.encode(self._noted))])
