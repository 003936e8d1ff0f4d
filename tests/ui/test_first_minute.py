"""The first minute with `minuet dev`: a guide beside the sample, and a worker that is killed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from ..api.test_server_command import Spawn, read_event, spawn

__all__ = ["spawn"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
async def test_the_guide_leads_through_the_sample(
    spawn: Spawn, rough_page: Page, tmp_path: Path
) -> None:
    page = rough_page
    dev = spawn("dev", "--port", "0", "--json", "--no-open")
    url = read_event(dev, "started")["url"].removesuffix("/api/v1")
    run = read_event(dev, "sample")["run_id"]

    await page.goto(f"{url}/ui/overview")
    guide = page.get_by_label("The first minute")
    await expect(guide).to_contain_text("charge failed once and was tried again")
    await guide.get_by_role("link", name="The sample’s run").click()
    await expect(guide).to_contain_text("It waits for you")
    await guide.get_by_role("button", name="Approve").click()
    await expect(page.locator('[data-node="pack"]')).to_have_attribute("data-status", "running")
    kill = guide.get_by_role("button", name=re.compile("Kill process [0-9]+"))
    pid = ((await kill.text_content()) or "").split()[-1]
    await kill.click()
    await expect(guide).to_contain_text(f"Process {pid} is dead")
    await expect(guide).to_contain_text("the run went on where it was")
    await expect(guide).to_contain_text("The run is over")
    await expect(page.locator(".page-head .status").first).to_have_text("Completed")
    await guide.get_by_role("button", name="Close the guide").click()
    await page.goto(f"{url}/ui/runs/{run}")
    await expect(page.locator('[data-node="ship"]')).to_be_visible()
    await expect(guide).to_have_count(0)
