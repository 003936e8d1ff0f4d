"""`minuet webhooks`: who is sent webhooks, and how that goes."""

from __future__ import annotations

from argparse import Namespace

from minuet import outcomes
from minuet.app import shapes
from minuet.app.app import Facade
from minuet.app.options import OptionArguments, worker_settings
from minuet.app.webhooks import WebhookReceiver
from minuet.cli.output import brief, clean, format_short_age, print_json, print_table
from minuet.cli.stores import with_app
from minuet.cli.worker_options import listed


def list_receivers(arguments: Namespace) -> int:
    """List receivers, and what waits for them."""

    async def ask(app: Facade) -> list[WebhookReceiver]:
        return await app.webhooks.list()

    found = with_app(arguments, ask, **_options(arguments))
    if arguments.output == "json":
        print_json([shapes.webhook_receiver(one) for one in found])
    elif not found:
        print("Nobody is sent webhooks. Set MINUET_WEBHOOKS to a URL.")
    else:
        rows = [
            (
                one.name,
                "down" if one.failures else "unknown" if one.url is None else "ok",
                str(one.waiting),
                "" if one.oldest_ms is None else format_short_age(one.oldest_ms),
                str(one.given_up),
                clean(one.url or ""),
                clean(brief(one.error, 100)),
            )
            for one in found
        ]
        titles = ("receiver", "state", "waiting", "oldest", "given up", "url", "last error")
        print_table(titles, rows, names=("receiver", "url"))
    return outcomes.COMPLETED


def test(arguments: Namespace) -> int:
    """Send a receiver a webhook."""

    async def ask(app: Facade) -> str | None:
        return await app.webhooks.test(arguments.name)

    error = with_app(arguments, ask, **_options(arguments))
    if arguments.output == "json":
        print_json({"name": arguments.name, "accepted": error is None, "error": error})
    else:
        print(clean(f"{arguments.name}: {'accepted' if error is None else error}"))
    return outcomes.COMPLETED if error is None else outcomes.FAILED


def _options(arguments: Namespace) -> OptionArguments:
    settings = arguments.settings
    return {
        **worker_settings(settings),
        "egress_allow": listed(settings["MINUET_EGRESS_ALLOW"]),
    }
