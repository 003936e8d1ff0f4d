"""Every engine test runs on every store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .. import chosen, servers
from .harness import open_scene

#: Kinds of stores and how to get a URL of one; a new one is added here and nowhere else.
STORES: dict[str, Callable[[Path], str]] = {
    "memory": lambda folder: "memory://",
    "sqlite": lambda folder: f"sqlite:///{servers.sqlite_file(folder / 'runs.db')}",
    "postgres": lambda folder: servers.postgres_url(),
    # Redis itself, where it is to be had; `tests/store` puts every kind of server to the test.
    "redis": lambda folder: servers.redis_url(servers.KINDS_OF_REDIS[-1]),
    "logged": lambda folder: servers.logged_url(),
}


HERE = Path(__file__).parent

#: About values, and where they lead a run: the kernel and the plan decide it, and a store is told
#: what it is told by every other run. Stores in one process are enough, and one with a server.
OF_THE_KERNEL = {"test_conditions", "test_escalation", "test_function_changes", "test_output"}
ENOUGH = {"memory", "sqlite", "redis"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_chosen(item: pytest.Item, store: str) -> bool:
        path = item.path
        return store in ENOUGH or path.parent != HERE or path.stem not in OF_THE_KERNEL

    chosen.leave_out(config, items, "store_url", is_chosen)


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of its own for the test."""
    return STORES[request.param](tmp_path)


@pytest.fixture
def scene(store_url: str) -> Callable[..., Any]:
    """`async with scene(handlers, **options) as s:` an App on the test's store."""
    return lambda handlers=None, **options: open_scene(store_url, handlers, **options)
