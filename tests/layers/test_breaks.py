"""The tool that breaks code: what it breaks, and that the running process feels it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from tools.breaks import Break, constant_breaks, find_functions, line_breaks, plant

SOURCE = """\
LIMIT = 3


def check(n):
    if n > LIMIT:
        raise ValueError(n)
    return n


class Counter:
    def __init__(self):
        self.n = 0

    def add(self):
        self.n += 2

        def read():
            return self.n

        return read
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "broken_example.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("broken_example", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def broken(module: ModuleType, line: int) -> Break:
    (found,) = line_breaks([(str(module.__file__), line)])
    return found


def break_line(module: ModuleType, line: int) -> bool:
    assert module.__file__ is not None
    return plant(broken(module, line), find_functions(Path(module.__file__).parent))


def test_a_condition_is_turned_round(module: ModuleType) -> None:
    assert break_line(module, 5)

    assert module.check(4) == 4
    with pytest.raises(ValueError, match="3"):
        module.check(3)


def test_an_exception_is_not_raised_and_a_result_is_another(module: ModuleType) -> None:
    assert break_line(module, 6)
    assert module.check(4) == 4

    assert break_line(module, 7)
    assert module.check(1) is None


def test_a_method_is_broken_in_objects_that_exist(module: ModuleType) -> None:
    counter = module.Counter()

    assert break_line(module, 15)

    assert counter.add()() == 3


def test_a_function_that_would_take_less_from_outside_cannot_be_planted(
    module: ModuleType,
) -> None:
    made = module.Counter().add()  # It is alive, and needs `self`.

    assert not break_line(module, 18)
    assert made() == 2


def test_a_constant_that_lines_name_is_another(module: ModuleType) -> None:
    (found,) = constant_breaks([(str(module.__file__), 5), (str(module.__file__), 7)])

    assert found.constant == ("LIMIT", 4)
    assert "LIMIT = 4" in found.text
    assert "if n > LIMIT" in found.text


def test_a_line_that_says_nothing_is_not_broken(module: ModuleType) -> None:
    assert list(line_breaks([(str(module.__file__), 2), (str(module.__file__), 4)])) == []
