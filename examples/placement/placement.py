"""Handlers of placement.yaml."""

import minuet


@minuet.task
def prepare() -> int:
    return 1000


@minuet.task
def train(rows: int) -> dict[str, int]:
    return {"rows": rows, "epochs": 3}


@minuet.task
def report(model: dict[str, int]) -> str:
    return f"trained on {model['rows']} rows in {model['epochs']} epochs"
