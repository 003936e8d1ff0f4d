"""One measurement in a process of its own: `python -m bench.case NAME [OPTIONS]`.

Prints one JSON object. The parent (`bench.main`) runs each case several times, beside the
floor, and prints ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import minuet
from minuet.app.compiling import compile_source
from minuet.worker.process import tune_process


@minuet.task
async def step(ctx: minuet.Context) -> dict[str, int]:
    """What every measured node does: next to nothing, but as a real handler."""
    return {"i": 1}


@minuet.workflow(name="function")
async def function(ctx: minuet.Flow, length: int, together: bool = False) -> int:
    """A durable function whose steps come one after the other; or one, then the others at once,
    then one."""
    if together:
        await step()  # type: ignore[call-arg]
        await asyncio.gather(*(step() for _ in range(length)))  # type: ignore[call-arg]
        await step()  # type: ignore[call-arg]
        return length
    for _ in range(length):
        await step()  # type: ignore[call-arg]
    return length


def steps(length: int, *, together: bool = False) -> dict[str, Any]:
    """A workflow that runs the function."""
    document = function.to_dict()
    document["nodes"][0]["config"] = {"length": length, "together": together}
    return document | {"input": {}}


def chain(length: int, node: dict[str, Any]) -> dict[str, Any]:
    """A workflow of nodes one after the other."""
    nodes = [
        {"id": f"n{i}", **node, "dependencies": [f"n{i - 1}"] if i else []} for i in range(length)
    ]
    return {"name": "chain", "nodes": nodes}


def fan(width: int, node: dict[str, Any]) -> dict[str, Any]:
    """One node, then many, then one."""
    middle = [f"m{i}" for i in range(width)]
    nodes = [{"id": "first", **node}]
    nodes += [{"id": name, **node, "dependencies": ["first"]} for name in middle]
    nodes += [{"id": "last", **node, "dependencies": middle}]
    return {"name": "fan", "nodes": nodes}


def dag(path: Path, node: dict[str, Any]) -> dict[str, Any]:
    """A workflow in the shape of a real one; dots in its names become dashes."""
    tasks = json.loads(path.read_text().replace(".", "-"))["tasks"]
    nodes = [{"id": name, **node, "dependencies": parents} for name, parents in tasks.items()]
    return {"name": path.stem[:60], "nodes": nodes}


NODES = {
    "task": {"type": "task", "handler": "step"},
    "noop": {"type": "noop"},
}


async def run_many(store: str, document: dict[str, Any], runs: int, concurrency: int) -> float:
    """Seconds from the first start to the last end, in a process that has just opened the store."""
    compiled = compile_source(document)
    async with minuet.App(store, concurrency=concurrency) as app:
        return await run_all(app, compiled, runs)


async def run_all(app: minuet.App, compiled: Any, runs: int) -> float:
    """Seconds from the first start to the last end."""
    started = time.perf_counter()
    last = ""
    for first in range(0, runs, 100):
        last = (await app.start_many(compiled, [None] * min(100, runs - first)))[-1]
    # Asking for every run, or after every commit, would measure the asking.
    while await app.runs.list(statuses=("RUNNING",), limit=1):
        await asyncio.sleep(0.01)
    took = time.perf_counter() - started
    assert (await app.wait(last)).status == "COMPLETED"
    return took


async def serve(store: str, concurrency: int) -> float:
    """Work beside the process that measures, until it closes our input."""
    async with minuet.App(store, concurrency=concurrency):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    return 0.0


@contextmanager
def helpers(options: argparse.Namespace, store: str) -> Iterator[None]:
    """The other worker processes of this measurement."""
    command = [sys.executable, "-m", "bench.case", "serve", "--store", store]
    command += ["--loop", options.loop, "--concurrency", str(options.concurrency)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(options.processes - 1)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
        yield
    finally:
        for child in children:
            child.communicate()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run the case and say what it took."""
    node = NODES[options.node]
    if options.case == "chain":
        document, runs = chain(options.length, node), options.runs
    elif options.case == "function":
        document, runs = steps(options.length), options.runs
    elif options.case == "fan":
        document, runs = fan(options.length, node), options.runs
    else:
        document, runs = dag(Path(options.dag), node), options.runs
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or f"sqlite:///{folder}/bench.db"
        began = time.perf_counter()
        compile_source(document)
        compile_s = time.perf_counter() - began
        if options.processes > 1:
            # The first process makes the tables.
            run_loop(run_many(store, document, 1, options.concurrency), options.loop)
        with helpers(options, store):
            work = run_many(store, document, runs, options.concurrency)
            took = run_loop(work, options.loop)
    # Of a function, its steps count.
    count = runs * (options.length if options.case == "function" else len(document["nodes"]))
    return {
        "case": options.case,
        "node": options.node,
        "runs": runs,
        "nodes": count,
        "nodes_per_s": round(count / took, 1),
        "ms_per_hop": round(took * 1000 / count, 4),
        "seconds": round(took, 3),
        "compile_s": round(compile_s, 3),
        "memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }


def run_loop(work: Any, loop: str) -> float:
    """Run a coroutine on the loop asked for, in a process set up as `minuet run` sets it up."""
    tune_process()
    if loop == "uvloop":
        import uvloop

        return float(uvloop.run(work))
    return float(asyncio.run(work))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", choices=["chain", "fan", "dag", "function", "serve"])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--length", type=int, default=10)
    parser.add_argument("--node", choices=sorted(NODES), default="task")
    parser.add_argument("--dag")
    parser.add_argument("--store", help="where to run; without it, a new SQLite file")
    parser.add_argument("--processes", type=int, default=1, help="worker processes")
    parser.add_argument("--concurrency", type=int, default=500)
    parser.add_argument("--loop", choices=["asyncio", "uvloop"], default="uvloop")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    if options.case == "serve":
        run_loop(serve(options.store, options.concurrency), options.loop)
        return
    if options.profile:
        import cProfile
        import pstats

        profile = cProfile.Profile()
        profile.enable()
        result = measure(options)
        profile.disable()
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(45)
    else:
        result = measure(options)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
