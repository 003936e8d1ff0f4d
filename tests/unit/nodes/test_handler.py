"""Handlers: registering, finding and binding them, without a worker."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any, Literal

import pytest

from minuet.errors import ConfigError, HandlerError
from minuet.nodes.context import Context
from minuet.nodes.handler import Handlers, Task, load_module

CONTEXT: Any = object()


def bind(function: Any, config: dict[str, Any]) -> dict[str, Any]:
    return Task(function).bind(config, CONTEXT)


def test_a_task_is_still_its_function() -> None:
    def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    task = Task(add)

    assert task(2) == 3
    assert (task.name, task.__doc__, task.is_async) == ("add", "Add.", False)


def test_a_context_is_found_by_its_type_or_by_its_name() -> None:
    def by_name(ctx) -> None: ...  # type: ignore[no-untyped-def]
    def by_type(c: Context) -> None: ...
    def neither(ctx: str) -> None: ...

    assert bind(by_name, {}) == {"ctx": CONTEXT}
    assert bind(by_type, {}) == {"c": CONTEXT}
    assert bind(neither, {"ctx": "x"}) == {"ctx": "x"}


def test_defaults_are_left_to_the_function() -> None:
    def work(a: int, b: int = 2, *, c: int, d: int = 4) -> None: ...

    assert bind(work, {"a": 1, "c": 3}) == {"a": 1, "c": 3}
    with pytest.raises(HandlerError, match="needs the argument 'c'"):
        bind(work, {"a": 1})


def test_a_function_that_takes_all_gets_all() -> None:
    def work(a: int, **rest: Any) -> None: ...

    assert bind(work, {"a": 1, "x": 2}) == {"a": 1, "x": 2}


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (int, 1, 1),
        (float, 1, 1.0),
        (str | None, None, None),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (set[str], ["a"], {"a"}),
        (Literal["a", "b"], "a", "a"),
        (Any, {"x": 1}, {"x": 1}),
    ],
)
def test_an_argument_becomes_what_its_hint_says(hint: Any, value: Any, expected: Any) -> None:
    def work(a) -> None: ...  # type: ignore[no-untyped-def]

    work.__annotations__["a"] = hint

    assert bind(work, {"a": value}) == {"a": expected}


@pytest.mark.parametrize(
    ("hint", "value"), [(int, "1"), (int, 1.5), (list[int], ["a"]), (Literal["a"], "b"), (str, 1)]
)
def test_an_argument_of_another_type_is_refused_by_name(hint: Any, value: Any) -> None:
    def work(a) -> None: ...  # type: ignore[no-untyped-def]

    work.__annotations__["a"] = hint

    with pytest.raises(HandlerError, match="handler 'work', argument 'a'"):
        bind(work, {"a": value})


def test_hints_that_cannot_be_resolved_are_left_alone() -> None:
    def work(a: NoSuchType, b: types.ModuleType) -> None: ...  # type: ignore[name-defined] # noqa: F821

    assert bind(work, {"a": 1, "b": 2}) == {"a": 1, "b": 2}


def test_handlers_are_looked_up_in_their_parent_and_not_added_to_it() -> None:
    parent = Handlers()
    own = Handlers(parent)
    own.add(Task(lambda: None, name="extra"))
    parent.add(Task(lambda: None, name="later"))

    assert own.names() == ["extra", "later"]
    assert own.find("later") is parent.find("later")
    assert parent.names() == ["later"]


def test_a_handler_of_a_file_is_found_by_its_name_and_by_module_and_function(
    tmp_path: Path,
) -> None:
    path = tmp_path / "orders_of_a_test.py"
    path.write_text(
        "import minuet\n\n\n@minuet.task(name='total')\ndef sum_up(): ...\n\n\ndef plain(): ...\n"
        "class NoFunction: ...\n",
        encoding="utf-8",
    )
    handlers = Handlers()
    try:
        handlers.load(str(path))

        assert handlers.find("total").name == "total"
        assert handlers.find("orders_of_a_test:sum_up") is handlers.find("total")
        assert handlers.find("orders_of_a_test:plain").name == "orders_of_a_test:plain"
        with pytest.raises(HandlerError, match="no function 'plane' \\(did you mean 'plain'"):
            handlers.find("orders_of_a_test:plane")
        with pytest.raises(HandlerError, match="no function 'NoFunction'"):
            handlers.find("orders_of_a_test:NoFunction")
        with pytest.raises(HandlerError, match="--handlers os"):
            handlers.find("os:system")
    finally:
        del sys.modules["orders_of_a_test"]


def test_a_module_that_cannot_be_loaded_is_an_error_of_configuration(tmp_path: Path) -> None:
    broken = tmp_path / "broken_of_a_test.py"
    broken.write_text("1 / 0\n", encoding="utf-8")

    with pytest.raises(ConfigError, match="no file"):
        load_module(str(tmp_path / "absent.py"))
    with pytest.raises(ConfigError, match="ZeroDivisionError"):
        load_module(str(broken))
    with pytest.raises(ConfigError, match="ModuleNotFoundError"):
        load_module("no_such_module_of_a_test")
    assert "broken_of_a_test" not in sys.modules
