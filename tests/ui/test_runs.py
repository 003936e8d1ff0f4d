"""The list of runs: searched on the server, shown over time, changed many at a time."""

from __future__ import annotations

from playwright.async_api import Page, expect

from ..api.conftest import Serve
from . import handlers

SHORT = {"name": "short", "nodes": [{"id": "only", "type": "noop"}]}
WAITING = {
    "name": "waiting",
    "nodes": [{"id": "wait", "type": "wait", "config": {"signal": "go"}}],
}


async def test_runs_are_searched_zoomed_and_changed_together(
    serve: Serve, rough_page: Page, store_url: str
) -> None:
    page = rough_page
    async with serve(store_url, handlers) as site:
        for number in range(180):
            await site.app.runs.start(SHORT, {"customer": f"acme-{number}"})
        waiting = [await site.start(WAITING, {"number": number}) for number in range(3)]
        await page.goto(f"{site.url}/ui/runs")
        rows = page.locator("tr[data-key]")
        await expect(page.get_by_role("status").filter(has_text="100+ runs")).to_be_visible()
        await expect(page.locator(".strip-counts")).to_contain_text("3 running")

        # Only rows in sight are drawn.
        await page.get_by_role("button", name="Older runs").click()
        await expect(page.get_by_role("status").filter(has_text="183 runs")).to_be_visible()
        assert await rows.count() < 120
        await page.keyboard.press("j")
        await expect(rows.first).to_have_attribute("aria-selected", "true")

        # The server searches, and says what it does not understand.
        await page.keyboard.press("/")
        await page.keyboard.type("input:acme-17 status:completed")
        await expect(rows).to_have_count(11)
        search = page.get_by_label("Filter", exact=True)
        await search.fill("status:odd")
        await expect(page.get_by_role("alert")).to_contain_text("odd")
        await search.fill("workflow:waiting")
        await expect(rows).to_have_count(3)

        # A filter is saved, and offered again.
        await page.get_by_role("button", name="Save").click()
        await page.get_by_label("Name", exact=True).fill("waiting ones")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="waiting ones")).to_be_visible()

        # Two are marked with the keyboard and cancelled; what would happen is said first.
        await search.blur()
        await page.keyboard.press("j")
        await page.keyboard.press("x")
        await page.keyboard.press("j")
        await page.keyboard.press("Shift+X")
        await expect(page.get_by_text("2 marked")).to_be_visible()
        await page.get_by_role("button", name="Cancel…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("status")).to_contain_text("2 would change")
        await dialog.get_by_label("Why").fill("not needed")
        await dialog.get_by_role("button", name="Cancel 2").click()
        await expect(dialog).to_contain_text("2 of 2 changed")
        await dialog.get_by_role("button", name="Close").last.click()
        await expect(rows.locator(".status", has_text="Cancelled")).to_have_count(2)
        shown = [(await site.get(f"/runs/{run}"))["status"] for run in waiting]
        assert sorted(shown) == ["CANCELLED", "CANCELLED", "RUNNING"]

        # All that fit: those that cannot change are said so.
        await page.get_by_role("button", name="Pause…").click()
        await expect(dialog.get_by_role("status")).to_contain_text("1 would change, 2 would not")
        await dialog.get_by_role("button", name="Leave it").click()

        # A part of the time counts, also for a change of all that fit.
        await page.get_by_role("button", name="1h", exact=True).click()
        await page.get_by_role("button", name="Resume…").click()
        await expect(dialog).to_contain_text("workflow:waiting since:1h")
        await expect(dialog.get_by_role("status")).to_contain_text("0 would change, 3 would not")
        await dialog.get_by_role("button", name="Leave it").click()
        await page.get_by_role("button", name="1d", exact=True).click()

        # A part of the strip: the list shows only runs of that time.
        await search.fill("")
        bars = page.locator(".strip-bars")
        await expect(page.locator(".strip-bar").first).to_be_visible()
        box = await bars.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 10)
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 10, steps=4)
        await page.mouse.up()
        await expect(page.get_by_text("No run fits this filter")).to_be_visible()
        assert "since=" in page.url
        assert "until=" in page.url
        await page.get_by_role("button", name="Zoom out").click()
        await expect(page.get_by_role("status").filter(has_text="100+ runs")).to_be_visible()
