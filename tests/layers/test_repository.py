"""The project as a folder: what must be there, what must not, and links that lead somewhere."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REQUIRED = [
    *("README.md", "LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml", "Makefile"),
    *(".ci/run", "requirements/core.txt", "requirements/dev.txt", "src/minuet/py.typed"),
    *("ARCHITECTURE.md", "GUARANTEES.md", "SECURITY.md"),
    *("docs/README.md", "docs/glossary.md", "docs/requirements.md"),
]

#: Folders that are made, not written.
MADE = {
    *(".git", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"),
    *("__pycache__", "node_modules", "build", "dist", "htmlcov", "out"),
}

#: A folder of one machine. Not preceded by a name, so that an address may contain the word.
MACHINE_PATH = re.compile(r"(?<![\w.-])/(?:work|farm|root)/")

REGISTRY = re.compile(
    r"index[-]url|find-links|https?://[^\s\"]*/simple/|https?://registry\.|\"resolved\": *\"http"
)

#: `[text](target)`, the text perhaps with one level of brackets inside.
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_file_exists(root: Path, name: str) -> None:
    assert (root / name).is_file()


def test_the_licence_is_the_full_text(root: Path) -> None:
    text = (root / "LICENSE").read_text(encoding="utf-8")

    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_what_has_to_pass_is_the_test_command(root: Path) -> None:
    script = root / ".ci/run"

    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text(encoding="utf-8").splitlines()


def test_every_requirement_is_pinned_by_its_version_alone(root: Path) -> None:
    lines = [
        line
        for name in ("core.txt", "server.txt", "dev.txt")
        for line in (root / "requirements" / name).read_text(encoding="utf-8").splitlines()
        if not line.startswith("#") and line not in ("-r core.txt", "-r server.txt")
    ]

    assert lines
    assert not [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)]


def test_every_folder_of_tests_is_explained(root: Path) -> None:
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("### Where a test goes\n")[1].split("\n## ")[0]
    folders = {
        f"tests/{path.relative_to(root / 'tests').parts[0]}"
        for path in (root / "tests").rglob("test_*.py")
    }

    assert folders <= set(re.findall(r"`(tests/\w+)`", section))


def test_no_file_names_a_folder_of_one_machine(root: Path) -> None:
    assert not list(places(root, MACHINE_PATH))


def test_no_file_names_a_package_registry(root: Path) -> None:
    assert not list(places(root, REGISTRY))


@pytest.mark.parametrize("text", ["cd /" + "work/main", "sqlite:////" + "work/x", '"/' + 'root/x"'])
def test_a_folder_of_one_machine_is_found(text: str) -> None:
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", ["https://example.org/work/7", "src/worker/", "a/work/b"])
def test_a_word_inside_an_address_is_no_folder(text: str) -> None:
    assert not MACHINE_PATH.search(text)


def test_every_link_between_pages_resolves(root: Path) -> None:
    broken = [
        f"{page.relative_to(root)}: {target}"
        for page in pages(root)
        for target in broken_links(page)
    ]

    assert not broken, "\n".join(broken)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Some Title: `code` here\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n[a](other.md) [b](missing.md) [c](#top) [d](#absent) [`e`](other.md#nowhere)\n"
        "[f](other.md#some-title-code-here) [g](https://example.org) `[h](x.md)`\n"
        "```\n[i](y.md)\n```\n",
        encoding="utf-8",
    )

    assert list(broken_links(page)) == ["missing.md", "#absent", "other.md#nowhere"]


def places(root: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    """Give `file:line` of every match in the project's text files, this one aside."""
    for path in files(root):
        if path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if not pattern.search(text):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if pattern.search(line):
                yield f"{path.relative_to(root)}:{number}: {line.strip()[:100]}"


def pages(root: Path) -> Iterator[Path]:
    return (path for path in files(root) if path.suffix == ".md")


def files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - MADE)
        yield from (Path(folder, name) for name in sorted(names))


def broken_links(page: Path) -> Iterator[str]:
    """Give the targets of a page's relative links whose file or heading does not exist."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    # A link's text may be code; code that contains a whole link is an example.
    text = CODE.sub(lambda code: "" if LINK.search(code[0]) else code[0], text)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (heading and heading not in headings(file)):
            yield target


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
