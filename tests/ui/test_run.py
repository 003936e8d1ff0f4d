"""The page of a run: what it shows of nodes, and what it says before it changes anything."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from playwright.async_api import Locator, Page, expect

from ..api.conftest import Serve
from . import handlers


def task(name: str, handler: str = "say", **more: Any) -> dict[str, Any]:
    given = {"value": 1} if handler == "say" else {}
    return {"id": name, "handler": handler, "config": given, **more}


ORDER = {
    "name": "order",
    "nodes": [
        task("receive", config={"value": {"total": "{{ input.total }}"}}),
        {
            "id": "choose",
            "type": "decision",
            "dependencies": ["receive"],
            "branch": {
                "rules": [{"when": "output.receive.total > 100", "next_nodes": ["review"]}],
                "default": ["charge"],
            },
        },
        {"id": "review", "type": "human", "config": {"title": "Accept it?"}},
        task(
            "charge",
            "fail_until",
            config={"attempt": 3},
            retry={"backoff_ms": 1},
            compensator={"handler": "say", "config": {"value": 0}},
        ),
        task(
            "pack",
            dependencies=["charge"],
            foreach={"items": "{{ input.items }}", "max_parallel": 50},
            config={"value": "{{ item }}"},
        ),
        {
            "id": "paid",
            "type": "wait",
            "config": {"signal": "paid"},
            "dependencies": ["charge"],
        },
        task("ship", dependencies=["pack", "paid"]),
    ],
}
FAILED = {
    "name": "failed",
    "nodes": [
        task("made", compensator={"handler": "say", "config": {"value": 0}}),
        task("bad", "fail", dependencies=["made"], retry={"max_attempts": 2, "backoff_ms": 1}),
        task("below", dependencies=["bad"]),
    ],
}


async def test_a_run_explains_itself_and_is_repaired(
    serve: Serve, page: Page, store_url: str
) -> None:
    async with serve(store_url, handlers) as site:
        run = await site.start(ORDER, {"total": 20, "items": list(range(300))})
        await page.goto(f"{site.url}/ui/runs/{run}?node=pack")
        side = page.locator(".split-side")
        node = page.locator("[data-node]")

        # A foreach: counted, filtered, and open to each of its items.
        await expect(page.locator('[data-node="pack"]')).to_contain_text("300/300")
        await expect(side).to_contain_text("Instances: 300")
        assert await side.locator(".instance-row").count() < 60
        await side.get_by_label("Find an instance").fill("299")
        await side.locator('[data-instance="299"]').click()
        await expect(side.get_by_role("heading", level=1)).to_have_text("pack[299]")
        await expect(side).to_contain_text("Idempotency key")
        await expect(side).to_contain_text("What it was given")
        assert "instance=299" in page.url

        # A branch: the values that decided on the edge, and why the other way was not taken.
        await expect(page.locator(".edge-label[data-won]")).to_contain_text("total = 20")
        await page.locator('[data-node="review"]').click()
        await expect(side.locator(".rules")).to_contain_text("output.receive.total > 100")
        await expect(side.locator(".rules")).to_contain_text("false")

        # Attempts: what changed from one to the next.
        await page.locator('[data-node="charge"]').click()
        await expect(side).to_contain_text("Attempts: 3")
        await side.locator(".attempt-head").nth(2).click()
        await expect(side.locator(".diff")).to_contain_text("output")

        # A join tells what is missing.
        await expect(page.locator('[data-node="ship"]')).to_contain_text("1 of 2 arrived")

        # Cancel, previewed and left.
        await page.get_by_role("button", name="Cancel", exact=True).first.click()
        await expect(side.locator(".consequences")).to_contain_text("Cut off")
        await expect(page.locator('[data-node="paid"]')).to_have_attribute("data-mark", "cut_off")
        await side.get_by_label(re.compile("Why")).fill("ordered twice")
        await expect(side).to_contain_text(f"minuet runs cancel {run} --reason 'ordered twice'")
        await side.get_by_role("button", name="Leave it").click()
        await expect(node.and_(page.locator("[data-mark]"))).to_have_count(0)

        # Pause and resume. The event may come before the answer, which then closes nothing else.
        seen = asyncio.Event()

        async def answer_late(route: Any) -> None:
            answer = await route.fetch()
            await seen.wait()
            await route.fulfill(response=answer)

        await page.route("**/pause", answer_late, times=1)
        await page.get_by_role("button", name="Pause", exact=True).first.click()
        await expect(side.locator(".consequences")).to_be_visible()
        await side.get_by_role("button", name="Pause", exact=True).click()
        await expect(page.locator(".page-head .status")).to_have_text("Paused")
        await page.get_by_role("button", name="Resume", exact=True).first.click()
        await expect(side.get_by_role("heading", level=1)).to_have_text("Resume this run")
        seen.set()
        await expect(page.locator(".toast")).to_contain_text("Paused")
        await side.get_by_role("button", name="Resume", exact=True).click()
        await expect(page.locator(".page-head .status")).to_have_text("Running")

        # The signal that it waits for, with data that must be JSON.
        await page.locator('[data-node="paid"]').click()
        await side.get_by_role("button", name="Send the signal…").click()
        await side.get_by_label(re.compile("Data")).fill("{oops")
        await expect(side).to_contain_text("not JSON")
        await side.get_by_label(re.compile("Data")).fill('{"amount": 5}')
        await expect(side.locator(".consequences")).to_contain_text("ship")
        await side.get_by_role("button", name="Send", exact=True).click()
        await expect(page.locator(".page-head .status")).to_have_text("Completed")

        # Undone: what would be undone is said first.
        await page.get_by_role("button", name="Undo", exact=True).first.click()
        await expect(side.locator(".consequences")).to_contain_text("charge")
        await side.get_by_role("button", name="Undo", exact=True).click()
        await expect(page.locator('[data-node="charge"]')).to_have_attribute(
            "data-status", "undone"
        )


async def test_nodes_are_skipped_taken_back_and_given_outputs(
    serve: Serve, rough_page: Page, store_url: str
) -> None:
    page = rough_page
    document = {
        "name": "held",
        "nodes": [
            task("slow", "wait_at", config={"gate": "{{ input }}"}),
            {"id": "first", "type": "wait", "config": {"signal": "never"}},
            {"id": "second", "type": "wait", "config": {"signal": "never"}},
            task("last", dependencies=["first", "second"]),
        ],
    }
    async with serve(store_url, handlers) as site:
        run = await site.start(document, "run-page")
        await page.goto(f"{site.url}/ui/runs/{run}?node=first")
        side = page.locator(".split-side")
        nodes = {name: page.locator(f'[data-node="{name}"]') for name in ("slow", "first", "last")}
        await side.get_by_role("button", name="Skip…").click()
        await expect(side.locator(".consequences")).to_be_visible()
        await side.get_by_label("Why").fill("not needed")
        await expect(side).to_contain_text(f"minuet runs skip {run} first --why 'not needed'")

        # Somebody else is faster, so something else would happen: the change is refused, and the
        # page says what to do.
        seen = asyncio.Event()

        async def change_first(route: Any) -> None:
            await site.post(f"/runs/{run}/nodes/second/skip", {"why": "faster"})
            seen.set()
            await route.continue_()

        await page.route("**/nodes/first/skip", change_first, times=1)
        await side.get_by_role("button", name="Skip", exact=True).click()
        await expect(side.get_by_role("alert")).to_contain_text("look, then repeat")
        assert seen.is_set()
        await expect(side.locator('[data-mark="skipped"]')).to_contain_text("last")
        await side.get_by_role("button", name="Skip", exact=True).click()
        await expect(nodes["first"]).to_have_attribute("data-status", "skipped")
        await expect(nodes["last"]).to_have_attribute("data-status", "skipped")

        await nodes["slow"].click()
        await side.get_by_role("button", name="Take back…").click()
        await expect(side.locator(".consequences")).to_be_visible()
        await side.get_by_role("button", name="Leave it").click()
        await side.get_by_role("button", name="Set the output…").click()
        await side.get_by_label("Output, as JSON").fill('{"by": "hand"}')
        await side.get_by_label("Why").fill("known already")

        # The run goes on meanwhile, but the same would happen: nobody is stopped.
        async def go_on(route: Any) -> None:
            await site.post(f"/runs/{run}/signals/news", {"data": 1})
            await route.continue_()

        await page.route("**/nodes/slow/set-output", go_on, times=1)
        await side.get_by_role("button", name="Set the output", exact=True).click()
        await expect(page.locator(".page-head .status")).to_have_text("Completed")
        handlers.GATES["run-page"].set()
        shown = await site.get(f"/runs/{run}")
        assert shown["nodes"]["slow"]["output"] == {"by": "hand"}


async def test_the_approval_of_an_item_is_opened_from_its_node(
    serve: Serve, page: Page, store_url: str
) -> None:
    document = {
        "name": "asked",
        "nodes": [
            {
                "id": "ask",
                "type": "human",
                "foreach": {"items": ["a", "b"]},
                "human_config": {"title": "Take {{ item }}?"},
            }
        ],
    }
    async with serve(store_url, handlers) as site:
        run = await site.start(document)
        await page.goto(f"{site.url}/ui/runs/{run}?node=ask&instance=1")
        await page.get_by_role("link", name="Open the approval").click()
        await expect(page.get_by_role("heading", name="Take b?")).to_be_visible()


async def test_a_run_that_never_rests_can_be_changed(
    serve: Serve, rough_page: Page, store_url: str
) -> None:
    """Each question is overtaken by an event, and is answered all the same."""
    page = rough_page
    document = {
        "name": "busy",
        "nodes": [{"id": "first", "type": "wait", "config": {"signal": "never"}}],
    }
    async with serve(store_url, handlers) as site:
        run = await site.start(document)

        async def overtake(route: Any) -> None:
            sent = await site.client.post(f"/api/v1/runs/{run}/signals/news", json={"data": 1})
            # The last question may come when the run has ended.
            assert sent.status_code in (200, 409)
            await expect(page.get_by_role("tab", name="History")).not_to_have_text(shown[-1])
            shown.append(await page.get_by_role("tab", name="History").inner_text())
            await route.continue_()

        await page.goto(f"{site.url}/ui/runs/{run}?node=first")
        side = page.locator(".split-side")
        shown = [await page.get_by_role("tab", name="History").inner_text()]
        await page.route("**/preview", overtake)
        await side.get_by_role("button", name="Skip…").click()
        await side.get_by_label("Why").fill("not needed")
        await side.get_by_role("button", name="Skip", exact=True).click()
        await expect(page.locator(".page-head .status")).to_have_text("Completed")
        await page.unroute_all(behavior="ignoreErrors")


PART = {
    "name": "part",
    "nodes": [
        task("ask", "wait_at", config={"gate": "inside"}),
        task("done", dependencies=["ask"]),
    ],
}
WHOLE = {
    "name": "whole",
    "nodes": [
        task(
            "each",
            "talk_at",
            config={"gate": "inside", "text": "{{ item }}"},
            foreach={"items": "{{ input }}", "max_parallel": 12},
        ),
        {"id": "part", "type": "workflow", "config": {"workflow": "part"}},
    ],
}


async def test_what_is_inside_a_node_is_seen_in_the_graph(
    serve: Serve, page: Page, store_url: str
) -> None:
    """Items that have not begun count too; a child run is drawn where it was started."""
    async with serve(store_url, handlers) as site:
        await site.post("/workflows", {"document": PART}, 201)
        run = await site.start(WHOLE, list(range(30)))
        await page.goto(f"{site.url}/ui/runs/{run}")
        frames = page.locator(".node-frame")
        each, part = (
            frames.filter(has=page.locator(f'[data-node="{name}"]')) for name in ("each", "part")
        )
        await expect(each).to_contain_text("0/30")
        await each.get_by_role("button", name="Open each in the graph").click()
        await expect(each).to_contain_text("1–8 of 30, 18 not begun")
        await each.get_by_role("button", name="Next page").click()
        await expect(each.locator(".inside-item")).to_have_count(4)
        await each.locator('[data-instance="9"]').click()
        side = page.locator(".split-side")
        await expect(side.get_by_role("heading", level=1)).to_have_text("each[9]")

        # What its handler says comes as it says it.
        await expect(side.locator(".log-line")).to_have_text(re.compile("begins 9"))

        # The child run, with what its nodes do; there and back.
        await part.get_by_role("button", name="Open part in the graph").click()
        graph = part.get_by_role("group", name="The graph of part")
        await expect(graph.locator('[data-status="pending"]')).to_have_count(1)
        assert "open=each,part" in page.url
        await part.get_by_role("link", name="part").click()
        await expect(page.locator('[data-node="done"]')).to_be_visible()
        await page.locator(".run-facts").get_by_role("link", name="…").click()
        await expect(graph.locator('[data-status="pending"]')).to_have_count(1)

        handlers.GATES["inside"].set()
        await expect(graph.locator('[data-status="completed"]')).to_have_count(2)
        await expect(page.locator('[data-node="each"]')).to_contain_text("30/30")
        shown = (await site.get(f"/runs/{run}"))["nodes"]["each"]
        assert (shown["instances"], shown["items"]) == (30, 30)


async def test_the_time_of_a_run_is_laid_open(serve: Serve, page: Page, store_url: str) -> None:
    async with serve(store_url, handlers) as site:
        run = await site.start(FAILED)
        await site.app.runs.wait_ended(run, timeout=60)
        await page.goto(f"{site.url}/ui/runs/{run}?tab=timeline")
        rows = page.locator(".timeline-row")
        await expect(rows).to_have_count(2)
        await page.get_by_label("Critical path").check()
        await expect(page.locator(".timeline-row[data-critical]")).to_have_count(2)
        assert "path=critical" in page.url
        ruler = page.locator("[data-ruler]")
        box = await ruler.bounding_box()
        assert box is not None
        await page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 5)
        await page.mouse.down()
        await page.mouse.move(box["x"] + box["width"] * 0.75, box["y"] + 5, steps=4)
        await page.mouse.up()
        await page.get_by_role("button", name="All of it").click()
        assert "zoom" not in page.url

        await page.keyboard.press("3")
        events = page.locator(".event-row")
        count = await events.count()
        failed = page.locator('.event-row[data-status="failed"]').filter(has_text="node.failed")
        await expect(failed.locator(".run-error")).to_have_text("broken for good")
        await page.get_by_label("Find in the history").fill("broken for good")
        await expect(events.nth(1)).to_be_visible()
        assert await events.count() < count
        await page.get_by_role("button", name="By node").click()
        await events.filter(has_text="bad").first.click()
        await events.filter(has_text="node.retried").click()
        await expect(page.locator(".split-side")).to_contain_text("broken for good")
        address = page.url
        assert "event=" in address
        await page.get_by_role("button", name="Show the run then").click()
        await expect(page.get_by_text("as it was after event")).to_be_visible()
        await page.keyboard.press("l")

        # The error, its attempts, and the retry of the whole run.
        await page.goto(f"{site.url}/ui/runs/{run}?node=bad")
        side = page.locator(".split-side")
        await expect(side.get_by_text("broken for good").first).to_be_visible()
        await expect(side).to_contain_text("Attempts: 2")
        await page.locator('[data-node="below"]').click()
        await expect(side).to_contain_text("a node before it failed")
        await page.get_by_role("button", name="Retry", exact=True).first.click()
        await expect(side.locator(".consequences")).to_contain_text("bad")
        await expect(page.locator('[data-node="bad"]')).to_have_attribute("data-mark", "ready")


async def test_a_run_fits_a_phone(serve: Serve, page: Page, store_url: str) -> None:
    async with serve(store_url, handlers) as site:
        run = await site.start(FAILED)
        await site.app.runs.wait_ended(run, timeout=60)
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(f"{site.url}/ui/runs/{run}?node=bad")
        await expect(page.locator(".split-side")).to_contain_text("Attempts: 2")
        await expect(page.get_by_role("button", name="Retry", exact=True)).to_be_in_viewport()
        await page.goto(f"{site.url}/ui/runs")
        await expect(page.locator("tr[data-key]")).to_have_count(1)
        wide = "document.documentElement.scrollWidth > innerWidth"
        assert not await page.evaluate(wide)


async def test_a_large_graph_is_drawn_as_far_as_it_can_be_read(
    serve: Serve, page: Page, store_url: str
) -> None:
    wide = 40
    nodes: list[dict[str, Any]] = [
        {"id": f"n{at}", "type": "noop", "dependencies": [f"n{at - wide}"] if at >= wide else []}
        for at in range(8 * wide)
    ]
    async with serve(store_url, handlers) as site:
        run = await site.start({"name": "large", "nodes": nodes})
        await site.app.runs.wait_ended(run, timeout=60)
        await page.goto(f"{site.url}/ui/runs/{run}")
        graph = page.get_by_role("img", name="320 nodes")
        await expect(graph).to_be_visible()
        await expect(page.locator("[data-node]")).to_have_count(0)
        box = await graph.bounding_box()
        assert box is not None
        middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        await page.mouse.click(*middle)
        await expect(page.locator(".split-side h1")).to_have_text(re.compile(r"^n\d+$"))
        await page.mouse.move(*middle)
        for _ in range(6):
            await page.mouse.wheel(0, -400)
        await expect(page.locator("[data-node]").first).to_be_visible()
        assert await page.locator("[data-node]").count() < 300


async def test_logs_can_be_read_while_they_grow(serve: Serve, page: Page, store_url: str) -> None:
    async with serve(store_url, handlers) as site:
        # The page keeps 20,000 lines.
        ends = [100, 200, 20_100, 20_200, 20_300]
        counting = task("count", "count_at", config={"gate": "logs", "ends": ends})
        run = await site.start({"name": "counting", "nodes": [counting]})
        await page.goto(f"{site.url}/ui/runs/{run}?node=count")
        box = page.get_by_role("group", name="Logs")

        def line(number: int) -> Locator:
            return box.locator(".log-line", has_text=re.compile(f" line {number}$"))

        async def place_of(number: int) -> float:
            await expect(line(number)).to_be_in_viewport()
            inner, outer = await line(number).bounding_box(), await box.bounding_box()
            assert inner is not None
            assert outer is not None
            return inner["y"] - outer["y"]

        async def scroll(lines: int) -> None:
            await box.evaluate("(box, lines) => void (box.scrollTop += lines * 18)", lines)

        # The end is followed, but not while somebody reads elsewhere.
        await box.scroll_into_view_if_needed()
        await expect(line(100)).to_be_in_viewport()
        await scroll(-40)
        place = await place_of(50)
        handlers.GATES["logs 0"].set()
        await expect(page.get_by_text("Logs: 200")).to_be_visible()
        assert await place_of(50) == place

        # Also when lines are dropped at the beginning.
        await scroll(200)
        await expect(line(200)).to_be_in_viewport()
        handlers.GATES["logs 1"].set()
        await expect(line(20_100)).to_be_in_viewport()
        handlers.GATES["logs 2"].set()
        await expect(line(20_200)).to_be_in_viewport()
        await scroll(-40)
        place = await place_of(20_150)
        top = await box.evaluate("box => box.scrollTop")
        handlers.GATES["logs 3"].set()
        follows = "([box, top]) => box.scrollTop === top - 100 * 18"
        await page.wait_for_function(follows, arg=[await box.element_handle(), top])
        assert await place_of(20_150) == place
        handlers.GATES["logs 4"].set()


async def test_an_address_with_no_real_moment_shows_the_newest(serve: Serve, page: Page) -> None:
    async with serve(handlers=handlers) as site:
        run = await site.start(FAILED)
        await site.app.runs.wait_ended(run, timeout=60)
        status = page.locator(".page-head .status")
        for at in ("x", "1.5", "-1", "0", "1e1", "9" * 400, "99"):
            await page.goto(f"{site.url}/ui/runs/{run}?at={at}")
            await expect(page.locator('[data-node="bad"]')).to_have_attribute(
                "data-status", "failed"
            )
            await expect(status).to_have_text("Failed")
        await page.goto(f"{site.url}/ui/runs/{run}?at=2")
        await expect(status.last).to_have_text("as it was after event 2")

        # The address follows a movement, and a change of the address moves the page.
        await page.keyboard.press("ArrowRight")
        await page.wait_for_url("**?at=3")
        await expect(status.last).to_have_text("as it was after event 3")
        for number in (4, 2):
            await page.evaluate(
                """(number) => {
                    history.replaceState(null, "", `?at=${number}`);
                    dispatchEvent(new PopStateEvent("popstate"));
                }""",
                number,
            )
            await expect(status.last).to_have_text(f"as it was after event {number}")
