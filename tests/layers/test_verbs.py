"""The contract of a store is what the documents list, what stores offer and what callers use."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from minuet.store import base
from minuet.store.base import Store
from minuet.store.logged import LoggedStore
from minuet.store.logged.base import HotStore, Log
from minuet.store.logged.hot_memory import HotMemoryStore
from minuet.store.logged.memory import MemoryLog
from minuet.store.memory import MemoryStore
from minuet.store.postgres import PostgresStore
from minuet.store.postgres.log import PostgresLog
from minuet.store.redis import RedisStore
from minuet.store.redis.hot import HotRedisStore
from minuet.store.rules.changes import Source
from minuet.store.sqlite import SqliteStore

#: What a store offers beside its verbs, and to whom.
EXTRAS: dict[type[Any], set[str]] = {
    # The rules load its rows.
    MemoryStore: {name for name in dir(Source) if not name.startswith("_")},
    # The simulation starts the work of a store without opening its halves.
    LoggedStore: {"start"},
}


def public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def verbs_by_group() -> dict[str, list[str]]:
    """The verbs of the contract under the headings of its source."""
    groups: dict[str, list[str]] = {}
    group = ""
    for line in inspect.getsource(base).splitlines():
        if heading := re.match(r"    # ── (.+?) ─+$", line):
            group = heading[1]
        elif verb := re.match(r"    (?:async )?def (\w+)\(", line):
            groups.setdefault(group, []).append(verb[1])
    return groups


def test_the_architecture_lists_each_verb_once_under_its_group(root: Path) -> None:
    text = (root / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("### The verbs of a store")[1].split("\n## ")[0]
    listed = {
        row[1]: re.findall("`(\\w+)`", row[2])
        for row in re.finditer(r"^\| ([\w ]+) \| (`.+) \|$", section, re.MULTILINE)
    }

    assert listed == verbs_by_group()


@pytest.mark.parametrize(
    ("kind", "contract"),
    [
        *((kind, Store) for kind in (MemoryStore, SqliteStore, PostgresStore, RedisStore)),
        (LoggedStore, Store),
        *((kind, HotStore) for kind in (HotMemoryStore, HotRedisStore)),
        *((kind, Log) for kind in (MemoryLog, PostgresLog)),
    ],
)
def test_a_store_offers_the_verbs_of_its_contract_and_nothing_else(
    kind: type[Any], contract: type[Any]
) -> None:
    extras = set().union(*(EXTRAS.get(parent, set()) for parent in kind.__mro__))
    attributes = set(Store.__annotations__) | set(contract.__annotations__)

    assert public(kind) - attributes - extras == public(contract) - attributes


def test_every_verb_has_a_caller(modules: list[Any]) -> None:
    called = {
        function.attr
        for module in modules
        if not module.name.startswith(("minuet.store", "minuet.simulation"))
        for node in module.nodes
        if isinstance(node, ast.Call)
        # Also one that is given to a function which calls it, perhaps several times.
        for function in (node.func, *node.args)
        if isinstance(function, ast.Attribute)
        if "store" in ast.unparse(function.value) or "source" in ast.unparse(function.value)
    }
    verbs = public(Store) - set(Store.__annotations__) - {"durability"}

    assert verbs - called == set()
