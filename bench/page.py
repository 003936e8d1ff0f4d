"""How the web page holds out with large runs and a busy list, measured in a browser.

    python -m bench.page [--nodes 5000] [--items 10000] [--changes 2000] [--seconds 5]
                         [--store FILE]

It makes a run of many nodes and a foreach of many items on SQLite, serves the page, and prints for
each view after how many milliseconds it can be used and has everything, how many frames a second
the slider moves the whole page (and the longest frame), the CPU time of the page's main thread for
loading and for each frame, and the memory that its objects take. For the list, a synthetic feed
changes runs; printed are the frames meanwhile. With `--store`, the runs are kept in a file and used
again.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, CDPSession, Page, async_playwright

from minuet.api.application import Api
from minuet.api.serving import bind, serving
from minuet.app.app import App

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
LAYER = 50
PATIENCE_MS = 120_000

#: When the slider is there, and when all of the history is.
WATCH = """
new MutationObserver(() => {
  const slider = document.querySelector(".slider");
  if (!slider) return;
  window.usableAt ??= performance.now();
  if (slider.textContent.includes("loading")) return;
  window.completeAt ??= performance.now();
  document.documentElement.dataset.complete = "";
}).observe(document, {subtree: true, childList: true, characterData: true});
"""

#: Move the slider with every frame, from one end to the other and back.
SLIDE = """
(seconds) => new Promise((resolve) => {
  const slider = document.querySelector(".slider input");
  const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  const last = Number(slider.max), begin = performance.now(), gaps = [];
  let before = begin;
  const step = (now) => {
    gaps.push(now - before);
    before = now;
    const part = ((now - begin) / 1000) % 2;
    set.call(slider, String(Math.max(1, Math.round(last * (part < 1 ? part : 2 - part)))));
    slider.dispatchEvent(new Event("input", {bubbles: true}));
    if (now - begin < seconds * 1000) requestAnimationFrame(step);
    else resolve(gaps.slice(1));
  };
  requestAnimationFrame(step);
})
"""

#: A feed that changes runs of the list, in place of the server's: pieces of it every 100 ms.
FEED = """
(changes) => {
  const fetched = window.fetch;
  const types = ["run.started", "run.paused", "run.resumed", "run.completed"];
  window.changed = 0;
  window.fetch = async (url, init) => {
    if (!String(url).endsWith("/api/v1/events")) return fetched(url, init);
    let number = 1000;
    const encoder = new TextEncoder();
    const body = new ReadableStream({
      start(stream) {
        window.feeding = setInterval(() => {
          const rows = [...document.querySelectorAll("tr[data-key]")].map((row) => row.dataset.key);
          if (!rows.length) return;
          const now = new Date().toISOString();
          let text = "";
          for (let at = 0; at < changes / 10; at++) {
            const run_id = at % 4 ? `other-${number % 5000}` : rows[at % rows.length];
            const type = types[number++ % types.length];
            const event = {run_id, workflow: "w", seq: number, type, at: now, data: {}};
            text += `id: ${number}\\ndata: ${JSON.stringify(event)}\\n\\n`;
            window.changed++;
          }
          stream.enqueue(encoder.encode(text));
        }, 100);
      },
    });
    return new Response(body, {status: 200});
  };
}
"""

FRAMES = """
(seconds) => new Promise((resolve) => {
  const begin = performance.now(), gaps = [];
  let before = begin;
  const step = (now) => {
    gaps.push(now - before);
    before = now;
    if (now - begin < seconds * 1000) requestAnimationFrame(step);
    else resolve(gaps.slice(1));
  };
  requestAnimationFrame(step);
})
"""


def layered(count: int) -> dict[str, Any]:
    """A workflow of this many nodes, in layers in which each node follows two of the one above."""
    nodes: list[dict[str, Any]] = []
    for number in range(count):
        layer, at = divmod(number, LAYER)
        above = [f"n{(layer - 1) * LAYER + other}" for other in {at, (at + 1) % LAYER}]
        more = {"dependencies": sorted(above)} if layer else {}
        nodes.append({"id": f"n{number}", "type": "noop", **more})
    return {"name": "layered", "nodes": nodes}


EACH = {
    "name": "each",
    "nodes": [
        {
            "id": "each",
            "type": "transform",
            "foreach": {"items": "{{ input }}", "max_parallel": 1000},
            "config": {"value": "{{ item }}"},
        },
        {"id": "after", "type": "noop", "dependencies": ["each"]},
    ],
}


async def run_of(app: App, document: dict[str, Any], given: Any) -> str:
    """A run of a document that is over: the one that is there, or a new one."""
    known = await app.runs.list(workflow=document["name"], limit=1)
    run = str(known[0].run) if known else str(await app.runs.start(document, given))
    await app.runs.wait_ended(run, timeout=1800)
    return run


def frames(gaps: list[float]) -> str:
    """Frames a second, the slowest hundredth, and the longest frame."""
    ordered = sorted(gaps)
    slow, rate = ordered[int(len(ordered) * 0.99)], 1000 * len(gaps) / sum(gaps)
    return f"{rate:.1f} frames/s, p99 {slow:.0f} ms, longest {ordered[-1]:.0f} ms"


async def memory(session: CDPSession) -> float:
    """What the page's objects take, in MB."""
    await session.send("HeapProfiler.collectGarbage")
    used: float = (await session.send("Runtime.getHeapUsage"))["usedSize"]
    return used / 1e6


