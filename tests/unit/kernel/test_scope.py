from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minuet.kernel.scope import decode, encode, show

scopes = st.lists(st.integers(0, 10**12), max_size=6).map(tuple)


@given(scopes)
def test_a_scope_is_read_back_as_it_was_written(scope: tuple[int, ...]) -> None:
    assert decode(encode(scope)) == scope


@given(scopes, scopes)
def test_scopes_sort_as_text_like_the_numbers(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert (encode(one) < encode(other)) == (one < other)


@given(scopes, scopes)
def test_a_prefix_of_the_text_is_a_prefix_of_the_scope(
    one: tuple[int, ...], other: tuple[int, ...]
) -> None:
    assert encode(one).startswith(encode(other)) == (one[: len(other)] == other)


def test_a_scope_is_shown_in_brackets_and_the_outermost_not_at_all() -> None:
    assert show((2, 0)) == "[2.0]"
    assert show(()) == ""
