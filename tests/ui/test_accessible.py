"""Accessibility: axe finds nothing serious on any page, in either theme."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from ..api.conftest import Serve
from . import handlers
from .conftest import PATIENCE_MS
from .crowd import crowd, paths

RUN = """() => axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    resultTypes: ["violations"],
})"""


@pytest.mark.usefixtures("node")
async def test_nothing_serious_is_found(
    serve: Serve, browser: Browser, root: Path, store_url: str
) -> None:
    found: set[str] = set()
    async with serve(store_url, handlers) as site:
        run = await crowd(site)
        for theme in ("light", "dark"):
            # The policy of the page would not let axe in.
            context = await browser.new_context(
                bypass_csp=True, color_scheme=theme, reduced_motion="reduce"
            )
            context.set_default_timeout(PATIENCE_MS)
            page = await context.new_page()
            await page.add_init_script(path=root / "ui/node_modules/axe-core/axe.min.js")
            for path in paths(run):
                await page.goto(f"{site.url}/ui{path}")
                await expect(page.locator(".spinner")).to_have_count(0)
                await expect(page.locator("main")).not_to_be_empty()
                report: dict[str, Any] = await page.evaluate(RUN)
                for one in report["violations"]:
                    if one["impact"] in ("serious", "critical"):
                        for node in one["nodes"]:
                            place = path.replace(run, "RUN")[:40]
                            found.add(f"{one['id']}: {theme} {place} {node['target']}")
            await context.close()
    assert not found, "\n".join(sorted(found))
