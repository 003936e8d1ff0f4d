"""The editor in a browser: text and graph side by side, from the first letter to a new version."""

from __future__ import annotations

import pytest
from playwright.async_api import Locator, Page, expect

from ..api.conftest import Serve
from . import handlers

ORDER = """\
# What the shop does.
name: shop
input:
  type: object
  required: [amount]
  properties:
    amount: {type: integer, examples: [7]}
nodes:
  - id: charge # by card
    handler: say
    config: {value: "{{ input.amount }}"}
  - {id: ship, type: noop}
"""


def field(page: Page) -> Locator:
    return page.get_by_label("Document", exact=True)


@pytest.mark.shows("H-19")
async def test_the_palette_has_what_node_types_say_about_themselves(
    serve: Serve, page: Page
) -> None:
    async with serve(handlers=handlers) as site:
        await page.goto(f"{site.url}/ui/editor")
        types = (await site.get("/node-types"))["items"]
        for one in types:
            choice = page.locator(f'.node-choice:has(:text-is("{one["display_name"]}"))')
            await expect(choice).to_have_attribute("title", one["summary"])

    assert {"human", "wait", "workflow"} <= {one["name"] for one in types}


async def test_a_workflow_is_written_tried_and_deployed(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        await page.goto(f"{site.url}/ui/editor")
        state = page.locator(".editor-state")
        await expect(state).to_have_text("Valid")
        text = field(page)

        # Typing: lines are indented, fields and values offered.
        await text.focus()
        await page.keyboard.press("Control+End")
        await page.keyboard.type("  - id: second\nty")
        offered = page.get_by_role("listbox", name="What fits here")
        await expect(offered.get_by_role("option").first).to_contain_text("type")
        await page.keyboard.press("Enter")
        await expect(offered).to_contain_text("human")
        await page.keyboard.type("noo")
        await page.keyboard.press("Tab")
        assert (await text.input_value()).endswith("  - id: second\n    type: noop")
        nodes = page.locator(".editor-node")
        await expect(nodes).to_have_count(2)

        # Drawing changes the text, and can be undone like typing.
        await page.drag_and_drop('.node-choice:has(:text-is("Wait"))', '[data-node="second"]')
        await expect(nodes).to_have_count(3)
        written = await text.input_value()
        assert "  - id: wait\n    type: wait\n" in written
        assert written.index("dependencies: [second]") > written.index("id: wait")
        source = page.locator('.react-flow__node[data-id="first"] .react-flow__handle.source')
        target = page.locator('.react-flow__node[data-id="second"] .react-flow__handle.target')
        await expect(page.locator(".react-flow__edge")).to_have_count(1)
        await source.hover()
        await page.mouse.down()
        await target.hover()
        await page.mouse.up()
        await expect(page.locator(".react-flow__edge")).to_have_count(2)
        joined = await text.input_value()
        assert "  - id: second\n    type: noop\n    dependencies: [first]\n" in joined
        await text.focus()
        await page.keyboard.press("Control+z")
        await expect(text).to_have_value(written)
        await page.keyboard.press("Control+Shift+z")
        await expect(text).to_have_value(joined)

        # A node leads to its text, a problem to its place.
        await page.locator('[data-node="first"]').click()
        assert await chosen(page) == "first"
        await text.fill(ORDER + "  - {id: last, type: noop, dependencies: [nobody]}\n")
        problem = page.get_by_label("Problems").get_by_role("button")
        await expect(problem).to_contain_text('there is no node "nobody"')
        await expect(page.locator('[data-node="last"]')).to_have_attribute("data-problem", "true")
        await expect(page.locator(".codefield-mark")).to_have_count(1)
        await problem.click()
        assert await chosen(page) == "nobody"
        await page.keyboard.type("ship")
        await expect(state).to_have_text("Valid")
        await expect(problem).to_have_count(0)

        # What is not deployed survives.
        draft = await text.input_value()
        await page.reload()
        await expect(page.get_by_text("This is your draft")).to_be_visible()
        await expect(text).to_have_value(draft)
        await expect(state).to_have_text("Valid")

        # A try, with the examples as test data, shown in the graph.
        await text.focus()
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_label("Amount")).to_have_value("7")
        await page.get_by_label("Amount").fill("12")
        await page.keyboard.press("Control+Enter")
        await expect(page.locator('[data-node="charge"]')).to_have_attribute(
            "data-status", "completed"
        )
        await expect(page.locator(".run-strip")).to_contain_text("Completed")
        run = page.url.partition("run=")[2]
        assert (await site.get(f"/runs/{run}"))["input"] == {"amount": 12}

        # Saving is deploying.
        await text.focus()
        await page.keyboard.press("Control+s")
        await page.get_by_label("What has changed").fill("the first one")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("shop v1 is deployed")).to_be_visible()
        assert "workflow=shop" in page.url
        await expect(text).to_have_value(draft)
        deployed = await site.get("/workflows/shop")
        assert (deployed["message"], len(deployed["document"]["nodes"])) == ("the first one", 3)
        await page.goto(f"{site.url}/ui/editor?workflow=shop&node=ship")
        await expect(page.get_by_text("v1", exact=True)).to_be_visible()
        await expect(page.get_by_text("This is your draft")).to_have_count(0)
        await expect(page.locator('[data-node="charge"]')).to_be_visible()

        # The text is kept as it is, also where only a comment has changed.
        await expect(text).to_have_value(draft)
        assert "# What the shop does." in draft
        changed = draft.replace("# by card", "# by card or cash")
        await text.fill(changed)
        await page.get_by_role("button", name="Deploy…").click()
        await page.get_by_label("What has changed").press("Enter")
        await expect(page.get_by_text("its text is replaced")).to_be_visible()
        await page.evaluate("localStorage.clear()")
        await page.reload()
        await expect(text).to_have_value(changed)
        await expect(page.get_by_text("v1", exact=True)).to_be_visible()
        await page.goto(f"{site.url}/ui/workflows/shop?tab=document")
        await expect(page.get_by_label("Document", exact=True).last).to_contain_text("or cash")


