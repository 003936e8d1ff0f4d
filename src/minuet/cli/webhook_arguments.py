"""What can be written on the command line about webhooks."""

from __future__ import annotations

from minuet.cli.parser import Commands, Parser, add, add_place


def add_webhooks(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "webhooks",
        help="see who is sent webhooks, and try it",
        description="See who is sent webhooks (MINUET_WEBHOOKS), and try it.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(
        verbs, "list", "webhooks:list_receivers", "list receivers, and what waits for them"
    )
    add_place(parser)
    parser = add(
        verbs,
        "test",
        "webhooks:test",
        "send a receiver a webhook now",
        "Send a receiver a webhook of the type `test`, now and once. Exit code 1: it was not\n"
        "accepted.",
    )
    parser.add_argument("name", metavar="NAME", help="name of the receiver, as `list` shows it")
    add_place(parser)
