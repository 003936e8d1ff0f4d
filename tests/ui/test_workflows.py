"""Workflows in a browser: how they do, what they are, and starting one."""

from __future__ import annotations

from typing import Any

from playwright.async_api import Page, expect

from ..api.conftest import Serve
from . import handlers


def order(**more: Any) -> dict[str, Any]:
    return {
        "name": "order",
        "description": "Charges and <b>ships</b>.",
        "input": {
            "type": "object",
            "required": ["customer", "amount"],
            "properties": {
                "customer": {"type": "string", "examples": ["Ann"]},
                "amount": {"type": "number", "examples": [7]},
            },
        },
        "nodes": [
            {"id": "charge", "handler": "say", "config": {"value": "{{ input.amount }}"}},
            {"id": "ship", "handler": "absent", "dependencies": ["charge"]},
        ],
        **more,
    }


async def test_a_workflow_is_found_read_and_started(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        await site.post("/workflows", {"document": order(), "message": "the first"}, 201)
        second = order(description="Charges.", nodes=[order()["nodes"][0]])
        await site.post("/workflows", {"document": second, "message": "no shipping"}, 201)
        run = await site.post(
            "/runs", {"workflow": "order", "inputs": {"customer": "B", "amount": 1}}, 201
        )
        await site.app.runs.wait_ended(run["run_id"], timeout=60)
        await page.goto(f"{site.url}/ui/workflows")
        row = page.locator('tr[data-key="order"]')
        await expect(row).to_contain_text("100 %")
        squares = row.locator(".squares a")
        await expect(squares).to_have_attribute("data-status", "completed")
        await page.keyboard.press("j")
        await page.keyboard.press("Enter")

        # What changed, and back to the version before.
        await expect(page.locator('[data-node="charge"]')).to_contain_text("say")
        await page.get_by_role("tab", name="Versions").click()
        newest = page.locator(".version").first
        await newest.get_by_role("button", name="What changed").click()
        await expect(newest.locator('.diff [data-change="-"]').first).to_be_visible()
        await page.locator(".version").nth(1).get_by_role("button", name="Make it main").click()
        await page.get_by_role("button", name="Move the tag").click()
        await expect(page.locator(".page-head")).to_contain_text("v1")

        # A node of the graph, and what the document says about it.
        await page.get_by_role("tab", name="Graph").click()
        await page.locator('[data-node="ship"]').click()
        side = page.locator(".split-side")
        await expect(side.get_by_label("Document of ship")).to_contain_text("handler: absent")
        assert "node=ship" in page.url
        await side.get_by_role("button", name="charge").click()
        await expect(page.locator('[data-node="charge"]')).to_have_attribute("data-chosen", "true")
        await page.keyboard.press("Escape")
        await expect(side).to_have_count(0)

        # The document, with what is wrong at its line.
        await page.get_by_role("tab", name="Document").click()
        problem = page.locator('.source-line[data-problem="warning"]')
        await expect(problem).to_contain_text("no worker serves the queue 'task:absent'")
        await expect(problem.locator("code")).to_contain_text("id: ship")
        await expect(page.locator(".code-template")).to_have_text("{{ input.amount }}")
        await page.get_by_role("button", name="JSON").click()
        await expect(page.get_by_label("Document", exact=True).last).to_contain_text(
            '"name": "order"'
        )

        # The form says what is missing, and is filled in by an example.
        await page.get_by_role("tab", name="Start").click()
        await page.get_by_role("button", name="Start").last.click()
        await expect(page.get_by_text("This is needed")).to_have_count(2)
        await page.get_by_role("button", name="Examples of the fields").click()
        await expect(page.get_by_label("Customer")).to_have_value("Ann")
        await page.get_by_label("Amount").fill("12")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator('[data-node="charge"]')).to_have_attribute(
            "data-status", "completed"
        )
        started = page.url.rpartition("/")[2].partition("?")[0]
        found = await site.get(f"/runs/{started}")

        # Another one begins with the same input.
        await page.get_by_role("link", name="start another").click()
        await expect(page.get_by_label("Customer")).to_have_value("Ann")
        await expect(page.get_by_label("Amount")).to_have_value("12")

    assert (found["version"], found["input"]) == (1, {"customer": "Ann", "amount": 12})


async def test_an_optional_group_is_left_out_of_an_input_until_it_is_filled_in(
    serve: Serve, page: Page
) -> None:
    text = {"type": "string"}
    country = {"enum": ["DE", "FR"], "default": "DE"}
    address = {
        "type": "object",
        "required": ["street"],
        "properties": {"street": text, "country": country},
    }
    labels = {
        "type": "object",
        "required": ["name", "tags"],
        "properties": {"name": text, "tags": {"type": "array", "items": text}},
    }
    parts = {"amount": {"type": "number"}, "address": address, "labels": labels}
    document = order(input={"type": "object", "properties": parts})

    async with serve(handlers=handlers) as site:
        await site.post("/workflows", {"document": document}, 201)

        async def start() -> Any:
            await page.get_by_role("button", name="Start").last.click()
            await page.wait_for_url("**/ui/runs/*")
            return (await site.get(f"/runs/{page.url.rpartition('/')[2]}"))["input"]

        await page.goto(f"{site.url}/ui/workflows/order?tab=start")
        await page.get_by_label("Amount").fill("1")
        assert await start() == {"amount": 1}

        # Touched and cleared is as if nobody had touched it.
        await page.goto(f"{site.url}/ui/workflows/order?tab=start")
        await page.get_by_label("Amount").fill("2")
        await page.get_by_label("Street").fill("Main")
        await page.get_by_label("Street").fill("")
        await page.get_by_label("Name").fill("")
        assert await start() == {"amount": 2}

        # What is filled in has the defaults, and its other members are needed.
        await page.goto(f"{site.url}/ui/workflows/order?tab=start")
        await expect(page.get_by_role("radio", name="DE")).to_be_checked()
        await page.get_by_text("FR", exact=True).click()
        await page.get_by_role("button", name="Start").last.click()
        await expect(page.get_by_text("This is needed")).to_have_count(1)
        await page.get_by_text("DE", exact=True).click()
        await expect(page.get_by_text("This is needed")).to_have_count(0)
        await page.get_by_label("Street").fill("Main")
        assert await start() == {"address": {"country": "DE", "street": "Main"}}
