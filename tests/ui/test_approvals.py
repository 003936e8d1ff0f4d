"""Deciding approvals in a browser: with a mouse, with the keyboard alone, and on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page, expect

from ..api.conftest import Serve, Site
from ..waiting import until

FORM = {
    "type": "object",
    "required": ["account", "lines"],
    "properties": {
        "account": {"type": "string", "minLength": 3},
        "kind": {"enum": ["full", "partial"], "default": "full"},
        "amount": {"type": "number", "maximum": 100},
        "urgent": {"type": "boolean"},
        "due": {"type": "string", "format": "date"},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["pieces"],
                # The page does not know `multipleOf`: the server says what is wrong.
                "properties": {"pieces": {"type": "integer", "multipleOf": 5}},
            },
        },
    },
}


def asking(title: str = "Pay {{ input.amount }} EUR?", **config: Any) -> dict[str, Any]:
    payload = {"customer": "<b>Ann</b>", "amount": "{{ input.amount }}"}
    return {
        "name": "refund",
        "nodes": [
            {
                "id": "ask",
                "type": "human",
                "human_config": {"title": title, "payload": payload, **config},
                "rejection_path": ["refuse"],
            },
            {"id": "pay", "type": "noop", "dependencies": ["ask"]},
            {"id": "refuse", "type": "noop"},
            {"id": "tell", "type": "noop", "dependencies": ["pay", "refuse"], "join": "any"},
        ],
    }


async def ask(site: Site, **config: Any) -> str:
    """Start a run that asks; the id of the approval."""
    run = await site.start(asking(**config), {"amount": 7})

    async def is_asked() -> bool:
        return bool(await site.app.approvals.list(run))

    await until(site.app.store, is_asked)
    return f"{run}:ask"


async def decision_of(site: Site, id: str) -> Any:
    (found,) = (await site.app.approvals.show(id)).decisions
    return found


async def be(page: Page, name: str) -> None:
    """Say who decides."""
    await page.get_by_label("Your name").fill(name)
    await page.get_by_role("button", name="That’s me").click()


@pytest.mark.shows("M-24", "Z-04")
async def test_an_approval_is_decided_with_its_form(
    serve: Serve, rough_page: Page, store_url: str
) -> None:
    page = rough_page
    async with serve(store_url) as site:
        link = "https://review.example/7"
        id = await ask(site, approvers=["ada"], form=FORM, timeout_hours=2, approval_ui_url=link)
        await ask(site, title="Something for Bob", approvers=["bob"])
        await page.goto(f"{site.url}/ui/approvals?show=all")
        await page.get_by_role("button", name="Pay 7 EUR?").click()
        view = page.locator("article.approval")
        await be(page, "ada")
        await expect(view.get_by_text("<b>Ann</b>")).to_be_visible()
        await expect(view.get_by_text("it counts as not approved")).to_be_visible()

        await expect(view.get_by_role("link", name=link)).to_have_attribute("href", link)

        # What a decision leads to is lit before it is made.
        drawn = {name: view.locator(".mini-node", has_text=name) for name in ("pay", "refuse")}
        await view.get_by_role("button", name="Reject").hover()
        await expect(drawn["refuse"]).to_have_attribute("data-lit", "true")
        await expect(drawn["pay"]).to_have_attribute("data-dim", "true")

        # Nothing is sent that the form does not allow.
        await view.get_by_label("Amount").fill("1000")
        await view.get_by_role("button", name="Approve").click()
        await expect(view.get_by_text("At most 100")).to_be_visible()
        await expect(view.get_by_text("This is needed")).to_be_visible()
        await expect(view.get_by_text("At least 1 entry is needed")).to_be_visible()
        await view.get_by_label("Amount").fill("12.5")
        await view.get_by_label("Account").fill("1-23")
        await view.get_by_text("partial").click()
        await view.get_by_label("Urgent").check()
        await view.get_by_label("Due").fill("2026-12-24")
        await view.get_by_label("City").fill("Paris")
        await view.get_by_role("button", name="Add").click()
        await view.get_by_label("Pieces").fill("7")

        # What only the server knows is shown at its field.
        await view.get_by_role("button", name="Approve").click()
        await expect(view.locator(".form-entry .form-problem")).to_contain_text("multiple of 5")
        await view.get_by_label("Pieces").fill("10")
        await view.get_by_label("Comment").fill("as agreed")
        await view.get_by_role("button", name="Approve").click()
        await expect(page.get_by_text("Something for Bob").first).to_be_visible()
        await expect(page.get_by_role("button", name="Pay 7 EUR?")).to_have_count(0)
        made = await decision_of(site, id)
        await page.get_by_role("button", name="For me").click()
        await expect(page.get_by_text("Nothing waits for ada")).to_be_visible()

    assert (made.by, made.decision, made.comments) == ("ada", "approve", "as agreed")
    assert made.data == {
        "account": "1-23",
        "kind": "partial",
        "amount": 12.5,
        "urgent": True,
        "due": "2026-12-24",
        "address": {"city": "Paris"},
        "lines": [{"pieces": 10}],
    }


async def test_an_approval_is_decided_with_the_keyboard_alone(serve: Serve, page: Page) -> None:
    async with serve() as site:
        first = await ask(site, title="The first?")
        second = await ask(site, title="The second?")
        await page.goto(f"{site.url}/ui/runs")
        await expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        await page.keyboard.press("g")
        await page.keyboard.press("a")
        await expect(page.get_by_role("heading", name="The first?")).to_be_visible()
        await expect(page.get_by_label("Your name")).to_be_focused()
        await page.keyboard.type("ada")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("You decide as ada")).to_be_visible()
        await page.keyboard.press("j")
        await expect(page.get_by_role("heading", name="The second?")).to_be_visible()
        await page.keyboard.press("c")
        await page.keyboard.type("no money left")
        await page.keyboard.press("Escape")
        await page.keyboard.press("Tab")  # Out of the comment.
        await page.keyboard.press("r")
        await page.keyboard.press("Control+Enter")
        await expect(page.get_by_role("heading", name="The first?")).to_be_visible()
        await page.keyboard.press("a")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()
        made = [await decision_of(site, id) for id in (first, second)]

    assert [(one.by, one.decision) for one in made] == [("ada", "approve"), ("ada", "reject")]
    assert made[1].comments == "no money left"


async def test_an_approval_is_decided_on_a_phone(serve: Serve, page: Page) -> None:
    async with serve() as site:
        id = await ask(site, quorum=2, approvers=["ada", "bob"])
        await site.app.approvals.approve(id, by="bob", comments="fine with me")
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(f"{site.url}/ui/approvals")
        await page.get_by_role("button", name="Pay 7 EUR?").click()
        await expect(page).to_have_url(f"{site.url}/ui/approvals/{id.replace(':', '%3A')}")
        await expect(page.get_by_text("1 of 2 approvals")).to_be_visible()
        await expect(page.get_by_text("fine with me")).to_be_visible()
        await be(page, "ada")
        button = page.get_by_role("button", name="Approve")
        place = await button.bounding_box()
        wide = await page.evaluate("document.documentElement.scrollWidth")
        await button.click()
        await expect(page.get_by_text("ada approved").first).to_be_visible()
        found = await site.app.approvals.show(id)

    # The thumb reaches it, and nothing has to be moved sideways.
    assert place is not None
    assert place["height"] >= 44
    assert place["y"] + place["height"] <= 844
    assert wide <= 390
    assert [one.by for one in found.decisions] == ["bob", "ada"]


async def test_a_decision_that_comes_second_shows_the_first(serve: Serve, rough_page: Page) -> None:
    page = rough_page
    async with serve() as site:
        id = await ask(site)
        await page.goto(f"{site.url}/ui/approvals/{id}")
        await be(page, "ada")
        # Its events do not reach the page before the decision does.
        await page.route("**/api/v1/events", lambda route: route.abort())
        await page.route(f"**/api/v1/approvals/{id.replace(':', '%3A')}", lambda r: r.abort())
        await site.app.approvals.reject(id, by="bob", comments="too much")
        await page.get_by_label("Comment").fill("never mind")
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_text("Somebody was faster")).to_be_visible()
        await expect(page.get_by_text("bob rejected")).to_be_visible()
        await expect(page.get_by_text("too much")).to_be_visible()
        await expect(page.get_by_text("never mind")).to_be_visible()


async def test_an_approval_stays_open_when_others_decide_it(serve: Serve, page: Page) -> None:
    async with serve() as site:
        form = {"type": "object", "properties": {"reason": {"type": "string"}}}
        first = await ask(site, title="The first?", form=form)
        second = await ask(site, title="The second?")
        await page.goto(f"{site.url}/ui/approvals")
        view = page.locator("article.approval")
        rows = page.locator(".inbox-row")
        await be(page, "ada")
        await view.get_by_label("Reason").fill("it is too late")
        await view.get_by_label("Comment").fill("ask again in May")
        await expect(rows).to_have_count(2)

        # Somebody else decides: nothing takes its place, and what was typed can be read.
        await site.app.approvals.reject(first, by="bob", comments="too much", data={})
        await expect(rows).to_have_count(1)
        await expect(view.get_by_role("heading", name="The first?")).to_be_visible()
        await expect(view.get_by_text("This ended while you had it open")).to_be_visible()
        await expect(view.locator(".verdict-line")).to_contain_text("bob rejected")
        await expect(view.get_by_text("ask again in May")).to_be_visible()
        await expect(view.get_by_text("it is too late")).to_be_visible()
        await expect(view.get_by_role("button", name="Approve")).to_have_count(0)

        # The next one is opened by choice, and stays open when its run ends.
        await page.keyboard.press("j")
        await expect(view.get_by_role("heading", name="The second?")).to_be_visible()
        await view.get_by_label("Comment").fill("never mind")
        await site.app.runs.cancel(second.partition(":")[0])
        await expect(rows).to_have_count(0)
        await expect(view.get_by_text("The run ended before anybody decided")).to_be_visible()
        await expect(view.get_by_text("never mind")).to_be_visible()
        await page.get_by_role("button", name="For me").click()
        await expect(page.get_by_text("Nothing waits for a decision")).to_be_visible()


async def test_what_is_typed_on_the_page_of_an_approval_stays(serve: Serve, page: Page) -> None:
    async with serve() as site:
        id = await ask(site)
        await page.goto(f"{site.url}/ui/approvals/{id}")
        await be(page, "ada")
        await page.get_by_label("Comment").fill("ask again in May")
        await site.app.approvals.approve(id, by="bob")
        await expect(page.locator(".verdict-line")).to_contain_text("bob approved")
        await expect(page.get_by_text("ask again in May")).to_be_visible()
