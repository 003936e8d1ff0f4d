"""An exception of a step: kept as data, and rebuilt."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from minuet.errors import ChildFailedError, StepFailed
from minuet.functions.exceptions import contents_of, rebuild


class Declined(Exception):
    """Its parameters are not its args."""

    def __init__(self, amount: int, *, currency: str) -> None:
        super().__init__(f"{amount} {currency} is too much")
        self.amount, self.currency = amount, currency

    class Nested(ValueError):
        pass


class Picky(Exception):
    """Cannot be given attributes."""

    @property
    def amount(self) -> int:
        return 1


class Connection:
    """Something that is not JSON."""


def there_and_back(error: BaseException) -> BaseException:
    described = {"type": type(error).__name__, "message": str(error)}
    return rebuild("charge", {**described, **contents_of(error)})


def test_a_class_with_other_parameters_is_rebuilt() -> None:
    error = there_and_back(Declined(5, currency="EUR"))
    assert type(error) is Declined
    assert (error.amount, error.currency, str(error)) == (5, "EUR", "5 EUR is too much")


def test_a_nested_class_is_rebuilt() -> None:
    error = there_and_back(Declined.Nested("deep"))
    assert type(error) is Declined.Nested
    assert error.args == ("deep",)


@pytest.mark.parametrize(
    "error", [KeyError("k"), ValueError(), OSError(2, "gone"), TimeoutError("late")]
)
def test_classes_of_python_are_rebuilt(error: Exception) -> None:
    found = there_and_back(error)
    assert (type(found), found.args, str(found)) == (type(error), error.args, str(error))


def test_a_class_that_is_made_in_a_function_is_not_found() -> None:
    class Local(Exception):
        pass

    error = there_and_back(Local("here"))
    assert isinstance(error, StepFailed)
    assert str(error) == "step 'charge' failed: Local: here"


def test_nothing_is_imported_for_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("not_there_later")
    exec("class Gone(Exception): pass", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    kept = {"type": "Gone", "message": "x", **contents_of(module.Gone("x"))}
    assert type(rebuild("charge", kept)) is module.Gone
    monkeypatch.delitem(sys.modules, module.__name__)
    assert isinstance(rebuild("charge", kept), StepFailed)


def test_arguments_that_are_not_json_are_not_kept() -> None:
    error = there_and_back(ValueError("no", Connection()))
    assert isinstance(error, StepFailed)
    assert "ValueError" in str(error)


def test_attributes_that_are_not_json_are_left_out() -> None:
    original = ValueError("no")
    original.connection, original.code = Connection(), 7  # type: ignore[attr-defined]
    error = there_and_back(original)
    assert vars(error) == {"code": 7}


def test_a_class_that_refuses_its_attributes_gives_what_is_known() -> None:
    kept = {"type": "Picky", "message": "x", **contents_of(Picky("x")), "attributes": {"amount": 2}}
    assert isinstance(rebuild("charge", kept), StepFailed)


@pytest.mark.parametrize("name", ["builtins:KeyboardInterrupt", "builtins:print", "os:system", ""])
def test_only_exceptions_are_rebuilt(name: str) -> None:
    kept: dict[str, Any] = {"type": "X", "message": "x", "class": name, "args": ["true"]}
    assert isinstance(rebuild("charge", kept), StepFailed)


def test_the_failure_of_a_child_run_is_rebuilt() -> None:
    child = ChildFailedError("run-2", "FAILED", {"node": "ship", "message": "no boat"}).child
    error = rebuild("child ship", {"code": "child_failed", "message": "m", "child": child})
    assert isinstance(error, ChildFailedError)
    assert "no boat" in str(error)
