"""Every engine test runs on every store, unless the worker alone decides what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from .. import chosen
from ..scenario.conftest import scene, store_url

__all__ = ["scene", "store_url"]

HERE = Path(__file__).parent

#: About handlers and calls, what they are given, and what becomes of what they return and raise;
#: and about what is handed in together.
#: A store sees none of this but bytes. One without a file, one with a file and one with rules in
#: another language are enough.
OF_THE_WORKER = {
    *("test_calls", "test_context", "test_http", "test_io_types", "test_llm", "test_names"),
    *("test_node_types", "test_retries", "test_sharing", "test_tracebacks", "test_values"),
}
ENOUGH = {"memory", "sqlite", "redis"}

#: They move many bytes or tokens. Each language in which the rules are written does it once.
LARGE = {
    "test_a_fan_out_of_ten_thousand_goes_out_in_parts",
    "test_a_node_whose_inputs_are_too_large_together_fails_without_being_run",
}
LANGUAGES = {"memory", "postgres", "redis"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_chosen(item: pytest.Item, store: str) -> bool:
        path = item.path
        if getattr(item, "originalname", "") in LARGE:
            return store in LANGUAGES
        return store in ENOUGH or path.parent != HERE or path.stem not in OF_THE_WORKER

    chosen.leave_out(config, items, "store_url", is_chosen)
