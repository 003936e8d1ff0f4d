"""The code uses the words of the glossary, and the prose is plain English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

#: Files and folders, below the root, whose prose is plain. The list only grows.
PLAIN = (
    "README.md",
    "GUARANTEES.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "docs/README.md",
    "docs/concepts.md",
    "docs/fault-matrix.md",
    "docs/glossary.md",
    "docs/performance.md",
    "docs/quickstart.md",
    "docs/guides",
    "docs/soak",
    "docs/reference/document.md",
    "docs/reference/expressions.md",
    "docs/reference/values.md",
    "docs/reference/verification.md",
    "examples",
    "src/minuet/__init__.py",
    "src/minuet/__main__.py",
    "src/minuet/api",
    "src/minuet/app",
    "src/minuet/bridge",
    "src/minuet/builder",
    "src/minuet/cli",
    "src/minuet/clock.py",
    "src/minuet/conditions",
    "src/minuet/demo",
    "src/minuet/errors.py",
    "src/minuet/events.py",
    "src/minuet/functions",
    "src/minuet/ids.py",
    "src/minuet/kernel",
    "src/minuet/model",
    "src/minuet/moments.py",
    "src/minuet/nodes",
    "src/minuet/outcomes.py",
    "src/minuet/plan",
    "src/minuet/rehearsal",
    "src/minuet/settings",
    "src/minuet/simulation",
    "src/minuet/store",
    "src/minuet/telemetry",
    "src/minuet/templates",
    "src/minuet/testing",
    "src/minuet/types.py",
    "src/minuet/webhooks",
    "src/minuet/worker",
    "tests/planted",
    "tools",
    "bench",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
)

#: Words that make a sentence sound translated, and what to write instead.
CLUMSY = {
    r"whoever": "name who: the worker, the caller",
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"told": "reported, notified, passed; or name who says it",
    r"(?<!there )(?:is|are|was) no (?:JSON|UTF-8|YAML|whole|event|dead)": "is not (valid) …",
    r"by (?:itself|themselves)": "automatically, alone; or leave it out",
    r"for ever": "forever",
    r"so soon": "early",
    r"as it is\b(?! (?:described|displayed|called|read))": "unchanged",
    r"tell repetitions": "detect repetitions",
    r"made anew": "created again",
    r"shall": "must, should",
}
_CLUMSY = {
    re.compile(rf"(?<![\w-])(?:{pattern})(?![\w-])", re.IGNORECASE): instead
    for pattern, instead in CLUMSY.items()
}
_ANY_CLUMSY = re.compile(rf"(?<![\w-])(?:{'|'.join(CLUMSY)})(?![\w-])", re.IGNORECASE)

_ROW = re.compile(r"^\| (?P<first>.+?) \| .* \| (?P<last>[^|]+) \|$", re.MULTILINE)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@cache
def parts(name: str) -> list[str]:
    """The words of an identifier, in lower case and without a plural."""
    return [singular(part.lower()) for part in _PART.findall(name)]


def singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def section(page: str, title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def forbidden_words(page: str) -> list[list[str]]:
    """The last column of the glossary's tables, each entry as a list of words."""
    entries: list[str] = []
    for title in ("What is written", "What happens", "Who does it"):
        for row in _ROW.finditer(section(page, title)):
            if row["first"].startswith("**"):
                entries += row["last"].split(", ")
    return [parts(entry) for entry in entries if entry != "–"]


def exceptions(page: str) -> set[str]:
    return set(re.findall(r"^\| `(\w+)` \|", section(page, "Exceptions"), re.MULTILINE))


def names(module: Any) -> Iterator[str]:
    """The classes, functions and arguments that a module defines."""
    for node in module.nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg


def all_names(root: Path, modules: list[Any]) -> Iterator[tuple[str, str]]:
    """Every name that the package gives to something, and the file that does."""
    package = root / "src" / "minuet"
    for module in modules:
        place = str(module.path.relative_to(root))
        for name in module.path.relative_to(package).with_suffix("").parts:
            yield name, place
        for name in names(module):
            yield name, place


