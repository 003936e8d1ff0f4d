"""Import the modules and files that a user named for handlers.

An error in them is the user's to fix: it becomes one sentence with the file and the line.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
import zlib
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from minuet.errors import ConfigError

#: Prefix of the names of modules from files whose own name was taken.
_PREFIX = "minuet_handlers_"


def load_module(module_or_file: str) -> ModuleType:
    """Import `package.module` or `path/to/file.py`; ConfigError when that fails."""
    try:
        if module_or_file.endswith(".py"):
            return _load_file(_find_file(module_or_file))
        return importlib.import_module(module_or_file)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(_describe(module_or_file, error)) from error


def reload_file(file: str) -> ModuleType:
    """Import a file again, although it was imported before; ConfigError when that fails, and then
    the module stays what it was."""
    path = _find_file(file)
    known = {
        name: module
        for name, module in sys.modules.items()
        if getattr(module, "__file__", None) == str(path)
    }
    try:
        for name in known:
            del sys.modules[name]
        return _load_file(path, fresh=True)
    except (Exception, SystemExit) as error:
        sys.modules.update(known)
        raise ConfigError(_describe(file, error)) from error


class _Fresh(SourceFileLoader):
    """Reads no compiled file: Python takes it for current if the source had as many bytes in the
    same second."""

    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def document_name(module: ModuleType) -> str:
    """What documents call a module: its name, or that of its file."""
    name = module.__name__
    return Path(str(module.__file__)).stem if name.startswith(_PREFIX) else name


def _find_file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        raise ConfigError(f"there is no file {name!r} to take handlers from")
    return path.resolve()


def _load_file(path: Path, *, fresh: bool = False) -> ModuleType:
    """Import a file under its own name, or under another when that one is taken."""
    name = path.stem
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) != str(path):
        name = f"{_PREFIX}{zlib.crc32(str(path).encode()):08x}_{name}"
        known = sys.modules.get(name)
    if known is not None:
        return known
    loader = _Fresh(name, str(path)) if fresh else None
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


# ── what went wrong ─────────────────────────────────────────────────────────────────────


def _describe(name: str, error: BaseException) -> str:
    """What went wrong, and where in the user's code."""
    if _is_absent(name, error):
        return (
            f"there is no module {name!r} to take handlers from: --handlers takes the name of a "
            f"module or a .py file{_meant(name)}"
        )
    start = f"handlers {name!r} cannot be imported: "
    if isinstance(error, SyntaxError) and error.filename:
        return f"{start}{shown_file(error.filename)}:{error.lineno}: {_kind(error)}: {error.msg}"
    return f"{start}{_place(error)}{_kind(error)}: {error}"


def _is_absent(name: str, error: BaseException) -> bool:
    """Whether it is the module itself that is not there, and not something that it imports."""
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return name == error.name or name.startswith(f"{error.name}.")
    # Not the name of a module at all: "", ".", "..x".
    return isinstance(error, ValueError | TypeError) and not name.strip(".")


def _meant(name: str) -> str:
    beside = Path(f"{name.replace('.', '/')}.py")
    return f" (did you mean {str(beside)!r}?)" if name.strip(".") and beside.is_file() else ""


def _kind(error: BaseException) -> str:
    return type(error).__name__


def _place(error: BaseException) -> str:
    """The innermost line of code that is not a library's."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not _is_library(frame.filename)
    ]
    return f"{shown_file(frames[-1].filename)}:{frames[-1].lineno}: " if frames else ""


def _is_library(filename: str) -> bool:
    path = Path(filename)
    libraries = Path(importlib.__file__).parent.parent
    ours = Path(__file__).parent.parent
    return "site-packages" in path.parts or any(
        path.is_relative_to(folder) for folder in (libraries, ours)
    )


def shown_file(filename: str) -> str:
    """A file's path, relative to the current folder if it is below it."""
    try:
        return str(Path(filename).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return filename
