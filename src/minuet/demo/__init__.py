"""The workflow and the handlers of `minuet demo`: an order, from its receipt to its dispatch."""

from pathlib import Path

#: The workflow document.
WORKFLOW = Path(__file__).with_name("order.yaml")

#: The module with its handlers.
HANDLERS = "minuet.demo.handlers"

#: Environment variable that names the file in which the handlers note that they were started.
LEDGER = "MINUET_DEMO_LEDGER"
