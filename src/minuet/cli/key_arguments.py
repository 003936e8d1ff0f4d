"""What can be written on the command line about API keys."""

from __future__ import annotations

from minuet.cli.parser import Commands, Parser, add, add_place, age, count

#: As `minuet.app.roles` has them, which takes longer to import.
ROLES = ("viewer", "operator", "editor", "approver", "worker", "admin")


def add_keys(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "keys",
        help="create and revoke the API keys of a server's clients",
        description="Create and revoke the API keys with which clients call a server.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(
        verbs,
        "create",
        "keys:create",
        "create an API key, and print it once",
        "Create an API key for a person or a service. It is printed now and never again: the\n"
        "store has only its hash.",
    )
    parser.add_argument(
        "name", metavar="NAME", help="who has it; keys with one name are one person's"
    )
    parser.add_argument(
        "--role",
        metavar="R",
        dest="roles",
        action="append",
        required=True,
        choices=ROLES,
        help=f"what it lets do: {', '.join(ROLES)}; may be given more than once",
    )
    parser.add_argument(
        "--group",
        metavar="G",
        dest="groups",
        action="append",
        default=[],
        help="a group that its owner is in, for approvals; may be given more than once",
    )
    parser.add_argument(
        "--trusted",
        action="store_true",
        help="it may act in the name of others: what it sends as decided_by counts",
    )
    parser.add_argument(
        "--expires", metavar="AGE", type=age, help="it ends after this time, such as 90d or 12h"
    )
    _add_tenant(parser)
    add_place(parser)
    parser = add(verbs, "list", "keys:list_keys", "list API keys, without the keys themselves")
    _add_tenant(parser)
    add_place(parser)
    parser = add(
        verbs,
        "revoke",
        "keys:revoke",
        "end an API key",
        "End an API key. Servers refuse it within seconds.",
    )
    parser.add_argument("id", metavar="ID", help="its id, as `list` shows it, or the key itself")
    _add_tenant(parser)
    add_place(parser)


def add_audit(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "audit",
        "keys:audit",
        "list who has changed what over HTTP",
        "List who has changed what over HTTP, and from where, the newest first. Who has started a\n"
        "run is in the run: see `minuet runs show`.",
    )
    parser.add_argument(
        "--limit", metavar="N", type=count, default=100, help="at most this many (default: 100)"
    )
    _add_tenant(parser)
    add_place(parser)


def _add_tenant(parser: Parser) -> None:
    parser.add_argument(
        "--tenant",
        metavar="T",
        default="default",
        help="whose runs it is about (default: those of the tenant `default`); with --url, the API "
        "key says that",
    )