def uses(name: str, words: list[str]) -> bool:
    """Whether an identifier contains these words, one after another."""
    found = parts(name)
    return any(found[i : i + len(words)] == words for i in range(len(found)))


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page; of a module, its comments, docstrings and other texts.

    Nothing of a file without a clumsy word: reading a module word by word takes long."""
    text = path.read_text("utf-8")
    if not _ANY_CLUMSY.search(text):
        return
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), start=1)
        return
    kinds = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in kinds:
            yield token.start[0], token.string


def clumsy(path: Path) -> Iterator[str]:
    for line, text in prose(path):
        for pattern, instead in _CLUMSY.items():
            for found in pattern.finditer(text):
                yield f"{path}:{line}: {found[0]!r}; better: {instead}"


def pages_and_modules(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for kind in ("*.py", "*.md", "*.yaml", "*.lua", "*.sql"):
        # Released migrations never change.
        yield from sorted(path for path in place.rglob(kind) if path.parent.name != "migrations")


@pytest.fixture(scope="module")
def glossary(root: Path) -> str:
    return (root / "docs" / "glossary.md").read_text("utf-8")


@pytest.fixture(scope="module")
def violations(root: Path, modules: list[Any], glossary: str) -> dict[str, str]:
    """The names that contain a forbidden word, and where."""
    found = dict(all_names(root, modules))
    forbidden = forbidden_words(glossary)
    return {
        name: f"{place}: {name} contains {' '.join(words)!r}"
        for name, place in found.items()
        for words in forbidden
        if uses(name, words)
    }


def test_no_name_contains_a_word_that_the_glossary_forbids(
    violations: dict[str, str], glossary: str
) -> None:
    allowed = exceptions(glossary)

    assert not [message for name, message in violations.items() if name not in allowed]


def test_every_exception_of_the_glossary_is_needed(
    violations: dict[str, str], glossary: str
) -> None:
    assert exceptions(glossary) <= violations.keys()


def test_the_glossary_forbids_something_for_most_of_its_words(glossary: str) -> None:
    """Its tables are read as they are meant to be."""
    found = forbidden_words(glossary)

    assert len(found) > 40
    assert ["orchestrator"] in found
    assert ["workflow", "instance"] in found


def test_no_word_is_both_forbidden_and_given_a_sense(glossary: str) -> None:
    rows = _ROW.finditer(section(glossary, "Words with a fixed sense"))
    sensed = [parts(word) for row in rows for word in row["first"].split(", ")]

    assert ["task"] in sensed
    assert not [words for words in sensed if words in forbidden_words(glossary)]


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("WorkflowInstance", ["workflow", "instance"], True),
        ("list_backends", ["backend"], True),
        ("HTTPBackend", ["backend"], True),
        ("instance_of_workflow", ["workflow", "instance"], False),
        ("workflow", ["flow"], False),
    ],
)
def test_a_name_is_compared_word_by_word(name: str, words: list[str], expected: bool) -> None:
    assert uses(name, words) is expected


@pytest.mark.parametrize("place", PLAIN)
def test_prose_is_plain(root: Path, place: str) -> None:
    assert (root / place).exists()

    assert not [found for path in pages_and_modules(root / place) for found in clumsy(path)]


def test_clumsy_words_are_found_in_every_kind_of_text(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Whoever reads this."""\n\n#: Made anew.\nA = f"{1} is no JSON"\nmended = 1\n',
        encoding="utf-8",
    )
    page = tmp_path / "page.md"
    page.write_text("It works by itself.\n", encoding="utf-8")

    lines = [int(found.split(":")[1]) for found in clumsy(module)]

    assert sorted(set(lines)) == [1, 3, 4]
    assert len(list(clumsy(page))) == 1
