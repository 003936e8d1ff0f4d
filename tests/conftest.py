"""What every test may use. Fixtures of one part of the suite live in that part's conftest.

Coroutine tests need no mark: `anyio_mode = "auto"` in pyproject.toml runs them on asyncio.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

#: The project's folder.
ROOT = Path(__file__).resolve().parent.parent

#: The original documents and test data, beside the project; not part of it.
SHARED = ROOT.parent / "shared"

# Repeatable, so that a failure is about the change at hand; `--hypothesis-profile=explore`
# searches at random. No deadline: a busy machine is no bug.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder `shared` beside the project; without it the test is skipped."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder `shared` beside the project, which is absent")
    return SHARED


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run coroutine tests on asyncio only."""
    return "asyncio"