async def cpu(session: CDPSession) -> float:
    """What the main thread has worked, in ms of CPU time: other processes do not count."""
    metrics = (await session.send("Performance.getMetrics"))["metrics"]
    return next(float(one["value"]) * 1000 for one in metrics if one["name"] == "TaskDuration")


async def measure(browser: Browser, url: str, label: str, tab: str, seconds: float) -> None:
    page = await new_page(browser)
    session = await watched(page)
    await page.add_init_script(WATCH)
    await page.goto(f"{url}?tab={tab}")
    await page.wait_for_selector("html[data-complete]", timeout=PATIENCE_MS)
    usable, complete = await page.evaluate("[window.usableAt, window.completeAt]")
    loading, before = await cpu(session), await memory(session)
    begun = await cpu(session)
    gaps = await page.evaluate(SLIDE, seconds)
    each = (await cpu(session) - begun) / len(gaps)
    after = await memory(session)
    print(
        f"{label:<22} {tab:<9} usable {usable:5.0f} ms, complete {complete:5.0f} ms "
        f"({loading:.0f} ms CPU), slider {frames(gaps)} ({each:.1f} ms CPU), "
        f"memory {before:.0f} MB, then {after:.0f} MB",
        flush=True,
    )
    await page.context.close()


async def measure_list(browser: Browser, url: str, changes: int, seconds: float) -> None:
    page = await new_page(browser)
    session = await watched(page)
    await page.add_init_script(f"({FEED})({changes})")
    await page.goto(f"{url}/ui/runs")
    await page.wait_for_selector("tr[data-key]", timeout=PATIENCE_MS)
    before, begun = await memory(session), await cpu(session)
    gaps = await page.evaluate(FRAMES, seconds)
    share = (await cpu(session) - begun) / sum(gaps)
    changed = await page.evaluate("window.changed")
    after = await memory(session)
    print(
        f"{'list':<22} {changed} changes in {seconds:.0f} s: {frames(gaps)} "
        f"({share:.0%} of a CPU), memory {before:.0f} MB, then {after:.0f} MB",
        flush=True,
    )
    await page.context.close()


async def watched(page: Page) -> CDPSession:
    """A session that counts CPU time."""
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


async def new_page(browser: Browser) -> Page:
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    return await context.new_page()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--changes", type=int, default=2000, help="changes of runs in a second")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--store", help="a file for the runs, which is kept")
    arguments = parser.parse_args()
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        parser.error("needs Chromium, which is absent")
    with tempfile.TemporaryDirectory() as folder, bind("127.0.0.1", 0) as sock:
        store = Path(arguments.store or f"{folder}/page.db").absolute()
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with App(f"sqlite:///{store}") as app, serving(Api(app), sock):
            nodes = await run_of(app, layered(arguments.nodes), None)
            items = await run_of(app, EACH, list(range(arguments.items)))
            small = {"name": "small", "nodes": [{"id": "only", "type": "noop"}]}
            while len(await app.runs.list(workflow="small", limit=100)) < 100:
                await app.runs.start(small)
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=program, args=FLAGS)
                for run, label in (
                    (nodes, f"{arguments.nodes} nodes"),
                    (items, f"foreach of {arguments.items}"),
                ):
                    for tab in ("graph", "timeline", "history"):
                        where = f"{url}/ui/runs/{run}"
                        await measure(browser, where, label, tab, arguments.seconds)
                await measure_list(browser, url, arguments.changes, arguments.seconds)
                await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
