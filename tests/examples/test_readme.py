"""The README's example does what the README says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path


def blocks(root: Path) -> dict[str, str]:
    """The README's code blocks that begin with a file's name."""
    text = (root / "README.md").read_text("utf-8")
    found = re.findall(r"```\w+\n# (\S+)\n(.*?)```", text, re.DOTALL)
    return dict(found)


def test_the_readmes_example_runs_with_the_readmes_commands(root: Path, tmp_path: Path) -> None:
    for name, text in blocks(root).items():
        (tmp_path / name).write_text(text)

    def minuet(*arguments: str) -> str:
        command = [sys.executable, "-m", "minuet", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    result = json.loads(minuet("run", "order.yaml", "-i", "order_id=7", "--json"))

    assert result["output"] == "parcel-7"
    assert "COMPLETED" in minuet("runs", "show", "last")
    assert "check" in minuet("runs", "why", "last", "check")
    assert "price" in minuet("runs", "replay", "last", "--at", "5")
    minuet("resume")
    minuet("doctor")
