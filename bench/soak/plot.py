"""Small line plots as SVG, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from bench.soak.judge import Point, thin

WIDTH, HEIGHT = 640, 210
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 34, 40

#: Readable on light and dark pages. The dashes tell the lines apart without colour.
_COLOURS = ("#2f81f7", "#e0752d", "#2da44e", "#a371f7", "#d1456b", "#8b949e")
_DASHES = ("", "6 3", "2 3", "9 3 2 3", "12 4", "1 4")

_STYLE = """
text { font: 11px sans-serif; fill: #57606a; }
.title { font-size: 13px; font-weight: 600; }
.axis { stroke: #8b949e; stroke-width: 1; }
.grid { stroke: #8b949e; stroke-width: 0.5; opacity: 0.35; }
.blow { stroke: #8b949e; stroke-width: 1; opacity: 0.8; }
.server { stroke: #d1456b; stroke-width: 1; opacity: 0.7; }
.line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
@media (prefers-color-scheme: dark) { text { fill: #b1bac4; } }
"""


def plot(
    title: str,
    series: Mapping[str, Sequence[Point]],
    seconds: float,
    blows: Sequence[tuple[float, str]] = (),
) -> str:
    """Lines over time, from 0. Faults are ticks; those of servers are full-height lines."""
    drawn = {name: thin(points, 240) for name, points in series.items() if points}
    top = nice(max((value for points in drawn.values() for _, value in points), default=1.0))
    span = max(seconds, 1.0)

    def x(at: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * min(max(at / span, 0), 1), 1)

    def y(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="{LEFT}" y="15">{escape(title)}</text>',
    ]
    for share in (0, 0.5, 1):
        at = y(top * share)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at}" y2="{at}"/>')
        label = number(top * share)
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4}" text-anchor="end">{label}</text>')
    base = HEIGHT - BOTTOM
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{base}" y2="{base}"/>')
    for at, kind in blows:
        is_server = kind.startswith("kill of")
        height = TOP if is_server else base - 5
        style = "server" if is_server else "blow"
        parts.append(
            f'<line class="{style}" x1="{x(at)}" x2="{x(at)}" y1="{base}" y2="{height}">'
            f"<title>{escape(kind)}</title></line>"
        )
    for share in (0, 0.25, 0.5, 0.75, 1):
        text = f"{number(span * share / 60)} min"
        anchor = "end" if share == 1 else "middle"
        parts.append(
            f'<text x="{x(span * share)}" y="{base + 14}" text-anchor="{anchor}">{text}</text>'
        )
    legend = LEFT
    for place, (name, points) in enumerate(drawn.items()):
        colour, dash = _COLOURS[place % len(_COLOURS)], _DASHES[place % len(_DASHES)]
        line = " ".join(f"{x(at)},{y(value)}" for at, value in points)
        drawing = f'stroke="{colour}" stroke-dasharray="{dash}"'
        parts.append(f'<polyline class="line" {drawing} points="{line}"/>')
        below = HEIGHT - 9
        parts.append(
            f'<line class="line" {drawing} x1="{legend}" x2="{legend + 22}" '
            f'y1="{below - 4}" y2="{below - 4}"/>'
            f'<text x="{legend + 27}" y="{below}">{escape(name)}</text>'
        )
        legend += 44 + round(6.2 * len(name))
    return "\n".join([*parts, "</svg>", ""])


def nice(value: float) -> float:
    """A round number that is not smaller."""
    if value <= 0:
        return 1.0
    step = 1.0
    while step < value:
        step *= 10
    while step / 10 >= value:
        step /= 10
    return next(
        step * share for share in (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0) if step * share >= value
    )


def number(value: float) -> str:
    """For people: three digits that count."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
