"""The state of the whole store on one page, in a browser."""

from __future__ import annotations

import re

from playwright.async_api import Page, expect

from ..api.conftest import Serve
from ..waiting import until_waiting
from . import handlers
from .test_approvals import asking
from .test_dead_letters import BROKEN
from .test_workers import UNSERVED

GOOD = {"name": "good", "nodes": [{"id": "a", "handler": "say", "config": {"value": 1}}]}


async def test_the_overview_shows_the_store_and_examines_it(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers, stall_seconds=0.001) as site:
        for document in (GOOD, GOOD, BROKEN):
            run = await site.start(document)
            await site.app.runs.wait_ended(run, timeout=60)
        stalled = await site.start(UNSERVED)
        await site.start(asking(), {"amount": 7})
        await until_waiting(site.app.store, "approval")
        await page.goto(f"{site.url}/ui/overview")
        figures = page.locator(".overview-numbers")
        for name, value in (
            ("Open runs", "2"),
            ("Completed", "2"),
            ("Failed", "1"),
            ("For you to decide", "1"),
            ("Dead letters", "1"),
        ):
            figure = figures.locator("a", has_text=name).locator("b").first
            await expect(figure).to_have_text(value)
        stalls = page.get_by_role("region", name="Stalled runs")
        await expect(stalls).to_contain_text("no worker takes 'render'")
        await expect(stalls.locator("li a")).to_have_attribute("href", f"/ui/runs/{stalled}")
        await expect(page.get_by_role("region", name="Queues")).to_contain_text("lacks gpu ≥ 1")
        strip = page.get_by_role("region", name="Runs of the last day")
        await expect(strip).to_contain_text("failed 1")

        health = page.get_by_role("region", name="Health")
        await expect(health).to_contain_text(re.compile("SQLite|PostgreSQL"))
        await health.get_by_role("button", name="Examine the store").click()
        await expect(health.get_by_role("status")).to_contain_text("Sound: 5 runs examined")

        await page.set_viewport_size({"width": 390, "height": 844})
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        letters = page.get_by_role("region", name="Dead letters")
        await letters.get_by_role("link", name="broken for good").click()
        await expect(page.locator(".letter-panel")).to_contain_text("broken for good")
