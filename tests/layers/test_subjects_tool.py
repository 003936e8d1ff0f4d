"""`python -m tools.subjects`: what it says of the subjects of commits."""

from __future__ import annotations

import pytest
from tools.subjects import problems


@pytest.mark.parametrize(
    "subject",
    [
        "kernel: refuse a second arrival",
        "store: pass the lease on",
        "sqlite: read `upto` once",
        "Merge plainer documentation",
        "docs: write " + "x" * 60,
    ],
)
def test_a_good_subject_is_not_reported(subject: str) -> None:
    assert problems(subject) == []


@pytest.mark.parametrize(
    ("subject", "problem"),
    [
        ("refuse a second arrival", "area"),
        ("Kernel: refuse a second arrival", "area"),
        ("kernel: Refuse a second arrival", "capital"),
        ("kernel: refuse a second arrival.", "full stop"),
        ("kernel: refuse " + "x" * 60, "75 characters"),
        ("kernel: refused a second arrival", "imperative"),
        ("kernel: refuses a second arrival", "imperative"),
        ("kernel: refusing a second arrival", "imperative"),
        ("kernel: the second arrival", "imperative"),
    ],
)
def test_a_subject_that_is_not_as_agreed_is_reported(subject: str, problem: str) -> None:
    (found,) = problems(subject)

    assert problem in found