async def chosen(page: Page) -> str:
    """The text that is selected in the field."""
    selected: str = await field(page).evaluate(
        "field => field.value.slice(field.selectionStart, field.selectionEnd)"
    )
    return selected


async def test_a_large_document_stays_light(serve: Serve, page: Page) -> None:
    nodes = "".join(
        f"  - id: n{at}\n    type: noop\n    dependencies: [n{at // 2}]\n" for at in range(1, 500)
    )
    async with serve() as site:
        await page.goto(f"{site.url}/ui/editor")
        await field(page).fill(f"name: large\nnodes:\n  - id: n0\n    type: noop\n{nodes}")
        await expect(page.locator(".editor-state")).to_have_text("Valid")
        await expect(page.locator(".react-flow__minimap")).to_be_visible()
        lines = page.locator(".codefield-line")
        assert await lines.count() < 100
        await page.keyboard.press("Control+End")
        await expect(lines.last).to_contain_text("1502")
        await page.keyboard.type("  - id: more")
        assert (await field(page).input_value()).endswith("[n249]\n  - id: more")


async def test_a_draft_has_the_name_with_which_it_was_deployed(serve: Serve, page: Page) -> None:
    async with serve(handlers=handlers) as site:
        await page.goto(f"{site.url}/ui/editor")
        text = field(page)

        # A new workflow gets a name, and so does a workflow that is deployed with another one.
        for name in ("shop", "store"):
            deployed = ORDER.replace("shop\n", f"{name}\n")
            await text.fill(deployed)
            await expect(page.get_by_role("heading", name=name)).to_be_visible()
            await page.get_by_role("button", name="Deploy…").click()
            await page.get_by_label("What has changed").press("Enter")
            await expect(page.get_by_text(f"{name} v1 is deployed")).to_be_visible()
            await expect(page).to_have_url(f"{site.url}/ui/editor?workflow={name}")
            await text.fill(deployed + f"# More of {name}.\n")
            await page.reload()
            await expect(page.get_by_text("This is your draft")).to_be_visible()
            await expect(text).to_have_value(deployed + f"# More of {name}.\n")

        # Each has its own, and the next new workflow begins as always.
        await page.goto(f"{site.url}/ui/editor?workflow=shop")
        await expect(text).to_have_value(ORDER)
        await page.get_by_role("link", name="Editor").click()
        await expect(page.get_by_role("heading", name="my-workflow")).to_be_visible()
        await text.fill(ORDER.replace("shop\n", "third\n"))
        await page.get_by_role("button", name="Deploy…").click()
        await page.get_by_label("What has changed").press("Enter")
        await expect(page).to_have_url(f"{site.url}/ui/editor?workflow=third")
        await page.get_by_role("link", name="Editor").click()
        await expect(page.get_by_role("heading", name="my-workflow")).to_be_visible()


async def test_a_draft_that_the_browser_has_no_room_for_is_said_so(
    serve: Serve, page: Page
) -> None:
    async with serve() as site:
        await page.goto(f"{site.url}/ui/editor")
        await page.evaluate(
            """() => {
                for (let size = 2 ** 20, number = 0; size >= 1; number++) {
                    try { localStorage.setItem(`other ${number}`, "x".repeat(size)); }
                    catch { size /= 2; }
                }
            }"""
        )
        await field(page).fill(ORDER)
        warning = page.get_by_text("This browser has no room for your draft")
        await expect(warning).to_be_visible()
        await page.evaluate("localStorage.clear()")
        await field(page).fill(ORDER + "# More.\n")
        await expect(warning).to_have_count(0)
        await page.reload()
        await expect(field(page)).to_have_value(ORDER + "# More.\n")
