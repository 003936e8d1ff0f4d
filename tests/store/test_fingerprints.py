"""Which errors have the same cause."""

from __future__ import annotations

import pytest

from minuet.store.rules.shared import MESSAGE_LENGTH_MAX, fingerprint


def of(message: str, *, node: str = "pay", code: str = "handler_raised", line: int = 1) -> str:
    trace = [{"file": "shop.py", "line": line, "function": "pay"}]
    error = {"code": code, "type": "ValueError", "message": message, "traceback": trace}
    return fingerprint(node, error)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 is late by 1.5 s", "order 4 is late by 22.75 s"),
        ("balance -3", "balance 12"),
        ("no customer cus_8fj3", "no customer cus_1x9a"),
        (
            "run 550e8400-e29b-41d4-a716-446655440000 ended",
            "run 0198a2b3-7c1d-7e55-9f00-aabbccddeeff ended",
        ),
        ("<Order object at 0x7f3a9c01d2e0>", "<Order object at 0x10be4f>"),
        ("digest deadbeefcafe", "digest abcdefabcdef"),
        ("at 2026-11-17T16:00:00.123Z", "at 2025-01-02T03:04:05Z"),
        ("cannot connect to 10.0.0.7:5432", "cannot connect to 127.0.0.1:80"),
        ("no file /tmp/tmpabcdefgh/out.csv", "no file /var/folders/xy/zz/T/other/report.csv"),
        ("no file C:\\Users\\me\\AppData\\Local\\Temp\\q\\a.txt", "no file C:\\Temp\\b"),
        ("two  spaces\nand lines", "two spaces and lines"),
    ],
)
def test_what_differs_each_time_does_not_count(one: str, other: str) -> None:
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("the card was declined", "the card has expired"),
        ("'name'", "'street'"),
        ("no file orders.csv", "no file /tmp/orders.csv"),
    ],
)
def test_other_words_are_another_cause(one: str, other: str) -> None:
    assert of(one) != of(other)


def test_the_node_and_the_code_count_and_the_line_does_not() -> None:
    assert of("x", line=1) == of("x", line=2)
    assert len({of("x"), of("x", node="ship"), of("x", code="timeout")}) == 3


@pytest.mark.parametrize("message", [None, 7, "\ud800", "a-" * 100_000, "C:/" * 100_000, "", "#.#"])
def test_any_message_has_a_fingerprint(message: object) -> None:
    assert len(fingerprint("n", {"message": message})) == 16
    assert len(fingerprint("n", {})) == 16


def test_only_the_beginning_of_a_long_message_counts() -> None:
    long = "word " * MESSAGE_LENGTH_MAX

    assert of(long + "x") == of(long + "y")
