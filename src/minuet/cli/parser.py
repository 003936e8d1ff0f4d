"""What commands share: the parser, kinds of values, groups of options."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

LOG_LEVELS = ("debug", "info", "warning", "error")


class UsageError(Exception):
    """The command line is not valid."""

    def __init__(self, command: str, message: str) -> None:
        self.command = command
        super().__init__(message)


class Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of printing and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, message)


Commands = argparse._SubParsersAction


def add(
    commands: Commands[Parser], name: str, function: str, summary: str, description: str = ""
) -> Parser:
    """Add a command that `function` does, with the options that all commands have."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=description or f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(function=f"minuet.cli.{function}")
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="print text for people (default) or JSON for programs",
    )
    parser.add_argument(
        "--json",
        action="store_const",
        const="json",
        dest="output",
        default=argparse.SUPPRESS,
        help="the same as -o json",
    )
    return parser


def add_place(parser: Parser) -> None:
    """Where a command looks and acts: a store, or a server of one."""
    add_store(parser)
    parser.add_argument(
        "--url",
        metavar="URL",
        help="do it through the server at this address instead; several, separated by commas: the "
        "next one is used when one cannot be reached (default: $MINUET_URL; $MINUET_API_KEY is "
        "the key)",
    )


def add_store_only(parser: Parser, why: str) -> None:
    """Where a command works that needs the store itself; `why` says what for."""
    add_store(parser)
    parser.add_argument(
        "--url",
        action=_Refused,
        why=why,
        help=argparse.SUPPRESS,
        default=argparse.SUPPRESS,
    )


class _Refused(argparse.Action):
    """An option that other commands have, and that means nothing here."""

    def __init__(self, *arguments: Any, why: str, **named: Any) -> None:
        self._why = why
        super().__init__(*arguments, **named)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        parser.error(f"--url does not work here: {self._why}; use --store URL where the store is")


def add_store(parser: Parser, dest: str = "store") -> None:
    parser.add_argument(
        "--store",
        dest=dest,
        metavar="URL",
        help="sqlite:///FILE, postgresql://…, redis://… or memory:// "
        "(default: what the settings say, else sqlite:///minuet.db)",
    )


def add_working(parser: Parser) -> None:
    """Options of the commands that run handlers until runs are over."""
    add_timeout(parser, "wait at most this many seconds; the run can be resumed afterwards")
    add_handling(parser, "$WORKER_CONCURRENCY, else 32")


def add_timeout(parser: Parser, about: str) -> None:
    parser.add_argument("--timeout", metavar="S", type=seconds, help=about)


def add_watching(parser: Parser) -> None:
    """Options of commands that go on until they are stopped."""
    parser.add_argument(
        "--interval",
        metavar="S",
        type=seconds,
        default=1.0,
        help="look again after this many seconds (default: 1)",
    )
    add_timeout(parser, "end after this many seconds (default: at Ctrl-C)")
    add_place(parser)


def add_limit(parser: Parser) -> None:
    parser.add_argument(
        "--limit",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a limit of this run, such as max_hops=100 or deadline_s=60; may be given more than "
        "once; of these and those of the document, the smaller ones count",
    )


def add_handling(parser: Parser, concurrency: str, *, remote: bool = False) -> None:
    """Options of all commands that run handlers; `remote`: also those of a server's runs."""
    if remote:
        add_place(parser)
    else:
        add_store_only(parser, "it runs nodes in this process, on the store itself")
    parser.add_argument(
        "--handlers",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="Python module or file with the handlers; may be given more than once",
    )
    parser.add_argument(
        "--concurrency",
        metavar="N",
        type=count,
        help=f"handlers that run at once (default: {concurrency})",
    )
    parser.add_argument(
        "--lease",
        metavar="S",
        type=seconds,
        help="seconds after which another worker may take the nodes of one that died "
        "(default: $MINUET_LEASE, else 30)",
    )
    add_log_level(parser)
    add_offer(parser)


def add_log_level(parser: Parser) -> None:
    parser.add_argument(
        "--log-level",
        metavar="LEVEL",
        type=str.lower,
        choices=LOG_LEVELS,
        help=f"show log lines from this level on: {', '.join(LOG_LEVELS)} (default: warnings, and "
        "from handlers, by ctx.log, info)",
    )


def add_offer(parser: Parser) -> None:
    """What the worker offers to nodes with placement constraints."""
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="name of the worker (default: $MINUET_WORKER_NAME, else the machine's name)",
    )
    parser.add_argument(
        "--capability",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="what the worker offers, such as gpu=1; a value that is JSON is read as JSON; may be "
        "given more than once (cpu_cores and memory_gb are detected)",
    )
    parser.add_argument(
        "--label",
        metavar="LABEL",
        action="append",
        default=[],
        help="one of its labels; may be given more than once",
    )
    parser.add_argument(
        "--executor",
        metavar="TYPE",
        action="append",
        default=[],
        help="what it executes beside its node types and handlers; may be given more than once",
    )


#: What names a workflow that is not deployed (`sources`).
WORKFLOW_FILE = "workflow document, YAML or JSON, or a workflow in Python: FILE.py:NAME"


def add_file_and_input(parser: Parser, word: str = "FILE", about: str = WORKFLOW_FILE) -> None:
    # Optional only for the parser: after -i the file is parsed as one of its values.
    parser.usage = f"{parser.prog} {word} [-i INPUT …] [options]"
    parser.add_argument("file", metavar=word, nargs="?", help=about)
    parser.add_argument(
        "-i",
        "--input",
        metavar="INPUT",
        action="append",
        nargs="+",
        default=[],
        help="the run's input: JSON, @FILE (@- for standard input), or key=value … "
        "where a value that is JSON is read as JSON",
    )


def add_all(parser: Parser) -> None:
    parser.add_argument(
        "--all", action="store_true", help="list every instance of every node, loops included"
    )


def add_person(parser: Parser) -> None:
    parser.add_argument(
        "--as", dest="by", metavar="NAME", help="who decides (default: the user of this machine)"
    )


def add_older_than(parser: Parser, about: str) -> None:
    parser.add_argument("--older-than", metavar="AGE", type=age, help=about)


def add_dry_run(parser: Parser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="delete nothing; say what would be deleted"
    )


def add_preview(parser: Parser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="change nothing; say what would happen"
    )


def add_yes(parser: Parser) -> None:
    parser.add_argument(
        "-y", "--yes", action="store_true", help="delete without asking; needed without a terminal"
    )


def number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return number


def count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return number


def seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return seconds


def age(text: str) -> int:
    """Milliseconds of `30d`, `12h`, `45m`, `90s`."""
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal() and unit in units and int(number) < 1_000_000):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an age: write a number and a unit, such as 30d, 12h, 45m or 90s"
        )
    return int(number) * units[unit] * 1_000
