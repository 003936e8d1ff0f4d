"""Pictures of the web page: `python -m tools.screenshots` for the documentation.

Starts a real server with two workers on a temporary SQLite file, starts the runs of
tools/lively.py, opens the page in Chromium and writes what it shows, in both themes. Run by hand
after a change of the page. Look at every picture before you commit it. `--look` writes PNG files to
build/pictures instead.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from playwright.async_api import Browser, Page, async_playwright
from tools import lively
from tools.page import build_page

from minuet.api.application import Api
from minuet.api.serving import bind, serving
from minuet.app.app import App

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "images" / "page"
LOOK = ROOT / "build" / "pictures"
DESK, PHONE = (1440, 900), (390, 844)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--force-color-profile=srgb"]

#: Chromium writes WebP itself; a page of text has no visible loss at this quality.
QUALITY = 0.88
TO_WEBP = """async ([source, quality]) => {
    const image = new Image();
    image.src = "data:image/png;base64," + source;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = image.width;
    canvas.height = image.height;
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas.toDataURL("image/webp", quality).split(",")[1];
}"""


class Shot(NamedTuple):
    """A picture: its name, its address below /ui, and what the page shows when it is ready."""

    name: str
    path: str
    ready: str
    #: What is clicked before the picture is taken.
    clicks: tuple[str, ...] = ()
    size: tuple[int, int] = DESK


def shots(runs: dict[str, str]) -> list[Shot]:
    done, asks = f"/runs/{runs['done']}", f"/runs/{runs['asks']}"
    approval = f"/approvals/{runs['asks']}:ask"
    row = "tbody tr[data-key]"
    return [
        Shot("overview", "/overview", ".page-head"),
        Shot("runs", "/runs", row),
        Shot("run", f"{asks}?node=ask", '[data-node="report"]'),
        Shot(
            "run-inside",
            f"/runs/{runs['month']}?open=customers",
            ".inside-item",
            clicks=('[aria-label="The child run of [1]"]',),
        ),
        Shot("run-timeline", f"{done}?tab=timeline&node=book", ".page-head"),
        Shot("run-past", f"{done}?at=9", '[data-node="report"]'),
        Shot("run-history", f"{done}?tab=history", ".event-row"),
        Shot("approvals", f"/approvals?id={runs['asks']}:ask", "text=Cost centre"),
        Shot("approval-phone", approval, "text=Cost centre", size=PHONE),
        Shot("dead-letters", "/dlq", row, clicks=(row,)),
        Shot("workers", "/workers", '[role="alert"]'),
        Shot("workflows", "/workflows", "text=settlement"),
        Shot("workflow", "/workflows/invoices?node=sum", '[data-node="report"]'),
        Shot("editor", "/editor?workflow=invoices", "textarea"),
    ]


async def take(browser: Browser, url: str, shot: Shot, theme: str) -> bytes:
    width, height = shot.size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )
    await context.add_init_script(
        """localStorage.setItem("minuet.me", '{"name": "ada", "groups": ["finance"]}')"""
    )
    page = await context.new_page()
    await page.goto(f"{url}/ui{shot.path}")
    await page.locator(shot.ready).first.wait_for()
    for click in shot.clicks:
        await page.locator(click).first.click()
    await page.mouse.move(0, 0)
    await page.evaluate("document.fonts.ready")
    await settled(page)
    picture = await page.screenshot()
    await context.close()
    return picture


async def settled(page: Page) -> None:
    """Until the page has looked the same for a second; ten seconds at most, as clocks tick."""
    last = b""
    for _ in range(10):
        await asyncio.sleep(1)
        now = await page.screenshot()
        if now == last:
            return
        last = now


async def take_all(url: str, runs: dict[str, str], look: bool) -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    folder = LOOK if look else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        blank = await browser.new_page()
        for shot in shots(runs):
            for theme in ("light", "dark"):
                picture = await take(browser, url, shot, theme)
                if not look:
                    source = base64.b64encode(picture).decode()
                    picture = base64.b64decode(await blank.evaluate(TO_WEBP, [source, QUALITY]))
                name = shot.name if theme == "light" else f"{shot.name}-{theme}"
                path = folder / f"{name}.{'png' if look else 'webp'}"
                path.write_bytes(picture)
                print(f"{path.relative_to(ROOT)}: {len(picture) // 1000} kB")
        await browser.close()


async def main(look: bool) -> None:
    build_page(ROOT)
    modules: list[str | ModuleType] = [lively, str(ROOT / "examples" / "order" / "order.py")]
    with tempfile.TemporaryDirectory() as place, bind("127.0.0.1", 0) as sock:
        store = f"sqlite:///{place}/minuet.db"
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with (
            App(store, handlers=modules, name="north-1", drain_seconds=0) as app,
            App(store, handlers=modules, name="south-1", drain_seconds=0),
            serving(Api(app), sock),
        ):
            await take_all(url, await lively.start_runs(app), look)


if __name__ == "__main__":
    asyncio.run(main("--look" in sys.argv[1:]))
