"""The programs on a page of the docs, and what they print."""

from __future__ import annotations

import re
from pathlib import Path

from ..programs import run


def programs_of(page: str) -> list[tuple[str, str]]:
    """Every program of a page, with what the page says that it prints. None is left out."""
    found = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(found) == page.count("```python\n") == page.count("```text\n")
    return found


def check_program(code: str, printed: str, folder: Path) -> None:
    """Run a program in an empty folder; it must print exactly this."""
    (folder / "example.py").write_text(code, "utf-8")

    done = run("example.py", folder=folder)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed
