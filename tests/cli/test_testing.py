"""`minuet runs export` and `minuet test`: runs of a store as tests of documents and handlers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Called, Folder

DOCUMENT = """\
name: twice
nodes:
  - {id: double, handler: double, config: {number: "{{ input.n }}"}}
  - {id: shown, type: transform, dependencies: [double], config: {value: "{{ double.output }}"}}
"""


@pytest.fixture
def recorded(folder: Folder, minuet: Callable[..., Called]) -> Path:
    """A file with a recorded run of twice.yaml."""
    folder.write("twice.yaml", DOCUMENT)
    assert minuet("run", "twice.yaml", "--handlers", "work_handlers.py", "-i", "n=4").code == 0
    exported = minuet("runs", "export", "latest")
    assert exported.code == 0
    folder.write("run.json", exported.out)
    return folder.path / "run.json"


def test_a_run_is_exported_with_its_history(recorded: Path) -> None:
    found = json.loads(recorded.read_text())

    assert (found["format"], found["version"]) == ("minuet-run", 1)
    assert found["runs"][0]["workflow"] == "twice"
    assert found["runs"][0]["events"][0]["event"]["type"] == "run.created"


def test_a_recorded_run_is_as_recorded(recorded: Path, minuet: Callable[..., Called]) -> None:
    for options in (
        [],
        ["--document", "twice.yaml"],
        ["--live", "double", "--handlers", "work_handlers.py"],
    ):
        done = minuet("test", "run.json", *options)

        assert (done.code, done.out) == (0, "run.json: as recorded\n")


def test_a_changed_document_differs(
    recorded: Path, minuet: Callable[..., Called], folder: Folder
) -> None:
    folder.write("twice.yaml", DOCUMENT.replace("{{ double.output }}", "{{ input.n }}"))

    done = minuet("test", "run.json", "run.json", "--document", "twice.yaml")
    as_json = minuet("test", "run.json", "--document", "twice.yaml", "--json")

    assert (done.code, done.out) == (
        1,
        "run.json: differs: shown: its output: recorded 8, now 4\n",
    )
    assert as_json.code == 1
    (found,) = json.loads(as_json.out)
    assert (found["file"], found["same"]) == ("run.json", False)
    assert found["differences"] == [
        {"place": "shown", "what": "output", "recorded": 8, "replayed": 4}
    ]


def test_a_document_of_another_name_is_refused(
    recorded: Path, minuet: Callable[..., Called], folder: Folder
) -> None:
    folder.write("other.yaml", DOCUMENT.replace("name: twice", "name: other"))

    done = minuet("test", "run.json", "--document", "other.yaml")

    assert done.code == 2
    assert "the recorded runs are of: twice" in done.err


def test_a_file_that_is_not_a_recorded_run_is_refused(
    minuet: Callable[..., Called], folder: Folder
) -> None:
    folder.write("twice.yaml", DOCUMENT)

    done = minuet("test", "twice.yaml")

    assert done.code == 2
    assert "minuet runs export RUN > FILE" in done.err
