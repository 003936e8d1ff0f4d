"""The handler of enrichment.yaml."""

import minuet


@minuet.task
def make_case(topic: str, urgent: bool, ctx: minuet.Context) -> dict:
    # One of the two was skipped, so only the other one's output is there.
    customer = ctx.inputs.get("known") or ctx.inputs["stranger"]
    first = urgent or customer["level"] == "gold"
    return {"customer": customer["name"], "topic": topic, "queue": "first" if first else "later"}
