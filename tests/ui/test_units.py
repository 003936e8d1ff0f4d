"""The page's own unit tests, its types, its size, and the shapes that it knows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

#: What a first visit may load, in bytes, compressed.
FIRST_LOAD_MAX = 250_000


def run(node: str, root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([node, *command], cwd=root / "ui", capture_output=True, text=True)


def test_units_of_the_page(node: str, root: Path) -> None:
    done = run(node, root, "--test", "src/**/*.test.ts")

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"pass \d\d", done.stdout)


@pytest.mark.slow
def test_the_types_hold(node: str, root: Path) -> None:
    done = run(node, root, "node_modules/typescript/bin/tsc", "--noEmit")

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_page_knows_the_shapes_of_the_api(node: str, root: Path, tmp_path: Path) -> None:
    made = tmp_path / "schema.d.ts"
    tool = "node_modules/openapi-typescript/bin/cli.js"
    run(node, root, tool, "../docs/reference/openapi.json", "-o", str(made))

    current = (root / "ui" / "src" / "api" / "schema.d.ts").read_text()
    assert made.read_text() == current, "run `npm run schema` in ui/"


def test_a_first_visit_loads_little(built: Path) -> None:
    index = (built / "index.html").read_text()
    names = re.findall(r'(?:src|href)="/ui/([^"]+)"', index)
    total = sum((built / f"{name}.gz").stat().st_size for name in names)

    assert any(name.endswith(".js") for name in names)
    assert total < FIRST_LOAD_MAX
