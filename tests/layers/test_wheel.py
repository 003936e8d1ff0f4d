"""What is shipped: the engine, and nothing that exists only to test or to measure it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.layers.layers import every_import
from tests.planted.bugs import BUGS, Bug

from minuet.simulation.parts import Parts

#: What tests and measurements are made of. None of it is there where Minuet is installed.
NOT_SHIPPED = {"tests", "bench", "tools", "examples", "pytest", "hypothesis", "coverage", "anyio"}


def shipped_files(root: Path) -> list[Path]:
    """The files of the wheel, as pyproject.toml describes it."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel.keys() == {"packages"}, "this test knows only of packages: teach it the rest"
    return [
        path
        for folder in wheel["packages"]
        for path in sorted((root / folder).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]


def test_the_wheel_holds_the_package_alone(root: Path) -> None:
    files = shipped_files(root)

    assert root / "src/minuet/py.typed" in files
    assert {path.relative_to(root).parts[:2] for path in files} == {("src", "minuet")}
    assert not [path for path in files if path.name.startswith(("test_", "conftest", "bench"))]


def test_nothing_that_is_shipped_imports_what_is_not(modules: list[Any]) -> None:
    problems = [
        f"{module.name}:{line} imports {target}"
        for module in modules
        for line, target in every_import(module.name, module.nodes, is_package=module.is_package)
        if target.split(".")[0] in NOT_SHIPPED
        # pytest itself loads this module; nothing else does.
        and not (module.name == "minuet.testing.fixtures" and target == "pytest")
    ]

    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name)
def test_no_planted_bug_is_shipped(bug: Bug) -> None:
    real = Parts()
    planted = [
        part
        for field in msgspec.structs.fields(Parts)
        if (part := getattr(bug, field.name)) is not getattr(real, field.name)
    ]

    assert planted
    assert {part.__module__.split(".")[0] for part in planted} == {"tests"}
