"""Regular expressions: what they match, what is refused, and that they take linear time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minuet.conditions.cel.errors import EvaluationError
from minuet.conditions.cel.regex import compile_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("b", "abc", True),
        ("", "", True),
        ("^abc$", "abc", True),
        ("^abc$", "abc\n", False),
        ("(?m)^b$", "a\nb\nc", True),
        ("^b$", "a\nb\nc", False),
        ("a.c", "a\nc", False),
        ("(?s)a.c", "a\nc", True),
        ("^a{2,3}$", "aa", True),
        ("^a{2,3}$", "aaaa", False),
        ("^a{2}$", "aaa", False),
        ("^a{2,}$", "aaaaa", True),
        ("a{,2}", "a{,2}", True),
        ("^(ab|c)+$", "abcab", True),
        ("^(?:a|)b$", "b", True),
        ("^(?P<x>a)(?<y>b)$", "ab", True),
        ("^a*?b+?c??$", "aabb", True),
        ("[^a-c]", "abc", False),
        ("^[]a]+$", "a]", True),
        ("^[a-]+$", "a-", True),
        ("^[[:digit:][:^alnum:]]+$", "1-2", True),
        (r"^[\d\-]+$", "1-2", True),
        (r"^\w+\s\D\W\S$", "ab x!y", True),
        (r"\d", "٣", False),
        (r"\bfoo\b", "a foo b", True),
        (r"\bfoo\b", "afoo b", False),
        (r"\Boo\b", "foo", True),
        (r"\Aab\z", "ab", True),
        (r"^\x61\x{1F600}\141\0$", "a😀a\0", True),
        (r"^\Qa.b\E$", "a.b", True),
        (r"^\Qa.b\E$", "axb", False),
        (r"\Q.", ".", True),
        (r"^\pL\p{Lu}\P{Nd}\p{^L}$", "äÄx1", True),
        (r"^[\p{Greek}]", "α", None),
        ("(?i)STRASSE", "strasse", True),
        ("(?i)^[a-c]+$", "AbC", True),
        ("(?i:a)b", "Ab", True),
        ("(?i:a)b", "AB", False),
        ("(?i)a(?-i)b", "AB", False),
        ("(?i)k", "\u212a", True),
        ("(?i)\u212a", "k", True),
        ("(?i)[^a]", "A", False),
        ("^ü+$", "üü", True),
        ("$", "a", True),
        ("a$b", "ab", False),
        ("(|a)+$", "b", True),
        ("(a*)*b", "aaaa", False),
        (r"^(\d{3})-?\d{4}$", "555-1234", True),
    ],
)
def test_pattern_matches(pattern: str, text: str, expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(EvaluationError, match="categories"):
            compile_pattern(pattern, 1000)
        return
    machine = compile_pattern(pattern, 1000)

    assert machine.search(text) is expected
    # Again, with what it remembers.
    assert machine.search(text) is expected


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing )"),
        (")", "unexpected )"),
        ("[a", "missing ]"),
        ("[b-a]", "bad range"),
        ("*a", "nothing to repeat"),
        ("a**", "repetition of a repetition"),
        ("a{2,1}", "bad repetition"),
        ("a{1001}", "bad repetition"),
        (r"(a)\1", "backreferences are not available"),
        ("(?=a)", "lookahead and lookbehind"),
        ("(?<!a)b", "lookahead and lookbehind"),
        (r"\y", "unknown escape"),
        ("a\\", "trailing"),
        ("[[:nope:]]", "unknown class"),
        (r"\x{110000}", "no such character"),
        ("(a{500}){500}", "more than 1000 states"),
        ("(" * 60 + ")" * 60, "nested deeper"),
        ("a" * 1001, "1000 are allowed"),
    ],
)
def test_pattern_that_is_not_valid_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(EvaluationError, match=re.escape(message)):
        compile_pattern(pattern, 1000)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 20_000 + "b"),
        ("(a|a)*b", "a" * 20_000),
        ("(a|aa)+c", "a" * 20_000),
        ("(x+x+)+y", "x" * 20_000),
        ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 20_000),
        ("(.*)(.*)(.*)(.*)(.*)!", "a" * 20_000),
        ("a?" * 100 + "a" * 100 + "b", "a" * 20_000),
        ("[ab]*a[ab]{12}c", "ab" * 10_000),
    ],
)
def test_pattern_takes_linear_time(pattern: str, text: str) -> None:
    started = time.perf_counter()

    assert not compile_pattern(pattern, 1000).search(text)

    # Going back, as Python's own expressions do, would take longer than there is time.
    assert time.perf_counter() - started < 30


PARTS = st.sampled_from(
    ["a", "b", "ab", ".", "[ab]", "[^a]", "(a|b)", "(a|)", "^", "$", "x", r"\b", "(?:ab)"]
)
MARKS = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}", "|", "*?"])
PATTERNS = st.lists(st.tuples(PARTS, MARKS).map("".join), min_size=1, max_size=6).map("".join)


@given(PATTERNS, st.lists(st.text("abx\n ", max_size=8), min_size=1, max_size=5))
def test_pattern_matches_what_python_matches(pattern: str, texts: list[str]) -> None:
    try:
        # Python's `$` also matches before the newline that ends a text.
        reference = re.compile(pattern.replace("$", r"\Z"), re.ASCII)
    except re.error:
        return
    machine = compile_pattern(pattern, 1000)
    for text in texts:
        assert machine.search(text) is (reference.search(text) is not None)
