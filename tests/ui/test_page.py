"""The page in a browser: what people see first, and that it stays true."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from minuet.api.access import Access
from minuet.api.application import Api
from minuet.api.serving import bind, serving
from minuet.app.app import App

from ..api.conftest import Serve
from ..waiting import until
from . import handlers

GATED = {
    "name": "gated",
    "nodes": [
        {"id": "first", "handler": "say", "config": {"value": 1}},
        {"id": "gate", "handler": "wait_at", "config": {"gate": "{{ input }}"}},
        {"id": "last", "handler": "say", "config": {"value": 2}, "dependencies": ["first", "gate"]},
    ],
}


def open_gate(name: str) -> None:
    handlers.GATES.setdefault(name, asyncio.Event()).set()


#: Notice whether the page ever says that its connection is lost.
WATCH = """() => {
    window.wasLost = false;
    const look = () => (window.wasLost ||= document.body.innerText.includes("Connection lost"));
    new MutationObserver(look).observe(document.body, {subtree: true, childList: true});
}"""
#: As if another tab was looked at.
HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_a_run_appears_in_the_list_and_changes(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        await page.goto(f"{site.url}/")
        await expect(page.get_by_text("No runs yet")).to_be_visible()
        assert page.url == f"{site.url}/ui/runs"

        run = await site.start(GATED, "list")
        row = page.locator(f'tr[data-key="{run}"]')
        await expect(row.locator(".status")).to_have_text("Running")
        open_gate("list")
        await expect(row.locator(".status")).to_have_text("Completed")

        await page.keyboard.press("/")
        await page.keyboard.type("status:failed")
        await expect(page.get_by_text("No run fits this filter")).to_be_visible()
        assert "q=status:failed" in page.url
        await page.keyboard.press("Escape")
        await page.keyboard.press("Escape")
        await expect(row).to_be_visible()
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        await expect(page.locator('[data-node="gate"]')).to_be_visible()
        assert page.url == f"{site.url}/ui/runs/{run}"


async def test_a_run_shows_its_whole_graph_and_follows_it(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        run = await site.start(GATED, "graph")
        await page.goto(f"{site.url}/ui/runs/{run}")
        nodes = {name: page.locator(f'[data-node="{name}"]') for name in ("first", "gate", "last")}
        await expect(nodes["first"]).to_have_attribute("data-status", "completed")
        await expect(nodes["gate"]).to_have_attribute("data-status", "running")
        await expect(nodes["last"]).to_have_attribute("data-status", "pending")
        await expect(nodes["last"]).to_contain_text("1 of 2 arrived")
        open_gate("graph")
        await expect(nodes["last"]).to_have_attribute("data-status", "completed")
        await expect(page.locator(".page-head .status")).to_have_text("Completed")

        await nodes["last"].click()
        await expect(page.locator(".split-side")).to_contain_text("Output")
        assert "node=last" in page.url
        await page.goto(f"{site.url}/ui/runs/{run}?at=2")
        await expect(nodes["last"]).to_have_attribute("data-status", "pending")
        await expect(page.get_by_text("as it was after event 2")).to_be_visible()


async def test_a_path_that_leads_nowhere_helps_on(serve: Serve, page: Page) -> None:
    async with serve() as site:
        await page.goto(f"{site.url}/ui/nowhere")
        await expect(page.get_by_text("There is no such page")).to_be_visible()
        await page.get_by_role("link", name="All runs").click()
        await expect(page.get_by_text("No runs yet")).to_be_visible()


async def test_a_server_that_comes_back_is_caught_up_with(rough_page: Page, store_url: str) -> None:
    page, store = rough_page, store_url
    async with serve_at(0, store) as port:
        await page.goto(f"http://127.0.0.1:{port}/ui/runs")
        await expect(page.get_by_text("No runs yet")).to_be_visible()
    await expect(page.get_by_text("Connection lost")).to_be_visible()
    async with App(store, handlers=[handlers]) as app:
        open_gate("away")
        run = str(await app.runs.start(GATED, "away"))
        await app.runs.wait_ended(run, timeout=60)
    async with serve_at(port, store):
        await expect(page.get_by_text("caught up")).to_be_visible()
        await expect(page.locator(f'tr[data-key="{run}"] .status')).to_have_text("Completed")


async def test_a_run_is_caught_up_with_after_a_restart_and_a_sleep(
    rough_page: Page, store_url: str
) -> None:
    page, store = rough_page, store_url
    async with App(store, handlers=[handlers], drain_seconds=0) as app:
        run = str(await app.runs.start(GATED, "restart"))
    async with serve_at(0, store) as port:
        await page.goto(f"http://127.0.0.1:{port}/ui/runs/{run}?tab=history")
        await expect(page.locator(".page-head .status")).to_have_text("Running")
    await expect(page.get_by_text("Connection lost")).to_be_visible()
    # The run goes on while the server is away, up to its last node.
    # Its worker does not wait for the gate when it ends.
    async with App(store, handlers=[handlers], drain_seconds=0) as app:
        await until_first(app, run)
        ahead = (await app.runs.show(run)).seq
    async with serve_at(port, store):
        await expect(page.get_by_text("caught up")).to_be_visible()
        count = page.get_by_role("tab", name="History").locator(".nav-count")
        await expect(count).to_have_text(str(ahead))
        # Asleep, as a closed laptop: the tab runs nothing while the run ends.
        tab = await page.context.new_cdp_session(page)
        await tab.send("Page.setWebLifecycleState", {"state": "frozen"})
        open_gate("restart")
        async with App(store, handlers=[handlers]) as app:
            await app.runs.wait_ended(run, timeout=60)
            events = (await app.runs.show(run)).seq
        await tab.send("Page.setWebLifecycleState", {"state": "active"})
        await expect(page.locator(".page-head .status")).to_have_text("Completed")
        await expect(count).to_have_text(str(events))
    assert events > ahead


async def until_first(app: App, run: str) -> None:
    """Wait until the first node is done."""

    async def is_done() -> bool:
        return (await app.runs.show(run)).nodes["first"].status == "COMPLETED"

    await until(app.store, is_done)


@contextlib.asynccontextmanager
async def serve_at(port: int, store: str) -> AsyncIterator[int]:
    with bind("127.0.0.1", port) as sock:
        # It may have taken the node that waits at the gate.
        async with App(store, drain_seconds=0) as app, serving(Api(app), sock):
            yield sock.getsockname()[1]


async def test_the_end_of_a_run_is_no_lost_connection(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        run = await site.start(GATED, "quiet")
        await page.goto(f"{site.url}/ui/runs/{run}")
        await expect(page.locator('[data-node="gate"]')).to_have_attribute("data-status", "running")
        await page.evaluate(WATCH)
        async with page.expect_response(lambda one: "/events" in one.url and one.status == 204):
            open_gate("quiet")
        await expect(page.locator(".page-head .status")).to_have_text("Completed")
        assert not await page.evaluate("window.wasLost")


async def test_a_hidden_tab_leaves_its_connection_to_others(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        run = await site.start(GATED, "hidden")
        await page.goto(f"{site.url}/ui/runs/{run}")
        await expect(page.locator('[data-node="gate"]')).to_have_attribute("data-status", "running")
        await page.evaluate(WATCH)
        await page.evaluate(HIDE, True)
        open_gate("hidden")
        await site.app.runs.wait_ended(run, timeout=60)
        await expect(page.locator(".page-head .status")).to_have_text("Running")
        await page.evaluate(HIDE, False)
        await expect(page.locator(".page-head .status")).to_have_text("Completed")
        assert not await page.evaluate("window.wasLost")


async def test_the_key_is_asked_for(serve: Serve, rough_page: Page) -> None:
    page = rough_page
    async with serve(access=Access(key="secret-of-the-operator", is_required=True)) as site:
        await page.goto(f"{site.url}/ui/runs")
        await expect(page.get_by_text("This server asks for an API key")).to_be_visible()
        await page.get_by_label("API key", exact=True).last.fill("secret-of-the-operator")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("No runs yet")).to_be_visible()


async def test_nothing_inline_is_run(serve: Serve, rough_page: Page) -> None:
    page = rough_page
    async with serve() as site:
        await page.goto(f"{site.url}/ui/runs")
        await page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.ran = true";
                document.body.append(script);
                const image = '<img src=x onerror="window.ran = true">';
                document.body.insertAdjacentHTML("beforeend", image);
            }"""
        )
        await expect(page.get_by_text("No runs yet")).to_be_visible()
        assert await page.evaluate("window.ran === undefined")


