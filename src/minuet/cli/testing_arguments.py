"""What can be written on the command line about recorded runs."""

from __future__ import annotations

from minuet.cli.parser import Commands, Parser, add


def add_test(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "test",
        "testing:test",
        "play recorded runs again, and report the first difference",
        "Play recorded runs (minuet runs export RUN > FILE) again, and report the first\n"
        "difference of each. Handlers give what they gave in the recorded run. With --document\n"
        "the run follows another document, with --live handlers are called and compared.\n"
        "Nothing is stored. Exit code 1 if a run differs.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="recorded runs")
    parser.add_argument(
        "--document",
        metavar="FILE",
        action="append",
        default=[],
        dest="documents",
        help="a workflow, or one of its child runs, instead of the recorded plan of the same "
        "name; may be given more than once",
    )
    parser.add_argument(
        "--handlers",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="with --live: where the handlers are; may be given more than once",
    )
    parser.add_argument(
        "--live",
        metavar="NODE",
        action="append",
        default=[],
        help="call this node's handler, and compare what it returns; may be given more than once",
    )
