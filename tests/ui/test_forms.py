"""Forms in a browser: what is typed is what is sent."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, expect

from ..api.conftest import Serve
from . import handlers

TEXT = "x" * 100_000


def asking(**properties: Any) -> dict[str, Any]:
    return {
        "name": "asking",
        "input": {"type": "object", "properties": properties},
        "nodes": [{"id": "only", "type": "noop"}],
    }


async def test_numbers_are_sent_as_they_are_typed(serve: Serve, page: Page, store_url: str) -> None:
    numbers = {
        "least": {"type": "number"},
        "most": {"type": "number"},
        "whole": {"type": "integer"},
    }
    async with serve(store_url, handlers) as site:
        await site.post("/workflows", {"document": asking(**numbers)}, 201)
        await page.goto(f"{site.url}/ui/workflows/asking?tab=start")
        for label, typed in {"Least": "-0.5", "Most": "10.0105", "Whole": "100"}.items():
            await page.get_by_label(label).press_sequentially(typed)
        await page.keyboard.press("Control+Enter")
        await expect(page.locator('[data-node="only"]')).to_be_visible()
        found = await site.get(f"/runs/{run_of(page)}/summary")

    assert found["input"] == {"least": -0.5, "most": 10.0105, "whole": 100}


async def test_what_is_not_json_is_not_sent(serve: Serve, page: Page, store_url: str) -> None:
    async with serve(store_url, handlers) as site:
        await site.post("/workflows", {"document": asking(extra={})}, 201)
        await page.goto(f"{site.url}/ui/workflows/asking?tab=start")
        field = page.get_by_label("Extra")
        await field.press_sequentially('{"amount": 100')
        await page.get_by_role("button", name="Start", exact=True).last.click()
        await expect(page.get_by_text("This is not JSON")).to_be_visible()
        assert (await site.get("/runs"))["items"] == []
        await field.press("End")
        await field.press_sequentially("}")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator('[data-node="only"]')).to_be_visible()
        found = await site.get(f"/runs/{run_of(page)}/summary")

    assert found["input"] == {"extra": {"amount": 100}}


async def test_a_large_input_is_shown_and_given_to_another_run(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        document = asking(text={"type": "string"})
        await site.post("/workflows", {"document": document}, 201)
        run = await site.post("/runs", {"workflow": "asking", "inputs": {"text": TEXT}}, 201)
        await page.goto(f"{site.url}/ui/runs/{run['run_id']}?tab=data")
        body = page.locator(".page-body")
        await expect(body).to_contain_text("$blob")
        await page.get_by_role("button", name="Load the input").click()
        await expect(body).to_contain_text("xxx")
        await page.get_by_role("link", name="start another").click()
        await expect(page.get_by_label("Text")).to_have_value(TEXT)


def run_of(page: Page) -> str:
    return page.url.rpartition("/")[2].partition("?")[0]
