"""A document of 50 MB is refused in one sentence, at once, and nothing is written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["large.yaml", "large.json"])
def test_a_document_of_50_mb_is_refused(tmp_path: Path, name: str) -> None:
    text = '{"name": "large", "nodes": [' + '{"id": "a", "type": "noop"},' * (50_000_000 // 28)
    (tmp_path / name).write_text(text + '{"id": "z", "type": "noop"}]}')

    done = subprocess.run(
        [sys.executable, "-m", "minuet", "run", name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert "error[too-large]" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
