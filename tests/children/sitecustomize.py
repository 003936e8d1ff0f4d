"""Python imports this when it starts, in every process that a test starts: see `tests.folding`.

Nothing of Minuet is imported before the process does so itself.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

#: The module whose `App` is to compare.
APP = "minuet.app.app"


class AppFinder:
    """Finds the module as Python does, and changes it when it has been executed."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != APP:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            install(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install(module: ModuleType) -> None:
    file = Path(__file__).resolve().parent.parent / "folding.py"
    spec = importlib.util.spec_from_file_location("minuet_folding", file)
    assert spec is not None
    assert spec.loader is not None
    folding = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(folding)
    folding.install(module.App, ends_process=True)


if "MINUET_TEST_FOLDING" in os.environ:
    sys.meta_path.insert(0, AppFinder())
