"""README and quickstart work word for word for somebody who has just installed Minuet."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from .pages import Command, File, Program, Step, read_page

#: Not for an empty folder, or not here.
LEFT_OUT = {
    "README.md": {
        "make demo": "in a copy of the repository",
        "make test": "in a copy of the repository",
        "make serve": "in a copy of the repository",
        "python3 -m venv .venv && . .venv/bin/activate": "done by the fixture",
        "pip install .": "done by the fixture, without the network",
        "pip install '.[server,http]'": "done by the fixture, without the network",
        "export MINUET_STORE=postgresql://minuet@db.example/minuet": "needs a server",
    },
    "docs/quickstart.md": {"pip install .": "done by the fixture, without the network"},
    "docs/guides/deploying.md": {},
}

#: What ends with something else than 0: a simulation that has found something.
CODES = {"minuet simulate": (0, 1)}


@pytest.fixture(scope="session")
def installed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has what a wheel of this project has in it, and the libraries that it needs.
    It does not look for modules in the project's folder."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, with_pip=False, symlinks=True)
    (library,) = place.glob("lib/python*/site-packages")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    (package,) = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    without_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(root / package, library / Path(package).name, ignore=without_caches)
    # A folder that a .pth file names is searched, and its own .pth files are not read.
    (library / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for name, function in project["project"]["scripts"].items():
        module, _, attribute = function.partition(":")
        script = place / "bin" / name
        script.write_text(
            f"#!{place}/bin/python\nimport sys\nfrom {module} import {attribute}\n"
            f"sys.exit({attribute}())\n"
        )
        script.chmod(0o755)
    return place


class Reader:
    """Somebody who does what a page says, in an empty folder."""

    def __init__(self, installed: Path, folder: Path) -> None:
        self._folder = folder
        self._workers: list[subprocess.Popen[str]] = []
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("MINUET_", "PYTHON"))}
        path = f"{installed}/bin{os.pathsep}{os.environ['PATH']}"
        self._environment = {**kept, "PATH": path, "HOME": str(folder), "COLUMNS": "80"}

    def do(self, step: Step) -> None:
        match step:
            case File():
                (self._folder / step.name).write_text(step.text, encoding="utf-8")
            case Program():
                self._paste(Command(f"python - <<'END'\n{step.text}END"))
            case Command() if step.text.startswith("minuet worker "):
                self._workers.append(self._start(f"exec {step.text}"))
            case Command():
                self._paste(step)

    def _start(self, text: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", "-c", text],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _paste(self, command: Command) -> None:
        child = self._start(command.text)
        out, err = child.communicate(timeout=120)
        begin = " ".join(command.text.split()[:2])
        assert child.returncode in CODES.get(begin, (0,)), f"{command.text}\n{out}{err}"
        assert "Traceback" not in err, err
        assert command.shows(out), (
            f"{command.text}\nprinted:\n{out}\nthe page says:\n{command.output}"
        )

    def stop(self) -> None:
        """End the workers, as Ctrl-C would."""
        for worker in self._workers:
            worker.terminate()
            _, err = worker.communicate(timeout=60)
            assert worker.returncode == 0, err
        self._workers.clear()


@pytest.fixture
def reader(installed: Path, tmp_path: Path) -> Iterator[Reader]:
    folder = tmp_path / "empty"
    folder.mkdir()
    made = Reader(installed, folder)
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(LEFT_OUT))
def test_everything_on_the_page_works_in_an_empty_folder(
    root: Path, reader: Reader, page: str
) -> None:
    steps = read_page(root / page)
    done: list[str] = []
    for step in steps:
        text = step.text.partition("#")[0].strip() if isinstance(step, Command) else ""
        if text not in LEFT_OUT[page]:
            reader.do(step)
            done.append(type(step).__name__)

    assert set(LEFT_OUT[page]) <= {
        s.text.partition("#")[0].strip() for s in steps if isinstance(s, Command)
    }
    assert {"File", "Program" if page == "README.md" else "Command"} <= set(done)
    assert done.count("Command") >= 8


def test_the_installed_package_is_not_the_one_of_the_project(installed: Path, root: Path) -> None:
    """The pages are tried on what a wheel has in it."""
    found = subprocess.run(
        [installed / "bin" / "python", "-c", "import minuet; print(minuet.__file__)"],
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert found.startswith(str(installed))
    assert not found.startswith(sys.prefix)


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("a\n…\nb", "a\n1\n2\nb\n", True),
        ("in 12 ms  (run 01…)", "in 1.5 s  (run 0199)\n", True),
        ("in 12 ms", "in a moment\n", False),
        ("a.b", "axb\n", False),
        ("a", "a\nb\n", False),
    ],
)
def test_what_a_page_shows_is_compared_with_what_is_printed(
    shown: str, printed: str, fits: bool
) -> None:
    assert Command("x", shown).shows(printed) is fits


def test_a_block_that_nobody_could_follow_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("text\n\n```yaml\n- id: part of something\n```\n")

    with pytest.raises(ValueError, match="what is to be done with this"):
        read_page(tmp_path / "page.md")


def test_the_guide_about_approvals_works_in_an_empty_folder(root: Path, reader: Reader) -> None:
    steps = read_page(root / "docs/guides/approvals.md")
    for step in steps:
        reader.do(step)

    assert [type(step) for step in steps] == [File, Program, Command, File, Command]
