"""Doing what a page says: its files are written, its commands and programs are run, in order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

#: A fenced block, or lines that are indented by four after an empty line.
_BLOCKS = re.compile(
    r"^```(\w*)\n(.*?)^```$|(?<=\n\n)((?:    [^\n]+\n|\n(?=    ))+)", re.MULTILINE | re.DOTALL
)

#: What differs from one run to the next.
_DURATION = re.compile(r"\d+(?:\.\d+)? (?:ms|s)\b")


class File(NamedTuple):
    """To be written."""

    name: str
    text: str


class Program(NamedTuple):
    """Python, to be run."""

    text: str


class Command(NamedTuple):
    """To be pasted into a shell. What it prints, if the page shows it."""

    text: str
    output: str | None = None

    def shows(self, printed: str) -> bool:
        """Whether what was printed is what the page shows."""
        if self.output is None:
            return True
        parts = [re.escape(part) for part in _DURATION.sub("\0", self.output).split("…")]
        pattern = ".*".join(parts).replace(re.escape("\0"), _DURATION.pattern)
        return re.fullmatch(pattern, printed.rstrip("\n"), re.DOTALL) is not None


Step = File | Program | Command


def read_page(path: Path) -> list[Step]:
    """Everything on a page that can be done; ValueError for a block that nobody could follow."""
    steps: list[Step] = []
    for language, text, indented in _BLOCKS.findall(path.read_text("utf-8")):
        name = re.match(r"(?:#|//) (\S+\.\w+)\n", text)
        if indented:
            steps += _commands(re.sub(r"^    ", "", indented, flags=re.MULTILINE))
        elif name:
            steps.append(File(name[1], text))
        elif language == "python":
            steps.append(Program(text))
        elif language in ("sh", "console"):
            steps += _commands(text)
        else:
            raise ValueError(f"{path}: what is to be done with this?\n{text}")
    return steps


def _commands(text: str) -> list[Step]:
    """Each line is a command; or those that begin with `$` are, and what follows is printed."""
    text = text.strip("\n")
    if not text.startswith("$ "):
        return [Command(line) for line in text.splitlines() if line.strip()]
    steps: list[Step] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        steps.append(Command(command, output.rstrip("\n") or None))
    return steps
