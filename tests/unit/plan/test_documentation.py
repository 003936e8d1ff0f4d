"""Every code that the compiler uses is explained, and no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path


def test_every_code_is_explained(root: Path) -> None:
    used = {"too-many-problems", "feature-unavailable"}
    for file in sorted((root / "src" / "minuet" / "plan").glob("*.py")):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match call:
                case ast.Call(
                    func=ast.Attribute(attr="error" | "warn" | "_compile"),
                    args=[ast.Constant(value=str(code)), *_],
                ):
                    used.add(code)

    page = (root / "docs" / "reference" / "verification.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?`) \|", page, re.MULTILINE)
    explained = [code for row in rows for code in re.findall(r"`([a-z-]+)`", row)]

    assert len(used) > 25
    assert sorted(explained) == sorted(used)
