"""What comments, docstrings and pages name is there, under that name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.layers.references import CODE, FOREIGN, Project, Reference, in_code, in_page


def code_files(root: Path) -> list[Path]:
    return [path for folder in CODE for path in sorted((root / folder).rglob("*.py"))]


def pages(root: Path) -> list[Path]:
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def test_every_name_in_a_comment_or_docstring_is_there(root: Path) -> None:
    found = [reference for path in code_files(root) for reference in in_code(path)]

    assert len(found) > 500
    assert not wrong(root, found), "\n".join(wrong(root, found))


def test_every_name_on_a_page_is_there(root: Path) -> None:
    found = [reference for path in pages(root) for reference in in_page(path)]

    assert len(found) > 500
    assert not wrong(root, found), "\n".join(wrong(root, found))


def test_every_exception_is_needed(root: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (*code_files(root), *pages(root))]

    for name in FOREIGN:
        assert any(f"`{name}`" in text for text in texts), f"{name} is nowhere: take it out"


@pytest.mark.parametrize(
    ("speaker", "name"),
    [
        ("src/minuet/kernel/scope.py", "minuet.kernel.nothing"),
        ("src/minuet/kernel/scope.py", "kernel.fold.nothing"),
        ("src/minuet/kernel/scope.py", "store.records.Nothing"),
        ("src/minuet/kernel/scope.py", "fold.nothing()"),
        ("src/minuet/kernel/scope.py", "kernel/nothing.py"),
        ("src/minuet/store/sqlite/store.py", "sql/nothing.sql"),
        ("src/minuet/kernel/scope.py", "tests/kernel/test_nothing.py::test_it"),
        ("docs/concepts.md", "kernel.nothing"),
        ("docs/concepts.md", "src/minuet/nothing"),
        ("docs/concepts.md", "tests.nothing"),
    ],
)
def test_a_name_that_leads_nowhere_is_found(root: Path, speaker: str, name: str) -> None:
    assert wrong(root, [Reference(root / speaker, 1, name)])


@pytest.mark.parametrize(
    ("speaker", "name"),
    [
        ("src/minuet/kernel/scope.py", "minuet.kernel.scope"),
        ("src/minuet/kernel/scope.py", "store.base.Store.exchange()"),
        ("src/minuet/kernel/scope.py", "fold.fold"),
        ("src/minuet/kernel/scope.py", "node.completed"),
        ("src/minuet/kernel/scope.py", "asyncio.run"),
        ("src/minuet/store/sqlite/store.py", "sql/"),
        ("docs/concepts.md", "kernel/scope.py"),
        ("docs/concepts.md", "application/json"),
    ],
)
def test_a_name_that_is_there_or_not_ours_is_not_reported(
    root: Path, speaker: str, name: str
) -> None:
    assert not wrong(root, [Reference(root / speaker, 1, name)])


def wrong(root: Path, references: list[Reference]) -> list[str]:
    project = Project(root)
    return [
        f"{reference.path.relative_to(root)}:{reference.line} names `{reference.name}`"
        for reference in references
        if project.is_wrong(reference)
    ]
