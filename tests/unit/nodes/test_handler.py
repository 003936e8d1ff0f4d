"""Handlers: registering, finding and binding them, without a worker."""

from __future__ import annotations

import importlib.util
import linecache
import runpy
import sys
import types
from pathlib import Path
from typing import Any, Literal

import pytest

from minuet.errors import ConfigError, HandlerError
from minuet.nodes.context import Context
from minuet.nodes.handler import REGISTERED, Handlers, Task
from minuet.nodes.loading import load_module

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
    def perhaps(c: Context | None = None) -> None: ...
    def neither(ctx: str) -> None: ...

    assert bind(perhaps, {}) == {"c": CONTEXT}
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
    def work() -> None: ...

    parent = Handlers()
    own = Handlers(parent)
    own.add(Task(work, name="extra"))
    parent.add(Task(work, name="later"))

    assert own.names() == ["extra", "later"]
    assert own.find("later") is parent.find("later")
    assert parent.names() == ["later"]


def test_a_handler_of_a_file_is_found_by_its_name_and_by_module_and_function(
    tmp_path: Path,
) -> None:
    path = tmp_path / "orders_of_a_test.py"
    path.write_text(
        "import minuet\n\n\n@minuet.task(name='total_of_a_test')\ndef sum_up(): ...\n\n\n"
        "def plain(): ...\nclass NoFunction: ...\n",
        encoding="utf-8",
    )
    handlers = Handlers()
    try:
        handlers.load(str(path))

        assert handlers.find("total_of_a_test").name == "total_of_a_test"
        assert handlers.find("orders_of_a_test:sum_up") is handlers.find("total_of_a_test")
        assert handlers.find("orders_of_a_test:plain").name == "orders_of_a_test:plain"
        with pytest.raises(HandlerError, match="no function 'plane' \\(did you mean 'plain'"):
            handlers.find("orders_of_a_test:plane")
        with pytest.raises(HandlerError, match="'NoFunction', but it is not a public function"):
            handlers.find("orders_of_a_test:NoFunction")
        with pytest.raises(HandlerError, match="--handlers os"):
            handlers.find("os:system")
    finally:
        del sys.modules["orders_of_a_test"]


# ── two handlers of one name ────────────────────────────────────────────────────────────────

TWICE = "import minuet\n\n\n@minuet.task(name='twice_of_a_test')\ndef {function}(): ...\n"


def test_two_modules_that_register_one_name_are_an_error_with_both_places(tmp_path: Path) -> None:
    first, second = tmp_path / "first_of_a_test.py", tmp_path / "second_of_a_test.py"
    first.write_text(TWICE.format(function="twice"))
    second.write_text("\n\n" + TWICE.format(function="twice"))
    load_module(str(first))

    with pytest.raises(ConfigError) as refused:
        load_module(str(second))

    assert str(refused.value) == (
        f"there are two handlers 'twice_of_a_test', at {first}:4 and at {second}:6: "
        'rename one of them, for example with @minuet.task(name="…")'
    )
    assert "second_of_a_test" not in sys.modules


def test_a_built_in_handler_is_not_replaced_by_accident(tmp_path: Path) -> None:
    path = tmp_path / "built_in_of_a_test.py"
    path.write_text("import minuet\n\n\n@minuet.task\ndef output(): ...\n")

    with pytest.raises(ConfigError, match=r"there are two handlers 'output', at .*handler\.py"):
        load_module(str(path))


