"""Texts that want to be code: whatever people write, the page shows it and never runs it."""

from __future__ import annotations

from playwright.async_api import Dialog, Page, expect

from minuet.webhooks.links import Link

from ..api.conftest import Serve
from ..api.test_links import signed
from . import handlers
from .crowd import EVIL, NAME, crowd, paths

#: What has become an element, an attribute or a link, though it was only a text.
LOOK = """() => [
    ...[...document.querySelectorAll("*")].flatMap((one) => [...one.attributes])
        .filter((one) => one.name.startsWith("on")).map((one) => one.name),
    ...[...document.querySelectorAll("img[src=x], iframe, script:not([src]), base, object, embed")]
        .map((one) => one.outerHTML),
    ...[...document.querySelectorAll("a")].filter((one) => !/^https?:$/.test(one.protocol))
        .map((one) => one.outerHTML),
    ...(window.ran === undefined ? [] : [`ran ${window.ran}`]),
]"""

#: Its beginning, without numbers: those of errors are left out where errors are grouped.
PART = EVIL[:30]
SHOWN = """(texts) => texts.some((one) =>
    (document.body.innerText + document.querySelector("textarea")?.value).includes(one))"""

#: Where the text can be read as it was written.
LITERAL = ("node=complain", "tab=data", "/approvals/", "/dlq", "tab=start", "/editor")


async def test_no_text_becomes_code(serve: Serve, page: Page, store_url: str) -> None:
    dialogs: list[str] = []

    async def hear(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        await dialog.dismiss()

    page.on("dialog", hear)
    async with serve(store_url, handlers) as site:
        run = await crowd(site)
        for path in paths(run):
            answer = await page.goto(f"{site.url}/ui{path}")
            assert answer is not None
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            await expect(page.locator(".spinner")).to_have_count(0)
            await expect(page.locator("main")).not_to_be_empty()
            if "/dlq" in path:
                await page.keyboard.press("j")
                await page.keyboard.press("Enter")
            if any(part in path for part in LITERAL):
                # In a value of JSON its quotes are escaped.
                texts = [PART, PART.replace('"', '\\"')]
                await page.wait_for_function(SHOWN, arg=texts)
            assert await page.evaluate(LOOK) == [], path

        # The page of a link, which is not part of these.
        asked = await site.app.approvals.show(run)
        link = Link(
            tenant=site.app.tenant,
            approval=asked.id,
            asked_ms=asked.created_ms,
            by=NAME,
            approvers=asked.approvers,
            expires_ms=9_999_999_999_999,
        )
        answer = await page.goto(f"{site.url}{await signed(site, link)}")
        assert answer is not None
        assert "unsafe" not in answer.headers["content-security-policy"]
        await expect(page.locator("h1")).to_contain_text(PART)
        await expect(page.locator("form").first).to_be_visible()
        assert await page.evaluate(LOOK) == []

        # The palette finds it, and the test data of the editor have it.
        await page.goto(f"{site.url}/ui/workflows")
        await expect(page.get_by_text(NAME).first).to_be_visible()
        assert await page.evaluate(LOOK) == []
    assert not dialogs
