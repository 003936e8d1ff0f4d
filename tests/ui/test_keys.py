"""Who has a key: the page, or what has the focus."""

from __future__ import annotations

from playwright.async_api import Page, expect

from ..api.conftest import Serve
from .test_approvals import ask, be
from .test_runs import WAITING


async def test_keys_of_a_list_work_after_a_row_was_marked_with_the_mouse(
    serve: Serve, page: Page
) -> None:
    async with serve() as site:
        for _ in range(3):
            await site.start(WAITING)
        await page.goto(f"{site.url}/ui/runs")
        rows = page.locator("tr[data-key]")
        boxes = rows.get_by_role("checkbox")
        await boxes.first.click()
        await expect(page.get_by_text("1 marked")).to_be_visible()
        await expect(boxes.first).to_be_focused()
        await page.keyboard.press("j")
        await expect(rows.nth(1)).to_have_attribute("aria-selected", "true")
        await page.keyboard.press("x")
        await expect(page.get_by_text("2 marked")).to_be_visible()

        # The box keeps its own key.
        await page.keyboard.press("Space")
        await expect(boxes.first).not_to_be_checked()
        await expect(page.get_by_text("1 marked")).to_be_visible()

        await page.keyboard.press("/")
        await expect(page.get_by_label("Filter", exact=True)).to_be_focused()
        await boxes.nth(2).click()
        await page.keyboard.press("Enter")
        await expect(page.locator('[data-node="wait"]')).to_be_visible()


async def test_arrows_do_only_what_the_thing_with_the_focus_does(serve: Serve, page: Page) -> None:
    async with serve() as site:
        run = await site.start(WAITING)
        await page.goto(f"{site.url}/ui/runs/{run}?node=wait")
        slider = page.get_by_role("slider", name="Event")
        divider = page.get_by_role("separator", name="Width of the panel")
        await expect(page.locator('[data-node="wait"]')).to_have_attribute("data-status", "waiting")
        last = int(await slider.get_attribute("max") or 0)
        await expect(slider).to_have_value(str(last))

        # The panel is wider, and the run is where it was.
        width = int(await divider.get_attribute("aria-valuenow") or 0)
        await divider.press("ArrowLeft")
        await expect(divider).to_have_attribute("aria-valuenow", str(width + 24))
        await slider.press("ArrowLeft")
        await expect(slider).to_have_value(str(last - 1))
        await expect(page).to_have_url(f"{site.url}/ui/runs/{run}?node=wait&at={last - 1}")

        # Other keys are the page's.
        await page.keyboard.press("l")
        await expect(slider).to_have_value(str(last))


async def test_the_fields_of_an_approval_keep_their_keys(serve: Serve, page: Page) -> None:
    form = {
        "type": "object",
        "properties": {"urgent": {"type": "boolean"}, "kind": {"enum": ["full", "partial"]}},
    }
    async with serve() as site:
        id = await ask(site, form=form)
        await page.goto(f"{site.url}/ui/approvals")
        await be(page, "ada")
        await page.get_by_label("Urgent").focus()
        await page.keyboard.press("Space")
        await expect(page.get_by_label("Urgent")).to_be_checked()
        await page.get_by_role("radio", name="full").focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("radio", name="partial")).to_be_checked()

        # Enter opens no other page, on which everything would be empty.
        await page.keyboard.press("Enter")
        await page.keyboard.press("a")
        await expect(page.get_by_role("button", name="Approve")).to_be_focused()
        await expect(page).to_have_url(f"{site.url}/ui/approvals?id={id}")
        await expect(page.get_by_role("radio", name="partial")).to_be_checked()


async def test_a_run_is_paused_and_resumed_with_the_keyboard_alone(
    serve: Serve, page: Page
) -> None:
    async with serve() as site:
        run = await site.start(WAITING)
        await page.goto(f"{site.url}/ui/runs/{run}")
        await expect(page.locator('[data-node="wait"]')).to_have_attribute("data-status", "waiting")
        for words, does, status in (("pause", "Pause", "Paused"), ("resume", "Resume", "Running")):
            await page.keyboard.press("Control+k")
            await page.keyboard.type(f"{words} this run")
            await page.keyboard.press("Enter")
            button = page.locator(".split-side").get_by_role("button", name=does, exact=True)
            await expect(button).to_be_focused()
            await page.keyboard.press("Enter")
            await expect(page.locator(".page-head .status")).to_have_text(status)
