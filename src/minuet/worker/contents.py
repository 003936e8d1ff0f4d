"""Contents that pass between a run and its child runs, as references in their inputs and outputs.

A content belongs to the run that stored it. A child run reads those of its parent and of the runs
above where they are, so a file that is given to a thousand child runs is stored once: a run cannot
be deleted while a child run of it is open. What the output of a child run names is copied to its
parent, which may outlive it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from minuet.errors import BlobError
from minuet.store.base import Store
from minuet.store.blob import BLOB_PREFIX
from minuet.store.large import read_content, write_content
from minuet.types import Json


async def read_of_family(store: Store, tenant: str, run: str, ref: str) -> AsyncIterator[bytes]:
    """The bytes of a content of the run or of a run above it, or of one that belongs to none."""
    owner: str | None = run
    missing: BlobError | None = None
    while owner is not None:
        begun = False
        try:
            async for piece in read_content(store, ref, run=owner, tenant=tenant):
                begun = True
                yield piece
            return
        except BlobError as error:
            if begun or error.state != "missing":
                raise
            missing = missing or error
        row = await store.read_run(tenant, owner)
        owner = row.parent if row is not None else None
    assert missing is not None
    raise missing


async def copy_to_parent(store: Store, tenant: str, child: str, parent: str, value: Json) -> None:
    """Give the parent the contents of its child run that a value names."""
    for ref in dict.fromkeys(_references(value)):
        if await store.get_blob(ref, run=parent, tenant=tenant) is not None:
            continue
        pieces = read_content(store, ref, run=child, tenant=tenant)
        try:
            await write_content(store, pieces, run=parent, tenant=tenant)
        except BlobError as error:
            # It may belong to a run above, which can read it; or be no reference of ours.
            if error.state != "missing":
                raise


def _references(value: Json) -> Iterator[str]:
    """The references in a value, as `ctx.blob` returns them."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            ref = one.get("cas_ref")
            if isinstance(ref, str) and ref.startswith(BLOB_PREFIX):
                yield ref
            left += one.values()
        elif isinstance(one, list):
            left += one
