"""The handlers of retry.yaml: two kinds of errors, and how Minuet handles them."""

import minuet


@minuet.task
def unreliable_quote(ctx: minuet.Context) -> dict:
    # Most exceptions are treated as temporary and retried.
    if ctx.attempt < 3:
        raise ConnectionError("the service is busy")
    return {"price": 42, "attempts": ctx.attempt}


@minuet.task
def broken_rating() -> dict:
    # This one says that a retry would not help.
    raise minuet.NonRetryable("there is no rating for this product")
