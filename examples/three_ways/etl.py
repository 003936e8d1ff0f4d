"""The tasks of the files: CSV in, totals out."""

import csv
from pathlib import Path
from typing import TypedDict

import minuet


class Part(TypedDict):
    rows: int
    total: int


class Report(TypedDict):
    files: int
    broken: int
    rows: int
    total: int


@minuet.task
def find_files(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).glob("*.csv"))


@minuet.task
def clean(file: str) -> Part:
    rows = [row for row in csv.DictReader(Path(file).read_text().splitlines()) if row["amount"]]
    try:
        return {"rows": len(rows), "total": sum(int(row["amount"]) for row in rows)}
    except ValueError as error:
        # Another attempt would read the same file.
        raise minuet.NonRetryable(f"{file}: {error}") from error


@minuet.task
def load(parts: list[Part], files: int) -> Report:
    return {
        "files": len(parts),
        "broken": files - len(parts),
        "rows": sum(part["rows"] for part in parts),
        "total": sum(part["total"] for part in parts),
    }
