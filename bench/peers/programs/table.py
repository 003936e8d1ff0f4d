"""Which programs there are, what they print, and how long they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.places import ROOT

FOLDER = Path(__file__).parent
PAGE = FOLDER / "README.md"

ENGINES = {
    "minuet": "Minuet",
    "dbos": "DBOS",
    "prefect": "Prefect",
    "langgraph": "LangGraph",
    "temporal": "Temporal",
}

PROGRAMS = {
    "saga": "an order: reserve, charge, ship; undone in reverse when one fails",
    "etl": "files that are found at run time, cleaned at once; broken ones are left out",
    "booking": "a retry around retries: both steps again when the offer has expired",
    "polling": "a job elsewhere, asked until it is done",
}


def _lines(*lines: str, output: Any) -> str:
    return "".join(f"{line}\n" for line in (*lines, json.dumps(output)))


#: The inputs of each program, and what every engine prints for them.
CASES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "saga": [
        (
            {"order": "o1", "amount": 40, "country": "DE"},
            _lines("reserved o1", "charged o1 40", "shipped o1", output="DE-o1"),
        ),
        (
            {"order": "o2", "amount": 40, "country": "XX"},
            _lines("reserved o2", "charged o2 40", "refunded o2 40", "released o2", output=None),
        ),
    ],
    "etl": [
        (
            {"folder": str(ROOT / "examples" / "etl" / "data")},
            _lines(output={"broken": 1, "files": 2, "total": 600}),
        )
    ],
    "booking": [({"flight": "LH1"}, _lines("a new offer is needed", output="LH1 for 102"))],
    "polling": [({"report": "sales", "every": 0.1}, _lines(output=12))],
}


def code_of(engine: str, program: str) -> Path:
    """The file of a program."""
    return FOLDER / engine / f"{program}.py"


def length_of(path: Path) -> int:
    """Lines that are neither blank nor only a comment, as `ruff format` leaves them."""
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))


def page_text() -> str:
    """The page with the table."""
    rows = ""
    for program, about in PROGRAMS.items():
        lengths = {engine: length_of(code_of(engine, program)) for engine in ENGINES}
        least = min(lengths.values())
        cells = [
            f"[{'**' if length == least else ''}{length}{'**' if length == least else ''}]"
            f"({engine}/{program}.py)"
            for engine, length in lengths.items()
        ]
        rows += f"| `{program}`: {about} | {' | '.join(cells)} |\n"
    return (FOLDER / "about.md").read_text(
        "utf-8"
    ) + f"\n| lines | {' | '.join(ENGINES.values())} |\n|---|{'--:|' * len(ENGINES)}\n{rows}"
