"""The reference page and the code name the same functions and macros."""

from __future__ import annotations

import re
from pathlib import Path

from minuet.conditions import LIMITS
from minuet.conditions.cel import library
from minuet.conditions.cel.functions import FUNCTIONS
from minuet.conditions.cel.macros import MACROS


def test_page_names_every_function_and_macro(root: Path) -> None:
    page = (root / "docs/reference/expressions.md").read_text(encoding="utf-8")
    page = page[: page.index("## Templates")]

    assert library.strings
    for name in {name for name, _ in FUNCTIONS} | MACROS:
        assert re.search(rf"(?<![\w.]){re.escape(name)}\b|\.{re.escape(name)}\(", page), name


def test_page_names_the_limits(root: Path) -> None:
    page = (root / "docs/reference/expressions.md").read_text(encoding="utf-8")

    for limit in (LIMITS.source_chars, LIMITS.steps, LIMITS.pattern_size, LIMITS.data_depth):
        assert f"| {limit:,} |" in page
    assert f"| {LIMITS.expression_depth:,} |" in page
    assert f"| {LIMITS.work_bytes // 1024 // 1024} MiB |" in page
