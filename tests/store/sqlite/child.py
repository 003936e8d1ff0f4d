"""A process that works on a store until it is killed: `child.py FILE MODE`.

It prints one line for each call that was answered, after the answer. Whoever kills it can then
check that everything it was told is in the file.
"""

from __future__ import annotations

import asyncio
import resource
import sys

from minuet.errors import StoreUnavailableError
from minuet.ids import SystemIds
from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery, Done, Exchange, Take
from minuet.store.sqlite import SqliteStore

ids = SystemIds()


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def to(node: str) -> Delivery:
    return Delivery(node=node, scope="", live=True, need=1, total=1, queue="q")


async def create(store: SqliteStore, **fields: object) -> str:
    new = NewRun(run=ids.run_id(), workflow="w", plan="p", entries=(to("n0"),), **fields)  # type: ignore[arg-type]
    (run,) = await store.create_runs([new])
    return run.run  # type: ignore[union-attr]


async def work(store: SqliteStore) -> None:
    """Create runs and move their tokens on, for ever."""
    session, seq = ids.token(), 0
    hand_in: tuple[Done, ...] = ()
    while True:
        run = await create(store)
        say(f"created {run}")
        seq += 1
        reply = await store.exchange(
            Exchange(
                session,
                seq,
                ids.token(),
                hand_in=hand_in,
                take=(Take(("q",), 8),),
                tenant="default",
            )
        )
        for item in hand_in:
            say(f"done {item.run} {item.node}")
        hand_in = tuple(
            Done(
                g.run,
                g.node,
                g.scope,
                g.lease,
                "p",
                output=b'"' + b"x" * 500 + b'"',
                deliveries=(to(f"n{int(g.node[1:]) + 1}"),),
            )
            for g in reply.granted
        )


async def fill(store: SqliteStore) -> None:
    """Create runs until the file may not grow any more, then say what happened."""
    kept = []
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    try:
        while True:
            kept.append(await create(store, input=b'"' + b"x" * 50_000 + b'"'))
            say(f"created {kept[-1]}")
    except StoreUnavailableError as error:
        say(f"full {error}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    say(f"created {await create(store)}")


async def main(path: str, mode: str) -> None:
    store = SqliteStore(path)
    await store.open()
    say("open")
    if mode == "work":
        await work(store)
    elif mode == "fill":
        await fill(store)
    elif mode == "one":
        say(f"created {await create(store)}")
    await store.close()


asyncio.run(main(*sys.argv[1:]))
