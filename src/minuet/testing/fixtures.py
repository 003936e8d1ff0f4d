"""What pytest gets from Minuet: `play`, `aplay` and `handler_context` as fixtures.

pytest loads this in every project that has Minuet installed, so it imports nothing of Minuet before
a test asks for a fixture. The runs that a failed test has played are shown below its failure.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from minuet.testing.fake_context import FakeContext
    from minuet.testing.played import Played

#: The runs that a test has played.
_PLAYED = pytest.StashKey[list[Any]]()

#: How many of them are shown when the test fails: the last ones.
SHOWN_MAX = 3


@pytest.fixture
def play(request: pytest.FixtureRequest) -> Callable[..., Played]:
    """`minuet.testing.play`: run a workflow at once, with stubs and without waiting."""
    from minuet.testing import playing

    def play_and_keep(workflow: Any, input: Any = None, **arguments: Any) -> Played:
        with _keeping(request) as keep:
            return keep(playing.play(workflow, input, **arguments))

    return play_and_keep


@pytest.fixture
def aplay(request: pytest.FixtureRequest) -> Callable[..., Awaitable[Played]]:
    """`minuet.testing.aplay`: the same, to be awaited."""
    from minuet.testing import playing

    async def play_and_keep(workflow: Any, input: Any = None, **arguments: Any) -> Played:
        with _keeping(request) as keep:
            return keep(await playing.aplay(workflow, input, **arguments))

    return play_and_keep


@pytest.fixture
def handler_context() -> Callable[..., FakeContext]:
    """`minuet.testing.context`: make a context to call a handler with."""
    from minuet.testing.fake_context import context

    return context


@contextlib.contextmanager
def _keeping(request: pytest.FixtureRequest) -> Iterator[Callable[[Played], Played]]:
    """Keep the run that a test plays, to show it if the test fails."""
    runs: list[Played] = request.node.stash.setdefault(_PLAYED, [])

    def keep(played: Played) -> Played:
        runs.append(played)
        return played

    try:
        yield keep
    except Exception as error:
        # A play that cannot go on says how far it came.
        if (played := getattr(error, "played", None)) is not None:
            runs.append(played)
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the runs that a failed test has played."""
    report = yield
    if report.when == "call" and report.failed:
        for played in item.stash.get(_PLAYED, [])[-SHOWN_MAX:]:
            from minuet.testing.played import report as describe

            report.sections.append((f"played {played.workflow}", describe(played)))
    return report
