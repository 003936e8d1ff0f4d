"""Blobs: named by their content, of a run's own or of nobody's, gone with their run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.store.conftest import World

from minuet.errors import RunConflictError, RunNotFoundError
from minuet.kernel.foreach import Listed
from minuet.store.blob import blob_ref, blob_value
from minuet.store.changes import Cancel
from minuet.store.logged import LoggedStore
from minuet.store.memory import MemoryStore

#: With every kind of byte, and longer than what a server reads at once.
LARGE = bytes(range(256)) * 1000


async def test_a_blob_is_named_by_its_content(world: Any) -> None:
    ref = await world.store.put_blob(b"\x00bytes\xff")

    assert ref.startswith("cas://sha256:")
    assert await world.store.put_blob(b"\x00bytes\xff") == ref
    assert await world.store.get_blob(ref) == b"\x00bytes\xff"
    assert await world.store.get_blob("cas://sha256:" + "0" * 64) is None


async def test_blobs_belong_to_their_tenant(world: Any) -> None:
    ref = await world.store.put_blob(b"secret", tenant="b")

    assert await world.store.get_blob(ref, tenant="a") is None
    assert await world.store.get_blob(ref, tenant="b") == b"secret"


async def test_a_runs_own_blob_is_found_by_those_who_name_the_run(world: Any) -> None:
    run, other = await world.start("a"), await world.start("a")

    ref = await world.store.put_blob(LARGE, run=run, tenant="a")

    assert ref == await world.store.put_blob(LARGE, run=run, tenant="a") == blob_ref(LARGE)
    assert await world.store.get_blob(ref, run=run, tenant="a") == LARGE
    assert await world.store.get_blob(ref, run=other, tenant="a") is None
    assert await world.store.get_blob(ref, tenant="a") is None
    assert await world.store.get_blob(ref, run=run, tenant="b") is None


async def test_a_blob_of_nobodys_is_found_by_those_who_name_a_run_too(world: Any) -> None:
    run = await world.start("a")
    ref = await world.store.put_blob(b"for all", tenant="a")

    assert await world.store.get_blob(ref, run=run, tenant="a") == b"for all"
    assert await world.store.get_blob(ref, run="no-such-run", tenant="a") == b"for all"


async def test_nothing_is_kept_for_a_run_that_is_not_there(world: Any) -> None:
    run = await world.start("a")

    for name, tenant in (("no-such-run", "a"), (run, "b")):
        with pytest.raises(RunNotFoundError):
            await world.store.put_blob(b"lost", run=name, tenant=tenant)

        assert await world.store.get_blob(blob_ref(b"lost"), run=name, tenant=tenant) is None


async def test_the_blobs_of_a_run_are_deleted_with_it(world: Any) -> None:
    new = world.new("a", blobs=(b"given", LARGE))
    await world.create(new)
    staying = await world.start("a", blobs=(b"given",))
    await world.store.put_blob(b"made", run=new.run, tenant="a")
    await world.store.put_blob(b"for all", tenant="a")
    await world.change(new.run, Cancel())

    await world.store.delete_runs("a", [new.run])

    for data in (b"given", LARGE, b"made"):
        assert await world.store.get_blob(blob_ref(data), run=new.run, tenant="a") is None
    # A run of the same name begins without them.
    await world.create(world.new("a", run=new.run))
    assert await world.store.get_blob(blob_ref(b"made"), run=new.run, tenant="a") is None
    assert await world.store.get_blob(blob_ref(b"given"), run=staying, tenant="a") == b"given"
    assert await world.store.get_blob(blob_ref(b"for all"), tenant="a") == b"for all"


async def test_a_run_is_created_with_its_blobs(world: Any) -> None:
    input = blob_value(blob_ref(LARGE), len(LARGE))
    new = world.new("a", input=input, blobs=(LARGE, b""), idempotency_key="k")
    await world.create(new)
    again = world.new("a", input=input, blobs=(LARGE, b""), idempotency_key="k")
    (known,) = await world.create(again)

    assert known.run == new.run
    assert await world.store.get_blob(blob_ref(LARGE), run=new.run, tenant="a") == LARGE
    assert await world.store.get_blob(blob_ref(b""), run=new.run, tenant="a") == b""
    with pytest.raises(RunNotFoundError):
        await world.store.put_blob(b"more", run=again.run, tenant="a")
    (refused,) = await world.create(msgspec.structs.replace(new, tenant="b"))
    assert isinstance(refused, RunConflictError)
    assert await world.store.get_blob(blob_ref(LARGE), run=new.run, tenant="b") is None


async def test_a_run_that_is_put_in_its_place_keeps_its_blobs_and_brings_others(
    world: Any,
) -> None:
    source = World(MemoryStore(world.clock), world.clock)
    run = await source.start("a")
    rows: Any = await source.snapshot(run)

    assert await world.store.put_run("a", rows, None, blobs=[LARGE, b"two"])
    await world.store.put_blob(b"three", run=run, tenant="a")
    assert await world.store.put_run("a", rows, rows.run.seq, blobs=[b"four"])
    assert not await world.store.put_run("a", rows, None, blobs=[b"five"])

    for data in (LARGE, b"two", b"three", b"four"):
        assert await world.store.get_blob(blob_ref(data), run=run, tenant="a") == data


STANDS_FOR_IT = blob_value(blob_ref(LARGE), len(LARGE))
NAMES_IT = msgspec.json.encode(Listed(2, 1, chunks=[(0, blob_ref(b"here")), (1, blob_ref(LARGE))]))


@pytest.mark.parametrize(("node", "output"), [("a", STANDS_FOR_IT), ("a$items", NAMES_IT)])
async def test_a_result_whose_blob_was_lost_is_stale(world: Any, node: str, output: bytes) -> None:
    """A store that lost its last moments would otherwise commit a result that nobody can read."""
    run = await world.start(node)
    grant = await world.take_one()
    await world.store.put_blob(b"here", run=run, tenant="a")
    if isinstance(world.store, LoggedStore):
        # Its blobs are in the record, which loses none: nobody looks.
        assert await world.hand_in(world.done(grant, "b", output=output)) == ("applied",)
        return

    assert await world.hand_in(world.done(grant, "b", output=output)) == ("stale",)
    assert (await world.token(run, node)).state == "leased"

    await world.store.put_blob(LARGE, run=run, tenant="a")
    assert await world.hand_in(world.done(grant, "b", output=output)) == ("applied",)
    assert [i.data for i in (await world.take_one()).inputs] == [output]


async def test_an_output_that_only_looks_like_a_list_of_chunks_is_taken(world: Any) -> None:
    await world.start("a", "b$items")
    short = msgspec.json.encode(Listed(1, 1, items=[{"chunks": [[0, blob_ref(LARGE)]]}]))
    outputs = {"a": NAMES_IT, "b$items": short}

    done = [world.done(grant, output=outputs[grant.node]) for grant in await world.take()]

    assert await world.hand_in(*done) == ("applied", "applied")
