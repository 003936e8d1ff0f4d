"""Texts of the page can be read on their grounds, in both themes (WCAG 2: 4.5 to 1)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

COLOURS = ("grey", "slate", "blue", "violet", "green", "red", "orange")
GROUNDS = ("ground", "surface", "sunken", "hover", "selected")

PAIRS = [
    *((f"{name}-ink", f"{name}-ground") for name in COLOURS),
    *((ink, ground) for ink in ("ink", "ink-2", "ink-3") for ground in GROUNDS),
    *((f"code-{name}", "surface") for name in ("key", "string", "number", "word")),
    *(("accent-ink", ground) for ground in ("ground", "surface", "accent-ground")),
    ("on-accent", "accent"),
]


def themes(root: Path) -> dict[str, dict[str, str]]:
    """The colours of each theme, by their names."""
    text = (root / "ui" / "src" / "styles" / "tokens.css").read_text()
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#\w{6});", one))
        for one in re.split(r"\n +color-scheme: ", text)[1:]
    )
    assert light.keys() == dark.keys()
    return {"light": light, "dark": dark}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_have_contrast(root: Path, name: str) -> None:
    colours = themes(root)[name]
    weak = {}
    for ink, ground in PAIRS:
        low, high = sorted(luminance(colours[one]) for one in (ink, ground))
        ratio = (high + 0.05) / (low + 0.05)
        if ratio < 4.5:
            weak[ink, ground] = round(ratio, 2)

    assert not weak
