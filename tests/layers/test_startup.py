"""Starting is fast: what a command does not need is not imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: Each costs from a few to hundreds of milliseconds and is needed by some commands only.
HEAVY = {
    *(
        "jinja2",
        "minuet.conditions.cel",
        "zoneinfo",
        "jsonschema_rs",
        "yaml",
        "rich",
        "apsw",
        "sqlite3",
    ),
    *("asyncio", "uvloop", "concurrent.futures", "multiprocessing", "ssl", "http.client"),
    *("urllib.request", "importlib.metadata", "email", "unittest", "hypothesis", "pytest"),
}


@pytest.mark.parametrize(
    ("module", "file"),
    [("minuet", "__init__.py"), ("minuet.cli.main", "cli/main.py")],
)
def test_importing_it_leaves_heavy_libraries_alone(root: Path, module: str, file: str) -> None:
    if not (root / "src/minuet" / file).exists():
        pytest.skip(f"src/minuet/{file} is not written yet")

    assert not HEAVY & modules_after(f"import {module}")


def test_a_heavy_library_would_be_noticed() -> None:
    assert {"asyncio", "yaml"} <= HEAVY & modules_after("import asyncio, yaml")


def modules_after(statement: str) -> set[str]:
    """Run the statement in a new interpreter and say what that imported.

    Whatever the interpreter imports by itself (site, the finder of editable installs) is not
    the statement's doing.
    """
    program = (
        "import sys, json; before = set(sys.modules); "
        f"{statement}; print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(finished.stdout))
