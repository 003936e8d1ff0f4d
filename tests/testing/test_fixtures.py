"""The fixtures for pytest, in a pytest of its own: as users have them, without configuration."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

HANDLERS = """
import minuet

@minuet.task
def charge(amount: int, ctx: minuet.Context) -> dict:
    ctx.log.info("charging")
    return {"charged": amount}

ORDER = {
    "name": "order",
    "nodes": [
        {"id": "charge", "handler": "charge", "config": {"amount": "{{ input.amount }}"}},
        {"id": "later", "type": "wait", "config": {"seconds": 86400}, "dependencies": ["charge"]},
    ],
}
"""

MODULE = "minuet.testing.fixtures"

#: A pytest finds the module by itself, unless the project was installed before it had one.
LOAD = () if entry_points(group="pytest11", name="minuet") else ("-p", MODULE)


def run_pytest(folder: Path, tests: str) -> str:
    """Run these tests; what pytest prints."""
    (folder / "orders.py").write_text(HANDLERS, "utf-8")
    (folder / "test_orders.py").write_text("from orders import *\n" + tests, "utf-8")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--rootdir=.", "-c"]
    done = subprocess.run(
        [*command, "none.ini", *LOAD],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_pytest_finds_the_fixtures_of_an_installed_minuet(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["entry-points"]["pytest11"] == {"minuet": MODULE}


def test_the_fixtures_are_there_without_configuration(tmp_path: Path) -> None:
    (tmp_path / "none.ini").write_text("")
    printed = run_pytest(
        tmp_path,
        """
import asyncio

def test_play(play):
    assert play(ORDER, {"amount": 5}).path == ["charge", "later"]

def test_aplay(aplay):
    played = asyncio.run(aplay(ORDER, {"amount": 5}, handlers={"charge": 7}))
    assert played.nodes["charge"].output == 7

def test_context(handler_context):
    ctx = handler_context(node_id="charge")
    assert charge(5, ctx) == {"charged": 5}
    assert ctx.logs == [("INFO", "charging")]
""",
    )

    assert "3 passed" in printed


def test_a_failed_test_shows_the_runs_that_it_has_played(tmp_path: Path) -> None:
    (tmp_path / "none.ini").write_text("")
    printed = run_pytest(
        tmp_path,
        """
def test_order(play):
    played = play(ORDER, {"amount": 5}, fail={"charge": ValueError("declined")})
    assert played.status == "COMPLETED"
""",
    )

    assert "1 failed" in printed
    assert "played order" in printed
    assert "path: charge" in printed
    assert "error: charge: ValueError: declined" in printed


def test_a_play_that_cannot_go_on_shows_how_far_it_came(tmp_path: Path) -> None:
    (tmp_path / "none.ini").write_text("")
    printed = run_pytest(
        tmp_path,
        """
def test_order(play):
    wait = {"id": "paid", "type": "wait", "config": {"signal": "paid"}, "dependencies": ["charge"]}
    play({"name": "order", "nodes": [ORDER["nodes"][0], wait]}, {"amount": 5})
""",
    )

    assert "PlayError: the run cannot go on" in printed
    assert "path: charge" in printed
    assert "paid: WAITING" in printed


def test_a_test_that_plays_nothing_loads_nothing_of_minuet(tmp_path: Path) -> None:
    (tmp_path / "none.ini").write_text("")
    (tmp_path / "test_cheap.py").write_text(
        "import sys\n"
        "def test_cheap():\n"
        "    loaded = {name for name in sys.modules if name.split('.')[0] == 'minuet'}\n"
        "    assert loaded == {'minuet', 'minuet.testing', 'minuet.testing.fixtures'}\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "none.ini", "--rootdir=.", *LOAD],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout
