"""Functions that sleep, measured with few of them: they wake, and none too early."""

from __future__ import annotations

import argparse

import pytest
from bench.asleep import measure


@pytest.mark.slow
async def test_functions_that_sleep_are_measured() -> None:
    found = await measure(argparse.Namespace(functions=50, share=0.5), "memory://")

    assert found["all_asleep_before_the_first_woke"]
    assert len(found["memory_mb"]) == 4
    assert 0 <= found["late_ms"]["median"] <= found["late_ms"]["p99"] <= found["late_ms"]["most"]
