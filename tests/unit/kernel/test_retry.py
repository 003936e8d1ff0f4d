from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minuet.kernel.retry import retry_delay_ms
from minuet.kernel.settle import AttemptFailed
from minuet.plan.plan import Retry

TEMPORARY = AttemptFailed({"code": "timeout"}, retryable=True)
PLAIN = Retry(jitter=False)


@pytest.mark.shows("J-08", "J-11")
def test_delays_start_at_one_second_and_double() -> None:
    patient = msgspec.structs.replace(PLAIN, max_attempts=99)

    delays = [retry_delay_ms(patient, attempt, TEMPORARY, 0.0) for attempt in range(1, 10)]

    assert delays == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]


@pytest.mark.shows("J-10", "J-11")
def test_the_third_attempt_is_the_last_by_default() -> None:
    assert retry_delay_ms(PLAIN, 2, TEMPORARY, 0.0) == 2000
    assert retry_delay_ms(PLAIN, 3, TEMPORARY, 0.0) is None


@pytest.mark.shows("J-12")
def test_a_policy_of_its_own_replaces_the_defaults() -> None:
    own = Retry(max_attempts=2, backoff_ms=50, multiplier=10.0, max_delay_ms=400, jitter=False)

    assert retry_delay_ms(own, 1, TEMPORARY, 0.0) == 50
    assert retry_delay_ms(own, 2, TEMPORARY, 0.0) is None
    longer = msgspec.structs.replace(own, max_attempts=9)
    assert retry_delay_ms(longer, 2, TEMPORARY, 0.0) == 400


@pytest.mark.shows("J-09")
def test_jitter_adds_up_to_a_quarter() -> None:
    assert retry_delay_ms(Retry(), 1, TEMPORARY, 0.0) == 1000
    assert retry_delay_ms(Retry(), 1, TEMPORARY, 0.5) == 1125
    assert retry_delay_ms(Retry(), 1, TEMPORARY, 0.999999) == 1249


@given(st.integers(1, 100_000), st.floats(0, 1, exclude_max=True), st.booleans())
def test_no_delay_is_longer_than_the_longest(attempt: int, fraction: float, jitter: bool) -> None:
    policy = Retry(max_attempts=10**6, jitter=jitter)

    delay = retry_delay_ms(policy, attempt, TEMPORARY, fraction)

    assert delay is not None
    assert 1000 <= delay <= 60_000


@pytest.mark.shows("J-07")
def test_a_time_that_was_asked_for_wins_over_the_policy() -> None:
    asked = msgspec.structs.replace(TEMPORARY, after_ms=90_000)

    assert retry_delay_ms(PLAIN, 1, asked, 0.0) == 90_000
    assert retry_delay_ms(PLAIN, 1, msgspec.structs.replace(asked, after_ms=5), 0.0) == 5


@pytest.mark.shows("J-31")
def test_a_permanent_failure_is_not_repeated() -> None:
    assert retry_delay_ms(Retry(), 1, AttemptFailed({"code": "bad"}, after_ms=5), 0.0) is None
