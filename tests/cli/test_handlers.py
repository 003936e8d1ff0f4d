"""Handlers that are missing, misplaced or broken: what people are told."""

from __future__ import annotations

from typing import Any

import pytest

from .test_signals import read_until

LOAD = "name: order\nnodes:\n  - {id: a, handler: load}\n"


def test_a_handler_in_another_file_is_found_and_the_option_is_named(
    folder: Any, minuet: Any
) -> None:
    folder.write("order.yaml", LOAD)
    folder.write("order.py", "import minuet\n")
    folder.write("my tasks.py", "import minuet\n\n\n@minuet.task\ndef load():\n    return 1\n")

    called = minuet("run", "order.yaml")
    again = minuet("run", "order.yaml", "--handlers", "order.py", "--handlers", "my tasks.py")

    assert called.code == 2
    assert "order.yaml:3:22: error[unknown-handler]: there is no handler 'load'" in called.err
    hint = "my tasks.py defines 'load': add --handlers order.py --handlers 'my tasks.py'"
    assert f"  hint: {hint}\n" in called.err
    assert again.code == 0


def test_a_function_that_is_not_registered_is_named_with_its_place(
    folder: Any, minuet: Any
) -> None:
    folder.write("order.yaml", LOAD)
    folder.write("order.py", "import minuet\n\n\ndef load():\n    return 1\n")

    called = minuet("run", "order.yaml")

    assert called.code == 2
    assert (
        f"there is no handler 'load', but a function at {folder.path}/order.py:4: "
        "write @minuet.task above it, or name it as 'order:load'" in called.err
    )


@pytest.mark.parametrize("command", [["run", "order.yaml"], ["worker"], ["resume"]])
@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        (
            "broken.py",
            "import minuet\n\n\ndef load()\n",
            "handlers 'broken.py' cannot be imported: broken.py:4: SyntaxError: expected ':'",
        ),
        (
            "broken",
            "import no_such_library\n",
            "handlers 'broken' cannot be imported: broken.py:1: ModuleNotFoundError: "
            "No module named 'no_such_library'",
        ),
        (
            "brken",
            "",
            "there is no module 'brken' to take handlers from: --handlers takes the name of a "
            "module or a .py file",
        ),
        ("brken.py", "", "there is no file 'brken.py' to take handlers from"),
        (
            "broken.py",
            "import minuet\n\n\n@minuet.task\ndef input(): ...\n",
            "there are two handlers 'input', at ",
        ),
    ],
)
def test_handlers_that_cannot_be_loaded_are_one_line(
    folder: Any, minuet: Any, command: list[str], name: str, text: str, problem: str
) -> None:
    folder.write("order.yaml", LOAD)
    folder.write("broken.py", text)

    called = minuet(*command, "--handlers", name)

    assert called.code == 2
    assert called.err.startswith(f"minuet: {problem}")
    assert called.err.count("\n") == 1
    assert called.out == ""
    assert not folder.exists("minuet.db")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "name them with --handlers MODULE_OR_FILE"),
        (
            ("--handlers", "empty.py"),
            "empty.py registers none: write @minuet.task above a function",
        ),
    ],
)
def test_a_worker_without_handlers_says_so(
    folder: Any, spawn: Any, finish: Any, options: tuple[str, ...], told: str
) -> None:
    folder.write("empty.py", "x = 1\n")
    worker = spawn("worker", *options)

    text = read_until(worker, "need no handlers")
    worker.terminate()

    assert f"this worker runs only nodes that need no handlers; {told}\n" in text
    assert finish(worker).code == 0


def test_input_that_does_not_fit_says_how_to_give_it(folder: Any, minuet: Any) -> None:
    folder.write(
        "w.yaml",
        "name: w\ninput: {type: object, required: [name]}\nnodes:\n  - {id: a, type: noop}\n",
    )

    called = minuet("run", "w.yaml")

    assert called.code == 2
    assert '"name" is a required property' in called.err
    assert called.err.endswith("Give the input with -i key=value, -i JSON or -i @FILE.\n")
