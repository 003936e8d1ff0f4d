"""What every test may use. Fixtures of one part of the suite live in that part's conftest.

Coroutine tests need no mark: `anyio_mode = "auto"` in pyproject.toml runs them on asyncio.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from minuet.app.app import App
from minuet.nodes.handler import REGISTERED

from . import folding, servers

#: The project's folder.
ROOT = Path(__file__).resolve().parent.parent

#: The original documents and test data, beside the project; not part of it.
SHARED = ROOT.parent / "shared"

#: A user without any rights, wherever there is one.
NOBODY = 65534

# Repeatable, so that a failure is about the change at hand; `--hypothesis-profile=explore`
# searches at random. No deadline: a busy machine is no bug.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile("repeatable")


def pytest_configure() -> None:
    """Let Ctrl-C reach the processes that tests start.

    A shell has a program in the background ignore it, and processes inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spare the search for cycles all that is collected: it stays until the end anyway.

    These are modules, and many objects for each of thousands of tests. To look at them again and
    again takes a third of the time of collecting, and a fifth of that of the unit tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Tests make little garbage in cycles: looking for it less often saves a twentieth.
        gc.set_threshold(50_000, 20, 50)
        gc.enable()


def pytest_collection_finish() -> None:
    """From here on nothing is compiled to a file, here and in the processes that tests start.

    The suite itself is read from such files, which saves much time. But Python tells from a
    file's size and the second of its last change whether it is still current, and tests write
    modules faster than that.
    """
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


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


#: Comparisons of stored rows with histories that all test processes have made.
_compared = 0


@pytest.fixture(scope="session", autouse=True)
def histories(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[folding.Findings]:
    """Have every App of this process, and of those that it starts, compare rows with events."""
    global _compared
    folder = tmp_path_factory.mktemp("folding")
    os.environ[folding.FOLDER] = str(folder)
    places = [str(ROOT / "tests" / "children"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    folding.install(App)
    findings = folding.Findings(folder)
    yield findings
    _compared = findings.compared().total()
    if hasattr(request.config, "workeroutput"):
        request.config.workeroutput["compared"] = _compared


@pytest.fixture(autouse=True)
def histories_agree(histories: folding.Findings) -> Iterator[None]:
    """Fail a test that has left a difference, in whichever process."""
    servers.tidy()
    yield
    assert not (found := histories.take_differences()), "\n".join(found)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A test process of several has ended."""
    global _compared
    _compared += getattr(node, "workeroutput", {}).get("compared", 0)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"fold(events) == stored state: {_compared} comparisons")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run coroutine tests on asyncio only."""
    return "asyncio"


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """Be a user to whom permissions apply, and have a folder of one's own.

    Root may read and write everything, so a test about permissions says nothing to it.
    """
    folder = Path(tempfile.mkdtemp())
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if is_root:
            os.seteuid(0)
        shutil.rmtree(folder)


@pytest.fixture(autouse=True)
def no_store_is_left_in_the_project() -> Iterator[None]:
    """Whoever needs a store asks for one in a temporary folder, or in memory."""
    yield
    left = ROOT / "minuet.db"
    if left.exists():
        left.unlink()
        pytest.fail("the test has used the default store in the project's folder")


@pytest.fixture(autouse=True)
def handlers_of_temporary_files_are_forgotten(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[None]:
    """Two tests may write files with handlers of the same name: they are not one program."""
    before = set(sys.modules)
    types = dict(REGISTERED._types)
    yield
    REGISTERED._types.clear()
    REGISTERED._types.update(types)
    temporary = str(tmp_path_factory.getbasetemp().resolve())
    tasks = REGISTERED._tasks
    for name in [name for name, task in tasks.items() if task.place.startswith(temporary)]:
        del tasks[name]
    for name in sys.modules.keys() - before:
        if _lies_in(sys.modules[name], temporary):
            del sys.modules[name]


def _lies_in(module: object, folder: str) -> bool:
    return str(getattr(module, "__file__", None) or "").startswith(folder)
