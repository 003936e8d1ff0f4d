"""What can be written on the command line about approvals."""

from __future__ import annotations

from minuet.cli.parser import Commands, Parser, add, add_person, add_place, add_preview, count

_ID = "id of the approval (RUN:NODE), or of its run if that asks for one decision only"


def add_approvals(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "approvals",
        help="list what waits for people, and decide it",
        description="List what waits for a decision of people, and decide it.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(verbs, "list", "approvals:list_approvals", "list approvals")
    parser.add_argument("--run", metavar="RUN", help="only those of this run")
    parser.add_argument(
        "--status",
        choices=("pending", "decided", "timeout", "cancelled", "all"),
        default="pending",
        help="only those with this status (default: pending)",
    )
    parser.add_argument(
        "--limit", metavar="N", type=count, default=100, help="at most this many (default: 100)"
    )
    add_place(parser)
    parser = add(verbs, "show", "approvals:show", "show what is asked, and what was decided")
    parser.add_argument("id", metavar="ID", help=_ID)
    add_place(parser)
    _add_decision(verbs, "approve")
    _add_decision(verbs, "reject")


def _add_decision(verbs: Commands[Parser], verb: str) -> None:
    parser = add(
        verbs,
        verb,
        f"approvals:{verb}",
        f"decide: {verb}",
        "Decide an approval. The first decision wins: if it was decided before, or its time was\n"
        "over, the command says by whom and ends with exit code 1.",
    )
    parser.add_argument("id", metavar="ID", help=_ID)
    parser.add_argument("--comment", metavar="TEXT", default="", help="why; kept with the decision")
    parser.add_argument(
        "-d",
        "--data",
        metavar="JSON",
        help="what the form asks for: JSON, or @FILE (@- for standard input)",
    )
    add_person(parser)
    parser.add_argument(
        "--group",
        metavar="NAME",
        action="append",
        default=[],
        help="a group that this person belongs to; may be given more than once",
    )
    add_preview(parser)
    add_place(parser)
