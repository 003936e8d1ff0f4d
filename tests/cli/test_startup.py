"""What a command does not need is not imported."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest


def imported_by(*arguments: str) -> set[str]:
    """The modules that a command imports, in a process of its own."""
    program = (
        "import json, sys; from minuet.cli.main import main; "
        f"main({list(arguments)!r}); print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(json.loads(finished.stderr.splitlines()[-1]))


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], {"msgspec", "asyncio", "yaml", "jinja2", "rich", "apsw", "minuet.app"}),
        (["run", "--help"], {"msgspec", "asyncio", "yaml", "jinja2", "rich", "apsw"}),
        (["node-types"], {"asyncio", "yaml", "jinja2", "rich", "apsw", "minuet.conditions.cel"}),
        (["validate", "w.yaml"], {"rich", "apsw", "minuet.conditions.cel", "sqlite3"}),
        (["run", "w.yaml"], {"rich", "minuet.conditions.cel", "sqlite3"}),
    ],
)
def test_a_command_leaves_alone_what_it_does_not_need(
    folder: Any, arguments: list[str], unwanted: set[str]
) -> None:
    folder.write("w.yaml", "name: w\nnodes:\n  - {id: a, type: noop}\n")

    assert not unwanted & imported_by(*arguments)
