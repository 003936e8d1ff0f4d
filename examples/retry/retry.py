"""The handlers of retry.yaml: what goes wrong, and what Minuet makes of it."""

import minuet


@minuet.task
def unreliable_quote(ctx: minuet.Context) -> dict:
    # Most exceptions are taken for bad luck and tried again.
    if ctx.attempt < 3:
        raise ConnectionError("the service is busy")
    return {"price": 42, "attempts": ctx.attempt}


@minuet.task
def broken_rating() -> dict:
    # This one says that another try would be of no use.
    raise minuet.NonRetryable("there is no rating for this product")