def test_a_module_that_is_loaded_again_replaces_its_handlers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reloaded after an edit, imported again by a test runner, imported under two names."""
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "again_of_a_test.py"
    path.write_text(TWICE.format(function="twice"))
    module = load_module(str(path))
    path.write_text("# edited\n" + TWICE.format(function="thrice"))
    linecache.clearcache()
    spec = importlib.util.spec_from_file_location("another_name_of_a_test", path)
    assert spec is not None
    assert spec.loader is not None
    other = importlib.util.module_from_spec(spec)

    spec.loader.exec_module(other)
    assert REGISTERED.find("twice_of_a_test") is other.thrice
    importlib.reload(module)
    assert REGISTERED.find("twice_of_a_test") is module.thrice
    del sys.modules["again_of_a_test"]
    again = load_module(str(path))
    assert REGISTERED.find("twice_of_a_test") is again.thrice


def test_a_link_to_a_module_is_the_same_module(tmp_path: Path) -> None:
    path, link = tmp_path / "linked_of_a_test.py", tmp_path / "folder"
    path.write_text(TWICE.format(function="twice"))
    link.symlink_to(tmp_path)
    runpy.run_path(str(link / "linked_of_a_test.py"))

    load_module(str(path))

    assert REGISTERED.find("twice_of_a_test").place == f"{path}:4"


def test_a_script_and_the_module_that_it_is_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "script_of_a_test.py"
    path.write_text(TWICE.format(function="twice"))
    runpy.run_path(str(path), run_name="__main__")

    load_module(str(path))

    assert REGISTERED.find("twice_of_a_test").function.__module__ == "script_of_a_test"


def test_what_somebody_types_again_replaces_what_was_there() -> None:
    """A notebook gives each cell a file of its own."""
    made: list[dict[str, Any]] = [{"__name__": "__main__"}, {"__name__": "__main__"}]
    for number, names in enumerate(made):
        exec(compile(TWICE.format(function="twice"), f"<cell {number}>", "exec"), names)

    assert REGISTERED.find("twice_of_a_test") is made[1]["twice"]
    del REGISTERED._tasks["twice_of_a_test"]


def test_two_files_of_one_name_cannot_both_be_named_in_documents(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "shop_of_a_test.py" for folder in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_text("def sell(): ...\n")
    handlers = Handlers()
    handlers.load(str(paths[0]))

    with pytest.raises(
        ConfigError, match=f"two modules 'shop_of_a_test'.*{paths[0]} and {paths[1]}"
    ):
        handlers.load(str(paths[1]))
    alone = Handlers()
    alone.load(str(paths[1]))
    assert alone.functions() == ["shop_of_a_test:sell"]


# ── modules that cannot be loaded ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1 / 0\n", "{file}:1: ZeroDivisionError: division by zero"),
        ("x = 1\n\ndef f(:\n", "{file}:3: SyntaxError: "),
        ("x = (1,\n", "{file}:1: SyntaxError: '(' was never closed"),
        ("def f():\nreturn 1\n", "{file}:2: IndentationError: expected an indented block"),
        (
            "import no_such_thing\n",
            "{file}:1: ModuleNotFoundError: No module named 'no_such_thing'",
        ),
        ("from json import nothing\n", "{file}:1: ImportError: cannot import name 'nothing'"),
        ("import json\n\n\njson.loads('{')\n", "{file}:4: JSONDecodeError: "),
        ("import sys\nsys.exit('bye')\n", "{file}:2: SystemExit: bye"),
        (
            "import minuet\n\n\n@minuet.task(effects='x')\ndef f(): ...\n",
            "effects must be 'none', 'idempotent' or 'once', not 'x'",
        ),
    ],
)
def test_a_mistake_in_a_module_is_one_sentence_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    broken = tmp_path / "broken_of_a_test.py"
    broken.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError) as refused:
        load_module("broken_of_a_test.py")

    assert problem.format(file="broken_of_a_test.py") in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "broken_of_a_test" not in sys.modules


@pytest.mark.parametrize(
    "name", ["no_such_module_of_a_test", "json.nothing", "shop.txt", "", ".", ".."]
)
def test_a_module_that_is_not_there_is_said_to_be_absent(name: str) -> None:
    with pytest.raises(ConfigError, match="there is no module"):
        load_module(name)


def test_a_file_that_is_not_there_is_said_to_be_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "near_of_a_test.py").write_text("")

    with pytest.raises(ConfigError, match=r"there is no file 'absent\.py'"):
        load_module("absent.py")
    with pytest.raises(ConfigError, match=r"did you mean 'near_of_a_test\.py'"):
        load_module("near_of_a_test")
