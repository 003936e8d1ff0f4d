"""Workers and queues in a browser: who serves what, what is held, and ending a worker."""

from __future__ import annotations

import asyncio

from playwright.async_api import Page, expect

from ..api.conftest import Serve
from . import handlers

UNSERVED = {
    "name": "film",
    "nodes": [
        {
            "id": "render",
            "handler": "say",
            "config": {"value": 1},
            "placement_constraints": {"requires_capabilities": {"gpu": 1}},
        }
    ],
}
HELD = {"name": "held", "nodes": [{"id": "gate", "handler": "wait_at", "config": {"gate": "w"}}]}


async def test_queues_leases_and_workers_are_shown_and_a_worker_is_drained(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers, name="smith") as site:
        await site.start(UNSERVED)
        run = await site.start(HELD)
        await page.goto(f"{site.url}/ui/workers")
        await expect(page.get_by_role("alert")).to_contain_text("smith lacks gpu ≥ 1")
        queues = page.get_by_role("table", name="Queues")
        await expect(queues.locator("tr", has_text="film · render")).to_contain_text("Nobody")
        await expect(queues.locator("tr", has_text="task:wait_at")).to_contain_text("smith")

        await page.get_by_role("button", name="In progress").click()
        lease = page.get_by_role("table", name="In progress").locator("tbody tr")
        link = lease.get_by_role("link")
        await expect(link).to_have_attribute("href", f"/ui/runs/{run}?node=gate")
        await expect(lease.locator(".countdown")).to_be_visible()

        await page.get_by_role("button", name="Queues and workers").click()
        await page.get_by_role("table", name="Workers").get_by_text("smith").click()
        panel = page.locator(".worker-panel")
        await expect(panel.get_by_role("link", name="held · gate")).to_be_visible()
        assert "worker=" in page.url
        await panel.get_by_role("button", name="Drain…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("It finishes what it holds: 1 node instance")
        await expect(dialog).to_contain_text("Nobody else serves task:wait_at")
        await dialog.get_by_role("button", name="Drain", exact=True).click()
        await expect(panel.locator(".status")).to_have_text("Draining")
        handlers.GATES.setdefault("w", asyncio.Event()).set()
