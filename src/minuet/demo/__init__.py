"""The workflow and the handlers of `minuet demo`: an order, from its receipt to its dispatch."""

from pathlib import Path

#: The workflow document.
WORKFLOW = Path(__file__).with_name("order.yaml")

#: The module with its handlers.
HANDLERS = "minuet.demo.handlers"

#: Environment variable that names the file in which the handlers note that they were started.
LEDGER = "MINUET_DEMO_LEDGER"

#: The workflow of the sample that `minuet dev` starts with, and the module with its handlers.
SAMPLE = Path(__file__).with_name("sample.yaml")
SAMPLE_HANDLERS = "minuet.demo.sample"

#: The order that the sample begins with.
SAMPLE_INPUT = {
    "number": 7,
    "items": [
        {"name": "lamp", "price": 80},
        {"name": "desk", "price": 240},
        {"name": "chair", "price": 95},
    ],
}
