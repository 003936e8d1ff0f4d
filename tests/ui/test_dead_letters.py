"""Dead letters in a browser: find the cause, repair the input, retry at a pace, discard."""

from __future__ import annotations

from playwright.async_api import Page, expect

from ..api.conftest import Serve, Site
from . import handlers

CHARGE = {
    "name": "charge",
    "dlq_policy": "all",
    "nodes": [
        {
            "id": "pay",
            "handler": "divide",
            "config": {"amount": "{{ input.amount }}", "by": "{{ input.by }}"},
            "retry": {"max_attempts": 1},
        }
    ],
}
BROKEN = {
    "name": "broken",
    "dlq_policy": "all",
    "nodes": [{"id": "go", "handler": "fail", "retry": {"max_attempts": 1}}],
}


async def fill(site: Site) -> list[str]:
    """Three runs that fail for one cause, and two for another."""
    runs = [await site.start(CHARGE, {"amount": 7, "by": 0}) for _ in range(3)]
    others = [await site.start(BROKEN) for _ in range(2)]
    for run in (*runs, *others):
        await site.app.runs.wait_ended(run, timeout=60)
    return runs


async def test_dead_letters_are_grouped_repaired_retried_and_discarded(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        runs = await fill(site)
        await page.goto(f"{site.url}/ui/dlq")
        rows = page.get_by_role("table", name="Causes").locator("tbody tr")
        await expect(rows).to_have_count(2)
        await expect(rows.first).to_contain_text("division by zero")
        await expect(rows.first.get_by_role("img", name="3 over time")).to_be_visible()

        # The keyboard opens the largest group: its cause, and one click to a run.
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")
        panel = page.locator(".letter-panel")
        await expect(panel.locator(".fault-frames")).to_contain_text("return amount / by")
        example = panel.get_by_role("link", name="Example run")
        assert await example.get_attribute("href") in [f"/ui/runs/{r}?node=pay" for r in runs]

        # Another input for one of them.
        await panel.locator(".letters button").first.click()
        await panel.get_by_role("button", name="Edit the input").click()
        editor = panel.get_by_label("Config", exact=True)
        await editor.fill('{"amount": 7,\n "by": }')
        await expect(panel.locator(".editor-problem")).to_contain_text("Line 2")
        await expect(panel.get_by_role("button", name="Save and retry")).to_be_disabled()
        await editor.fill('{"amount": 7, "by": 2}')
        await panel.get_by_label("Why").fill("the divisor was missing")
        await panel.get_by_role("button", name="Save and retry").click()
        await expect(panel.locator(".status")).to_have_text("Retried")
        await site.app.runs.wait_ended(runs[0], timeout=60)
        repaired = await site.get(f"/runs/{runs[0]}")

        # The rest of the group, at a pace: they fail again, and come back.
        await panel.get_by_role("button", name="Back to the cause").click()
        await panel.get_by_role("button", name="Retry all 2").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_text("100 a second").click()
        await dialog.get_by_role("button", name="Retry", exact=True).click()
        await expect(page.get_by_text("Retried 2 of 2")).to_be_visible()
        charged = rows.filter(has_text="division by zero").locator(".letter-count")
        await expect(charged).to_have_text("2")

        # Those of the other cause are of no further interest.
        await rows.filter(has_text="broken for good").click()
        await expect(panel).to_contain_text("broken for good")
        await panel.get_by_role("button", name="Discard all").click()
        await dialog.get_by_label("Why").fill("only a test")
        await dialog.get_by_role("button", name="Discard", exact=True).click()
        await expect(rows).to_have_count(1)
        await page.get_by_role("button", name="Discarded").click()
        await rows.first.click()
        await expect(panel.get_by_text("only a test").first).to_be_visible()

    assert (repaired["status"], repaired["output"]) == ("COMPLETED", {"pay": 3.5})


async def test_retries_that_somebody_else_has_begun_are_followed_and_stopped(
    serve: Serve, page: Page
) -> None:
    async with serve("memory://", handlers) as site:
        runs = await fill(site)
        body = {"ids": [f"{run}.1" for run in runs], "per_second": 0.011}
        await site.post("/dlq/redrives", body, 201)
        await page.goto(f"{site.url}/ui/dlq")
        progress = page.locator(".retrying")
        await expect(progress).to_contain_text("Retrying 1 of 3")

        await progress.get_by_role("button", name="Stop").click()

        await expect(progress).to_contain_text("Stopped after 1 of 3")
        (found,) = (await site.get("/dlq/redrives"))["items"]
        assert (found["state"], found["retried"]) == ("stopped", 1)


async def test_a_store_without_dead_letters_says_so(serve: Serve, page: Page) -> None:
    async with serve() as site:
        await page.goto(f"{site.url}/ui/dlq")
        await expect(page.get_by_text("No dead letters")).to_be_visible()
