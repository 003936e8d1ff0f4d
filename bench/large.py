"""How much memory a large value takes on its way from one node to the next.

    python -m bench.large [--mb 16] [--store sqlite,postgres,redis,logged] [--kind text,list,blob]
                          [--blobs]

Each case is a process of its own: a node returns a value, the next one measures it. Kind `blob` is
a file that goes through `ctx.blob` and `ctx.open`; `--blobs` keeps contents in a folder, as
MINUET_BLOBS does. Printed is the most memory that the process had above what it had before the
run, in MB and in sizes of the value, and how long the run took.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.places import call, open_place

MB = 1 << 20

VALUES = {
    # One text; and many small values, which take far more memory as Python objects.
    "text": lambda size: "x" * (size - 2),
    "list": lambda size: ["0123456789abcdef"] * (size // 19),
}


class Peak:
    """The most memory that this process has had since it was made, in MB."""

    def __init__(self) -> None:
        self._start = self._most = self._now()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @staticmethod
    def _now() -> float:
        # Its own memory: pages of files that are mapped can be dropped at any time.
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            self._most = max(self._most, self._now())

    def stop(self) -> float:
        self._done.set()
        self._thread.join()
        return self._most - self._start


async def one(url: str, size: int, kind: str, blobs: str | None) -> dict[str, Any]:
    import minuet

    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "content"
    if kind == "blob":
        with path.open("wb") as file:
            for _ in range(size // MB):
                file.write(os.urandom(MB))

    @minuet.task
    async def make(ctx: minuet.Context) -> Any:
        return await ctx.blob(path) if kind == "blob" else VALUES[kind](size)

    @minuet.task
    async def measure(ctx: minuet.Context) -> int:
        if kind != "blob":
            return len(ctx.inputs["make"])
        total = 0
        async for piece in ctx.open(ctx.inputs["make"]):
            total += len(piece)
        return total

    limit = {"max_output_bytes": min(size, 64 * MB)}
    document = {
        "name": "large",
        "nodes": [
            {"id": "make", "handler": "make", "limits": limit},
            {"id": "measure", "handler": "measure", "dependencies": ["make"]},
        ],
    }
    async with minuet.App(store=url, blobs=blobs) as app:
        small = {**document, "nodes": [{"id": "warm", "type": "noop"}]}
        await app.run(small)
        peak, began = Peak(), time.monotonic()
        handle = await app.start(document)
        run = await app.runs.wait_ended(handle.id)
        most, seconds = peak.stop(), time.monotonic() - began
        assert run.status == "COMPLETED", run.error
    folder.cleanup()
    return {"mb": round(most), "sizes": round(most / (size / MB), 1), "s": round(seconds, 1)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=float, default=16)
    parser.add_argument("--store", default="sqlite,postgres,redis,logged")
    parser.add_argument("--kind", default="text,list")
    parser.add_argument("--blobs", nargs="?", const="folder")
    parser.add_argument("--url")
    asked = parser.parse_args()
    # A little less, for the quotes and commas of JSON.
    size = int(asked.mb * MB) - (64 if asked.kind != "blob" else 0)
    if asked.url:
        print(json.dumps(asyncio.run(one(asked.url, size, asked.kind, asked.blobs))))
        return
    for store in asked.store.split(","):
        with open_place(store) as place:
            for kind in asked.kind.split(","):
                arguments = ("--url", place.url(), "--mb", str(asked.mb), "--kind", kind)
                if asked.blobs:
                    arguments = (*arguments, "--blobs", f"file://{place.folder}/blobs-{kind}")
                (line,) = call("-m", "bench.large", *arguments)
                print(f"{store:9} {kind:5} {asked.mb:g} MB: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
