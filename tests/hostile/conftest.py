"""Hostile documents, templates, handlers and outputs, on every store whose rules are its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from .. import chosen
from ..scenario.conftest import STORES, scene

__all__ = ["scene", "store_url"]

HERE = Path(__file__).parent

#: Refused before any store hears of it.
UNHEARD = {
    "test_an_input_that_is_no_json_is_refused_before_anything_starts",
    "test_an_odd_node_id_is_refused_with_its_place",
}
#: A node fails, for a reason that the worker finds. A store gets the bytes of an error as of any
#: other: one without a file and one with a file are enough.
OF_THE_WORKER = {
    "test_a_condition_that_is_wrong_or_greedy_never_stops_the_run",
    "test_a_refusal_says_where_the_trouble_is",
    "test_a_template_that_wants_more_than_values_is_refused",
    "test_a_template_without_a_value_is_an_error_and_no_empty_text",
    "test_a_wait_without_sense_fails_its_node",
    "test_an_output_that_is_no_json_fails_its_node_at_once",
    "test_whatever_a_handler_raises_fails_its_node_and_not_its_worker",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_chosen(item: pytest.Item, store: str) -> bool:
        name = getattr(item, "originalname", item.name)
        if item.path.parent != HERE:
            return True
        if name in UNHEARD:
            return store == "memory"
        return name not in OF_THE_WORKER or store in ("memory", "sqlite")

    chosen.leave_out(config, items, "store_url", is_chosen)


@pytest.fixture(params=[kind for kind in STORES if kind != "logged"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own for the test. A logged store is two of the others."""
    return STORES[request.param](tmp_path)
