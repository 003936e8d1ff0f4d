"""LangGraph: a graph with a SQLite checkpointer that is written before the next step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.peers.harness import Engine, Options, Timed, check

THREADS = count()


def larger(one: int, other: int) -> int:
    """Of the nodes that run at once, the one with the largest number wins."""
    return max(one, other)


class State(TypedDict):
    i: Annotated[int, larger]


def node(i: int, asynchronous: bool) -> Any:
    def step(state: State) -> State:
        return {"i": i}

    async def asynchronous_step(state: State) -> State:
        return {"i": i}

    return asynchronous_step if asynchronous else step


def chain(length: int, saver: Any, asynchronous: bool) -> Any:
    graph = StateGraph(State)
    names = [f"n{i}" for i in range(length)]
    for i, name in enumerate(names):
        graph.add_node(name, node(i, asynchronous))
    for one, next_one in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(one, next_one)
    return graph.compile(checkpointer=saver)


def fan(width: int, saver: Any, asynchronous: bool) -> Any:
    graph = StateGraph(State)
    names = [f"m{i}" for i in range(width)]
    graph.add_node("first", node(0, asynchronous))
    graph.add_node("last", node(width, asynchronous))
    for i, name in enumerate(names):
        graph.add_node(name, node(i, asynchronous))
        graph.add_edge("first", name)
    graph.add_edge(START, "first")
    graph.add_edge(names, "last")
    graph.add_edge("last", END)
    return graph.compile(checkpointer=saver)


def settings() -> dict[str, Any]:
    config = {"configurable": {"thread_id": str(next(THREADS))}, "recursion_limit": 1000}
    return {"config": config, "durability": "sync"}


class Threads:
    """Each run in a thread of the caller's."""

    def __init__(self, saver: SqliteSaver) -> None:
        self._chain = cache(lambda length: chain(length, saver, False))
        self._fan = cache(lambda width: fan(width, saver, False))

    def chain(self, length: int, runs: int, concurrency: int) -> float:
        graph = self._chain(length)

        def run(_: int) -> None:
            check(graph.invoke({"i": 0}, **settings()), {"i": length - 1})

        began = time.perf_counter()
        if concurrency == 1:
            for i in range(runs):
                run(i)
        else:
            with ThreadPoolExecutor(concurrency) as pool:
                list(pool.map(run, range(runs)))
        return time.perf_counter() - began

    def fan(self, width: int) -> float:
        graph = self._fan(width)
        began = time.perf_counter()
        check(graph.invoke({"i": 0}, **settings()), {"i": width})
        return time.perf_counter() - began


def with_asyncio(saver: AsyncSqliteSaver, runner: asyncio.Runner) -> Timed:
    chains = cache(lambda length: chain(length, saver, True))
    fans = cache(lambda width: fan(width, saver, True))

    async def run_chain(length: int) -> None:
        check(await chains(length).ainvoke({"i": 0}, **settings()), {"i": length - 1})

    async def run_fan(width: int) -> None:
        check(await fans(width).ainvoke({"i": 0}, **settings()), {"i": width})

    return Timed(run_chain, run_fan, runner)


@contextmanager
def open_engine(options: Options) -> Iterator[Engine]:
    path = str(options.path / "bench.db")
    if not options.mode["asynchronous"]:
        with SqliteSaver.from_conn_string(path) as saver:
            yield Threads(saver)
        return
    with asyncio.Runner() as runner:
        opened = AsyncSqliteSaver.from_conn_string(path)
        saver = runner.run(opened.__aenter__())
        try:
            yield with_asyncio(saver, runner)
        finally:
            runner.run(opened.__aexit__(None, None, None))
