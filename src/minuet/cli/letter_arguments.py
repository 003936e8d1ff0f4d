"""What can be written on the command line about dead letters."""

from __future__ import annotations

import argparse

from minuet.cli.parser import Commands, Parser, add, add_person, add_place, count

_ID = "id of a dead letter; the run in it may be the beginning of its id"


def add_dead_letters(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "dlq",
        help="look at dead letters, edit, retry and discard them",
        description="Look at dead letters, which are nodes that failed for good, and edit, retry "
        "or discard them.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(verbs, "list", "dead_letters:list_letters", "list dead letters, the oldest first")
    _add_filters(parser)
    parser.add_argument(
        "--status",
        choices=("pending", "reprocessed", "discarded", "all"),
        default="pending",
        help="those that nobody has dealt with (default), or others",
    )
    parser.add_argument(
        "--group", action="store_true", help="count those with the same cause, by fingerprint"
    )
    parser.add_argument(
        "--limit", metavar="N", type=count, default=100, help="at most this many (default: 100)"
    )
    add_place(parser)
    parser = add(verbs, "show", "dead_letters:show", "show a dead letter: input, error and history")
    parser.add_argument("id", metavar="ID", help=_ID)
    add_place(parser)
    parser = add(
        verbs,
        "retry",
        "dead_letters:retry",
        "retry the runs of dead letters",
        "Retry the runs of dead letters: those named, or all pending ones that the options\n"
        "select. A run goes on with the node that failed, from its first attempt, and with what\n"
        "was cut off when it failed.",
    )
    parser.add_argument("ids", metavar="ID", nargs="*", help=_ID)
    _add_filters(parser)
    _add_rate(parser)
    add_place(parser)
    parser = add(
        verbs,
        "discard",
        "dead_letters:discard",
        "mark dead letters as of no further interest",
        "Mark pending dead letters as of no further interest. Their runs stay as they are; if\n"
        "the node is held, its run fails.",
    )
    parser.add_argument("ids", metavar="ID", nargs="+", help=_ID)
    parser.add_argument("--why", metavar="TEXT", default="", help="stored with the dead letters")
    add_person(parser)
    add_place(parser)
    parser = add(
        verbs,
        "edit",
        "dead_letters:edit",
        "give the node of a dead letter another config",
        "Give the node of a pending dead letter another config, for all its further attempts.\n"
        "Templates in it are filled in, as in a document. Retry the dead letter afterwards.",
    )
    parser.add_argument("id", metavar="ID", help=_ID)
    parser.add_argument(
        "-i",
        "--input",
        metavar="JSON",
        required=True,
        help="the config, an object: JSON, or @FILE (@- for standard input)",
    )
    parser.add_argument("--why", metavar="TEXT", default="", help="kept in the history of the run")
    add_person(parser)
    add_place(parser)
    parser = add(
        verbs,
        "reprocess",
        "dead_letters:retry",
        "retry the dead letters of a run",
        "Retry the pending dead letters of a run, or of a node in it.",
    )
    parser.add_argument("--run-id", metavar="RUN", required=True, help="run id, or its beginning")
    parser.add_argument("--node-id", metavar="NODE", help="only of this node")
    _add_rate(parser)
    parser.set_defaults(ids=[], queue=None, fingerprint=None)
    add_place(parser)
    parser = add(
        verbs,
        "redrives",
        "redrives:list_redrives",
        "list what servers retry at a pace",
        "List the redrives: dead letters that servers retry one after the other, at a pace, and\n"
        "the last ones that are over.",
    )
    add_place(parser)
    parser = add(
        verbs,
        "stop",
        "redrives:stop",
        "stop a redrive",
        "Have servers retry no more of a redrive. What it has not retried stays pending.",
    )
    parser.add_argument("id", metavar="ID", help="id of a redrive")
    add_place(parser)


def _add_filters(parser: Parser) -> None:
    parser.add_argument("--run-id", metavar="RUN", help="only of this run (id, or its beginning)")
    parser.add_argument("--node-id", metavar="NODE", help="only of this node")
    parser.add_argument("--queue", help="only of this queue")
    parser.add_argument("--fingerprint", metavar="F", help="only with this cause")


def _add_rate(parser: Parser) -> None:
    parser.add_argument(
        "--per-second", metavar="N", type=_rate, help="retry at most this many in a second"
    )


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0
    if not 0.001 <= rate <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return rate
