"""The picture of the results: nodes/s of each system, as bars on a scale of powers of ten.

Written by hand as SVG: text and lines take the colour of a reader's light or dark page.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from bench.peers.report import QUIET_SHARE, median, number
from bench.peers.table import BY_NAME, System

WIDTH = 860
LABELS = 330
ROW = 22
TOP = 62
BARS = WIDTH - LABELS - 90

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .small { font-size: 11px; fill: #59636e; }
  .title { font-size: 15px; font-weight: 600; }
  .grid { stroke: #d1d9e0; }
  .ours { fill: #1a7f64; }
  .theirs { fill: #8c959f; }
  .mine { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .small { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .ours { fill: #3fb68b; }
    .theirs { fill: #656c76; }
  }
"""


def draw(figures: dict[str, Any]) -> str:
    found = [
        (BY_NAME[name], speed)
        for name, entry in figures["systems"].items()
        if (speed := median(entry["rounds"], "nodes_per_s"))
    ]
    found.sort(key=lambda one: -one[1])
    powers = range(
        min((math.floor(math.log10(speed)) for _, speed in found), default=0),
        max((math.ceil(math.log10(speed)) for _, speed in found), default=1) + 1,
    )
    bottom = TOP + ROW * len(found)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 30}" role="img" '
        f'aria-label="Durable nodes per second, Minuet and its peers">',
        f"<style>{STYLE}</style>",
        '<text class="title" x="8" y="20">Durable nodes per second</text>',
        f'<text class="small" x="8" y="38">{escape(_subtitle(figures))}</text>',
    ]
    for power in powers:
        x = _x(10.0**power, powers)
        lines.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP - 6}" y2="{bottom}"/>')
        lines.append(
            f'<text class="small" x="{x}" y="{bottom + 16}" text-anchor="middle">'
            f"{10**power:,}</text>"
        )
    for row, (system, speed) in enumerate(found):
        lines += _bar(system, speed, TOP + ROW * row, powers)
    return "\n".join([*lines, "</svg>", ""])


def _x(value: float, powers: range) -> float:
    low, high = powers[0], powers[-1]
    return round(LABELS + BARS * (math.log10(value) - low) / (high - low), 1)


def _bar(system: System, speed: float, y: int, powers: range) -> list[str]:
    kind, label = ("ours", "mine") if system.ours else ("theirs", "")
    end = _x(speed, powers)
    return [
        f'<text class="{label}" x="{LABELS - 8}" y="{y + 13}" text-anchor="end">'
        f"{escape(_label(system))}</text>",
        f'<rect class="{kind}" x="{LABELS}" y="{y + 2}" width="{max(1.0, round(end - LABELS, 1))}" '
        f'height="{ROW - 6}" rx="2"/>',
        f'<text class="{label}" x="{end + 6:.1f}" y="{y + 13}">{number(speed)}</text>',
    ]


def _label(system: System) -> str:
    return f"{system.title.strip('*')}: {system.short}"


def _subtitle(figures: dict[str, Any]) -> str:
    machine = figures["machine"]
    busy = ", while others used it too" if machine["others_share"] > QUIET_SHARE else ""
    return (
        "Runs of ten nodes; each result is persisted before the next node starts. "
        f"Logarithmic scale. {machine['cores']} cores{busy}."
    )