@pytest.mark.usefixtures("built")
async def test_files_are_kept_and_the_page_is_not(serve: Serve) -> None:
    closed = Access(key="secret-of-the-operator", is_required=True)
    async with serve(access=closed) as site:
        client = site.client
        index = await client.get("/ui/runs/some-run", headers={"Accept-Encoding": "gzip"})
        brief = await client.head("/ui/", headers={"Accept-Encoding": "gzip, br"})
        script = index.text.split('src="/ui/assets/')[1].split('"')[0]
        plain = await client.get(f"/ui/assets/{script}", headers={"Accept-Encoding": ""})
        small = await client.get(f"/ui/assets/{script}", headers={"Accept-Encoding": "gzip"})
        gone = await client.get("/ui/assets/gone.js")
        outside = await client.get("/ui/..%2f__init__.py")
        root = await client.get("/")
        refused = await client.get("/api/v1/runs")

    assert index.headers["cache-control"] == "no-cache"
    assert "script-src 'self';" in index.headers["content-security-policy"]
    assert brief.headers["content-encoding"] == "br"
    assert "immutable" in plain.headers["cache-control"]
    assert plain.text == small.text
    assert small.headers["content-encoding"] == "gzip"
    assert gone.status_code == 404
    assert outside.text == index.text
    assert (root.status_code, root.headers["location"]) == (307, "/ui/")
    assert refused.status_code == 401


async def test_without_a_page_the_server_says_how_to_build_it(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minuet.api.page.FOLDER", tmp_path)
    async with serve() as site:
        answer = await site.client.get("/ui/")

    assert answer.status_code == 503
    assert "make page" in answer.text
