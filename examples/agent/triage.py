"""The tools of the agent in `triage.yaml`. Their hints and docstrings are what the model sees."""

import minuet

ORDERS = {"Ann": [{"order": "A-1", "state": "lost"}], "Bob": [{"order": "B-7", "state": "paid"}]}
HELP = {"password": "Use the link on the sign-in page.", "refund": "We refund what was lost."}


@minuet.task
def find_orders(customer: str) -> list[dict[str, str]]:
    """Find the orders of a customer, with their states."""
    return ORDERS.get(customer, [])


@minuet.task
async def search_help(words: str, ctx: minuet.Context) -> list[str]:
    """Search the help pages for some words."""
    ctx.log.info("searching for %s", words)
    return [text for name, text in HELP.items() if name in words.lower()]
