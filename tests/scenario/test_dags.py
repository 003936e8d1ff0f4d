"""The shapes of real production workflows: each task once, and after all its parents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..conftest import SHARED
from .harness import node, open_scene

FILES = sorted((SHARED / "data" / "dags").glob("*.json"))


@pytest.mark.skipif(not FILES, reason="needs the folder shared/data/dags beside the project")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.shows("D-02", "D-13", "D-29")
async def test_a_real_graph_runs_every_task_once_and_after_its_parents(
    path: Path, tmp_path: Path
) -> None:
    parents = read_parents(path)
    document = {
        "name": "graph",
        "nodes": [node(name, *dependencies) for name, dependencies in parents.items()],
    }
    async with open_scene(f"sqlite:///{tmp_path}/runs.db") as s:
        result = await s.run(document)

        order = await s.order(result.run_id)
        assert result.status == "COMPLETED"
        assert sorted(order) == sorted(parents)
        position = {name: number for number, name in enumerate(order)}
        assert all(
            position[parent] < position[name] for name in parents for parent in parents[name]
        )
        assert s.store.checks > 1


def read_parents(path: Path) -> dict[str, list[str]]:
    """Each task's parents. A node's name has no dots, because a template's path has."""
    tasks: dict[str, list[str]] = json.loads(path.read_bytes())["tasks"]
    parents = {plain(name): [plain(parent) for parent in tasks[name]] for name in tasks}
    assert len(parents) == len(tasks)
    return parents


def plain(name: str) -> str:
    return name.replace(".", "-")
