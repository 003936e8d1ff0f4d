"""A virtual environment for each engine, made on demand: their dependencies clash.

Pins are in `requirements/<engine>.txt` (and, for a server that comes as an npm package, in
`requirements/<engine>.npm`). An environment is made again when its pins change.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench.places import ROOT

PINS = Path(__file__).parent / "requirements"
FOLDER = ROOT / "build" / "peers"
INSTALL_S = 600


class CannotInstall(Exception):
    """Why an engine cannot be had here, in a line."""


@dataclass(frozen=True)
class Environment:
    python: str
    tools: str = ""
    """Where npm packages were installed."""
    programs: dict[str, str] = field(default_factory=dict)
    """Their versions."""


def environment_of(engine: str) -> Environment:
    """The environment of an engine, made if it is not there."""
    if engine == "minuet":
        return Environment(sys.executable)
    folder = FOLDER / engine
    pins = sorted(PINS.glob(f"{engine}.*"))
    if not pins:
        raise CannotInstall(f"there are no pins for `{engine}`")
    wanted = "".join(path.read_text() for path in pins)
    stamp = folder / "installed"
    if not stamp.is_file() or stamp.read_text() != wanted:
        folder.mkdir(parents=True, exist_ok=True)
        _install(engine, folder)
        stamp.write_text(wanted)
    programs = dict(package.rsplit("@", 1) for package in _npm_packages(engine))
    return Environment(str(folder / "venv" / "bin" / "python"), str(folder / "npm"), programs)


def _npm_packages(engine: str) -> list[str]:
    path = PINS / f"{engine}.npm"
    return path.read_text().split() if path.is_file() else []


def _install(engine: str, folder: Path) -> None:
    _call(["sh", str(ROOT / "tools" / "venv.sh"), str(folder / "venv")])
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    _call([*pip, "--quiet", "install", "-r", str(PINS / f"{engine}.txt")])
    packages = _npm_packages(engine)
    if packages:
        options = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
        _call(["npm", "install", *options, "--prefix", str(folder / "npm"), *packages])


def _call(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=INSTALL_S,
            env={**os.environ, "PYTHON": sys.executable},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotInstall(f"{command[0]}: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("ERROR", "npm error"))]
        raise CannotInstall((errors or lines or [f"{command[0]} failed"])[0])
