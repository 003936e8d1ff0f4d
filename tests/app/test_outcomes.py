"""What errors are to the outside: exit codes and HTTP statuses."""

from __future__ import annotations

import inspect

import pytest

from minuet import errors
from minuet.errors import ConfigError, MinuetError, RunConflictError
from minuet.outcomes import FAILED, INVALID, OF_STATUS, OUTCOMES, outcome_of
from minuet.types import TERMINAL

PUBLIC: set[type[BaseException]] = {
    found
    for _, found in inspect.getmembers(errors, inspect.isclass)
    if issubclass(found, BaseException) and found.__module__ == errors.__name__
}


def test_every_error_is_in_the_table() -> None:
    assert OUTCOMES.keys() == PUBLIC
    assert len(PUBLIC) > 20


@pytest.mark.parametrize("kind", sorted(PUBLIC, key=str))
def test_an_outcome_is_an_error_and_has_a_title(kind: type[BaseException]) -> None:
    outcome = OUTCOMES[kind]

    assert outcome.exit_code in (1, 2, 3)
    assert 400 <= outcome.http_status <= 599
    assert outcome.title


def test_codes_of_errors_are_unique() -> None:
    codes = [kind.code for kind in PUBLIC if issubclass(kind, MinuetError)]

    assert len(codes) == len(set(codes))


def test_every_way_to_end_has_an_exit_code() -> None:
    assert set(OF_STATUS) == TERMINAL
    assert sorted(OF_STATUS.values()) == [0, 1, 3]


def test_an_error_of_ones_own_is_what_its_base_is() -> None:
    class Mine(ConfigError):
        pass

    assert outcome_of(Mine("x")) == OUTCOMES[ConfigError]
    assert outcome_of(Mine("x")).exit_code == INVALID
    assert outcome_of(RunConflictError("r", "is over")).exit_code == FAILED
    assert outcome_of(ValueError("x")).http_status == 500
