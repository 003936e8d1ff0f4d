"""The handlers of etl.yaml: CSV files in, totals out."""

import csv
from pathlib import Path

import minuet


@minuet.task
def find_files(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).glob("*.csv"))


@minuet.task
def clean(folder: str, name: str) -> dict:
    with open(Path(folder) / name, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["amount"].strip()]
    try:
        total = sum(int(row["amount"]) for row in rows)
    except ValueError as error:
        # Another attempt would read the same file.
        raise minuet.NonRetryable(f"{name}: {error}") from error
    return {"file": name, "rows": len(rows), "total": total}


@minuet.task
def load(parts: list[dict]) -> dict:
    good = [part for part in parts if "total" in part]
    return {
        "files": len(good),
        "broken": len(parts) - len(good),
        "rows": sum(part["rows"] for part in good),
        "total": sum(part["total"] for part in good),
    }
