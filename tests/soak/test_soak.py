"""Six seconds of the soak that `make soak` makes of half an hour: it finds nothing wrong, and it
ends what it started, also when it is interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests import folding


def soak(root: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    # Whoever compares all events after each call is busy with that alone.
    environment = {name: value for name, value in os.environ.items() if name != folding.FOLDER}
    return subprocess.Popen(
        [sys.executable, "-m", "bench.soak.main", "--out", str(out), *options],
        cwd=root,
        env={**environment, "TMPDIR": str(out)},
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(folder: Path) -> list[str]:
    """Command lines that name a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{folder}/minuet-soak-" in words:
            found.append(words)
    return found


@pytest.mark.slow
def test_a_short_soak_finds_nothing_wrong_and_leaves_a_page(root: Path, tmp_path: Path) -> None:
    process = soak(root, tmp_path, "--store", "sqlite", "--minutes", "0.1")
    _, told = process.communicate(timeout=240)

    assert process.returncode == 0, told
    page = (tmp_path / "sqlite.md").read_text(encoding="utf-8")
    assert "**Passed**" in page
    (completed,) = re.findall(r"started: ([\d,]+) completed", page)
    assert int(completed.replace(",", "")) > 0
    pictures = re.findall(r"!\[.+\]\((.+)\)", page)
    assert len(pictures) >= 5
    for picture in pictures:
        assert ElementTree.parse(tmp_path / picture).getroot().tag.endswith("svg")
    assert not processes_of(tmp_path)
    assert not list(tmp_path.glob("minuet-soak-*")), "its folder is still there"


@pytest.mark.slow
def test_an_interrupted_soak_ends_its_processes_and_still_leaves_a_page(
    root: Path, tmp_path: Path
) -> None:
    process = soak(root, tmp_path, "--store", "sqlite", "--minutes", "1")
    assert process.stderr is not None
    for line in process.stderr:
        if "soaking" in line:
            break
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=240)

    assert process.returncode == 130, told
    assert "(interrupted)" in (tmp_path / "sqlite.md").read_text(encoding="utf-8")
    assert not processes_of(tmp_path)
    assert not list(tmp_path.glob("minuet-soak-*")), "its folder is still there"


@pytest.mark.parametrize("minutes", ["0", "-1", "half"])
def test_a_time_that_is_none_is_refused_in_one_sentence(
    root: Path, tmp_path: Path, minutes: str
) -> None:
    process = soak(root, tmp_path, "--store", "sqlite", "--minutes", minutes)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 2
    assert f"a number of minutes above 0, not {minutes!r}" in told
    assert "Traceback" not in told
