"""The reference page and the code name the same filters, tests and variables."""

from __future__ import annotations

import re
from pathlib import Path

from minuet import conditions, templates
from minuet.templates.filters import FILTERS, TESTS


def names(page: str, title: str) -> set[str]:
    paragraph = re.search(rf"^{title}: (.*?)\n\n", page, re.M | re.S)
    assert paragraph is not None
    return set(re.findall(r"`(\w+)`", paragraph[1]))


def test_page_lists_the_filters_and_tests_that_exist(root: Path) -> None:
    page = (root / "docs/reference/expressions.md").read_text()

    assert names(page, "Filters") == set(FILTERS) | {"default", "d"}
    assert names(page, "Tests") == set(TESTS) | {"defined", "undefined"}


def test_page_names_every_variable_and_limit(root: Path) -> None:
    page = (root / "docs/reference/expressions.md").read_text()

    assert all(re.search(rf"`{name}\b", page) for name in conditions.VARIABLES)
    assert all(re.search(rf"\{{\{{ {name}\b", page) for name in templates.VARIABLES)
    for limit in (
        conditions.LIMITS.source_chars,
        conditions.LIMITS.steps,
        conditions.LIMITS.pattern_size,
        templates.LIMITS.expression_chars,
        templates.LIMITS.source_chars,
    ):
        assert f"{limit:,}" in page
