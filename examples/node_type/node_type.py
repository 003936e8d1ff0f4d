"""A node type: its config and its output are classes, and their hints become JSON Schemas."""

from dataclasses import dataclass

import minuet


@dataclass
class Config:
    text: str
    labels: dict[str, list[str]]


@dataclass
class Label:
    label: str
    hits: int


@minuet.node_type("classifier", version="1", display_name="Classifier", effects="none")
async def classify(config: Config, ctx: minuet.Context) -> Label:
    """Chooses the label whose words a text contains most often."""
    text = config.text.lower()
    hits = {name: sum(map(text.count, words)) for name, words in config.labels.items()}
    label = max(hits, key=lambda name: hits[name])
    ctx.log.info("%s is a %s", config.text, label)
    return Label(label, hits[label])
