"""Find the function of a handler in another process: from where it is here to where it is there."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from minuet.errors import HandlerError
from minuet.nodes.handler import AnyTask, Task
from minuet.nodes.loading import load_module
from minuet.worker.isolation.messages import Place

#: What a script is called in the processes of its attempts: `if __name__ == "__main__"` does not
#: hold there. The name is the one that `multiprocessing` uses.
SCRIPT = "__mp_main__"


def place_of(task: AnyTask) -> Place:
    """Where a handler's function is; HandlerError if another process could not find it."""
    function: Any = inspect.unwrap(task.function)
    module_name = getattr(function, "__module__", None) or ""
    name = getattr(function, "__qualname__", "<locals>")
    if "<" in name:
        raise _not_found(task, "it is defined inside a function")
    module = sys.modules.get(module_name)
    if module is None:
        raise _not_found(task, f"its module {module_name!r} is not known by that name")
    file = str(getattr(module, "__file__", None) or "")
    if module_name != "__main__":
        return Place(task.name, module_name, file, name)
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.name:
        # `python -m module`
        return Place(task.name, spec.name, file, name)
    if not os.path.isfile(file):
        raise _not_found(task, "it was typed at a prompt")
    return Place(task.name, module_name, os.path.abspath(file), name, is_script=True)


def _not_found(task: AnyTask, why: str) -> HandlerError:
    return HandlerError(
        f"handler {task.name!r} cannot run in a process of its own, because {why}: "
        "define it at the top level of a module or a script"
    )


@functools.cache
def find_task(place: Place) -> AnyTask:
    """The handler at a place; HandlerError if it is not there. For the process of an attempt."""
    found: Any = _module_of(place)
    for part in place.name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Task):
        return found
    if not callable(found):
        raise HandlerError(
            f"handler {place.handler!r} is not in the process of its attempt: "
            f"{place.file or place.module} has no {place.name}"
        )
    return Task(found, name=place.handler)


def _module_of(place: Place) -> ModuleType:
    if place.is_script:
        return _run_script(place.file)
    try:
        spec = importlib.util.find_spec(place.module)
    except (ImportError, ValueError, AttributeError):
        spec = None
    origin = None if spec is None else spec.origin
    is_same = origin is not None and os.path.realpath(origin) == os.path.realpath(place.file)
    if is_same or not place.file.endswith(".py"):
        return load_module(place.module)
    return load_module(place.file)


@functools.cache
def _run_script(file: str) -> ModuleType:
    import runpy

    # As `multiprocessing` does: under another name, so that the script does not start again.
    module = ModuleType(SCRIPT)
    module.__file__ = file
    sys.modules[SCRIPT] = sys.modules["__main__"] = module
    vars(module).update(runpy.run_path(file, run_name=SCRIPT))
    return module
