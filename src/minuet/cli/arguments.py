"""What can be written on the command line: commands, arguments and options.

Only declarations: each command names the function that does it (`module:function`), which is
imported when the command is called. The reference page is made from the same parsers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import NoReturn

from minuet import __version__

#: What can go wrong in a simulated world (`minuet.rehearsal.scenario` says how).
TROUBLES = ("fail", "retry", "slow", "crash", "kill", "pause", "network", "store", "clock")

LOG_LEVELS = ("debug", "info", "warning", "error")

ENDED = ("COMPLETED", "FAILED", "CANCELLED")
STATUSES = ("PENDING", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED")

EPILOG = """\
exit codes:
  0  done (a run: COMPLETED)      2  wrong usage, document, input or store
  1  a run FAILED, or findings    3  a run was CANCELLED, or the time was over
"""


class UsageError(Exception):
    """The command line makes no sense."""

    def __init__(self, command: str, message: str) -> None:
        self.command = command
        super().__init__(message)


class Parser(argparse.ArgumentParser):
    """A parser that leaves it to the caller to say what is wrong."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, message)


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="minuet",
        description="Durable workflows of tasks, agents and people.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"minuet {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    _add_run(commands)
    _add_resume(commands)
    _add_start(commands)
    _add_worker(commands)
    _add_documents(commands)
    _add_simulate(commands)
    _add_runs(commands)
    _add_fleet(commands)
    _add_operations(commands)
    return parser


Commands = argparse._SubParsersAction


def _add(
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


def _add_store(parser: Parser) -> None:
    parser.add_argument(
        "--store",
        metavar="URL",
        help="sqlite:///FILE, postgresql://…, redis://… or memory:// "
        "(default: what the settings say, else sqlite:///minuet.db)",
    )


def _add_working(parser: Parser) -> None:
    """Options of the commands that run handlers until runs are over."""
    _add_timeout(parser, "wait at most this many seconds; the run can be resumed afterwards")
    _add_handling(parser, "$WORKER_CONCURRENCY, else 32")


def _add_timeout(parser: Parser, about: str) -> None:
    parser.add_argument("--timeout", metavar="S", type=_seconds, help=about)


def _add_handling(parser: Parser, concurrency: str) -> None:
    """Options of all commands that run handlers."""
    _add_store(parser)
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
        type=_count,
        help=f"handlers that run at once (default: {concurrency})",
    )
    parser.add_argument(
        "--lease",
        metavar="S",
        type=_seconds,
        help="seconds after which a node of a worker that died is given to another "
        "(default: $MINUET_LEASE, else 30)",
    )
    _add_log_level(parser)
    _add_offer(parser)


def _add_log_level(parser: Parser) -> None:
    parser.add_argument(
        "--log-level",
        metavar="LEVEL",
        type=str.lower,
        choices=LOG_LEVELS,
        help=f"show log lines from this level on: {', '.join(LOG_LEVELS)} (default: warnings, and "
        "what handlers say with ctx.log from info on)",
    )


def _add_offer(parser: Parser) -> None:
    """What the worker offers to nodes with placement constraints."""
    parser.add_argument(
        "--name",
        metavar="NAME",
        help="what the worker is called (default: $MINUET_WORKER_NAME, else the machine's name)",
    )
    parser.add_argument(
        "--capability",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="something it has to offer, such as gpu=1; a value that is JSON is taken as JSON; "
        "may be given more than once (cpu_cores and memory_gb are found out)",
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
        help="something it executes beside its node types and handlers; may be given more than "
        "once",
    )


def _add_run(commands: Commands[Parser]) -> None:
    parser = _add(
        commands,
        "run",
        "execute:run",
        "run a workflow to its end in this process",
        "Check a workflow and run it to its end in this process. Other runs of the store are\n"
        "left alone.\n\n"
        "Without --handlers, a Python file of the same name beside the workflow\n"
        "(order.py beside order.yaml) is taken.",
    )
    _add_file_and_input(parser)
    _add_working(parser)


def _add_file_and_input(parser: Parser) -> None:
    # Optional only for the parser: behind -i the file is taken for one more value of it.
    parser.usage = f"{parser.prog} FILE [-i INPUT …] [options]"
    parser.add_argument("file", metavar="FILE", nargs="?", help="workflow document, YAML or JSON")
    parser.add_argument(
        "-i",
        "--input",
        metavar="INPUT",
        action="append",
        nargs="+",
        default=[],
        help="the run's input: JSON, @FILE (@- for standard input), or key=value … "
        "where a value that is JSON is taken as JSON",
    )


def _add_resume(commands: Commands[Parser]) -> None:
    parser = _add(
        commands,
        "resume",
        "execute:resume",
        "go on with open runs until they end",
        "Go on with the open runs of a store, or with those named, until they end.",
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="run id, or its unambiguous beginning; without any: all open runs",
    )
    _add_working(parser)


def _add_start(commands: Commands[Parser]) -> None:
    parser = _add(
        commands,
        "start",
        "start:start",
        "start a run and leave it to the workers of the store",
        "Check a workflow and start a run of it, for the workers of the store to go on with.",
    )
    _add_file_and_input(parser)
    parser.add_argument(
        "--idempotency-key",
        metavar="KEY",
        help="starting the same again with this key gives the same run",
    )
    parser.add_argument("--wait", action="store_true", help="wait until the run is over")
    _add_timeout(parser, "with --wait: wait at most this many seconds; the run goes on")
    _add_store(parser)
    _add_log_level(parser)


def _add_worker(commands: Commands[Parser]) -> None:
    parser = _add(
        commands,
        "worker",
        "worker:work",
        "run the nodes of a store's runs until told to stop",
        "Run the nodes of whatever runs there are in a store, until Ctrl-C or SIGTERM.\n\n"
        "Takes the nodes whose handlers it has and leaves the others to other workers.",
    )
    parser.add_argument(
        "--queues",
        metavar="QUEUE",
        nargs="+",
        default=[],
        help="take from these alone (beside nodes that need no handler); without it from the "
        "queues of all handlers that are here",
    )
    _add_handling(parser, "$WORKER_CONCURRENCY, else 4")


def _add_documents(commands: Commands[Parser]) -> None:
    parser = _add(
        commands, "validate", "documents:validate", "check documents and list all problems"
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="workflow document, YAML or JSON")
    parser.add_argument(
        "--handlers",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="check also that the handlers named exist here; may be given more than once",
    )
    parser = _add(commands, "graph", "documents:graph", "draw a workflow")
    parser.add_argument("file", metavar="FILE", help="workflow document, YAML or JSON")
    parser.add_argument(
        "--format",
        choices=("mermaid", "json"),
        default="mermaid",
        help="Mermaid flowchart (default) or nodes and edges as JSON",
    )
    parser = _add(commands, "node-types", "catalog:node_types", "list the node types, or show one")
    parser.add_argument("name", metavar="NAME", nargs="?", help="show this one, with its schema")


def _add_simulate(commands: Commands[Parser]) -> None:
    parser = _add(
        commands,
        "simulate",
        "simulate:simulate",
        "try a workflow in simulated worlds full of faults",
        "Run a workflow many times in simulated worlds, in which workers die and stand still,\n"
        "calls get lost and doubled, the store goes away and handlers fail, and tell what can\n"
        "happen to it. Handlers are stubs unless they are given; without -i each world draws an\n"
        "input. Nothing is stored.",
    )
    _add_file_and_input(parser)
    parser.add_argument(
        "--handlers",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="run these handlers, in virtual time; may be given more than once",
    )
    parser.add_argument(
        "--stubs",
        action="store_true",
        help="with --handlers: take only what they declare, and run stubs in their place",
    )
    parser.add_argument(
        "--seeds", metavar="N", type=_count, default=200, help="how many worlds (default: 200)"
    )
    parser.add_argument(
        "--start", metavar="S", type=_number, default=0, help="the first seed (default: 0)"
    )
    parser.add_argument(
        "--seed", metavar="S", type=_number, help="only this seed, with everything that happens"
    )
    parser.add_argument(
        "--without",
        metavar="TROUBLE",
        choices=TROUBLES,
        action="append",
        default=[],
        help=f"leave a kind of trouble out: {', '.join(TROUBLES)}; may be given more than once",
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 for warnings as well as for errors"
    )


def _add_runs(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "runs",
        help="look at runs and change them",
        description="Look at runs and change them.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = _add(verbs, "list", "runs:list_runs", "list runs, the newest first")
    parser.add_argument(
        "--status", choices=STATUSES, action="append", default=[], help="only these; repeatable"
    )
    parser.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    parser.add_argument(
        "--limit", metavar="N", type=_count, default=20, help="at most this many (default: 20)"
    )
    _add_store(parser)
    parser = _add_about(verbs, "show", "runs:show", "show how a run stands, node by node")
    parser.add_argument(
        "node",
        metavar="NODE",
        nargs="?",
        help="only this node, with its instances; `NODE[2]` is the third iteration of a loop",
    )
    _add_all(parser)
    parser = _add_about(verbs, "events", "runs:events", "list a run's history, event by event")
    parser.add_argument(
        "--after", metavar="SEQ", type=_number, default=0, help="only events after this number"
    )
    parser = _add_about(verbs, "why", "runs:why", "explain why a node has not run, or why it has")
    parser.add_argument("node", metavar="NODE", help="id of the node; `NODE[2]` is one instance")
    parser = _add_about(verbs, "replay", "runs:replay", "show how a run stood at an earlier event")
    parser.add_argument(
        "--at", metavar="SEQ", type=_count, help="number of the event (default: the last one)"
    )
    _add_all(parser)
    parser = _add_change(verbs, "cancel", "end a run as CANCELLED")
    parser.add_argument("--reason", default="cancelled", help="kept with the run")
    _add_change(verbs, "pause", "hand out nothing more of a run")
    _add_change(verbs, "resume", "let a paused run go on")
    _add_change(verbs, "retry", "open a FAILED or CANCELLED run again, without what is done")
    parser = _add(
        verbs,
        "delete",
        "retention:delete_runs",
        "delete runs that are over",
        "Delete runs that are over, with all that belongs to them: those named, or with\n"
        "--older-than those that ended longer ago. Open runs stay, and so do runs that an open\n"
        "run names as its parent.",
    )
    parser.add_argument("runs", metavar="RUN", nargs="*", help="whole run id")
    _add_older_than(parser, "delete runs that ended longer ago than this, such as 30d, 12h or 45m")
    parser.add_argument(
        "--status",
        choices=ENDED,
        action="append",
        default=[],
        help="with --older-than: only these; repeatable",
    )
    _add_dry_run(parser)
    _add_yes(parser)
    _add_store(parser)


def _add_all(parser: Parser) -> None:
    parser.add_argument(
        "--all", action="store_true", help="list every instance of every node, loops included"
    )


def _add_about(verbs: Commands[Parser], name: str, function: str, summary: str) -> Parser:
    parser = _add(verbs, name, function, summary)
    parser.add_argument("run", metavar="RUN", help="run id, its unambiguous beginning, or `latest`")
    _add_store(parser)
    return parser


def _add_change(verbs: Commands[Parser], name: str, summary: str) -> Parser:
    parser = _add(verbs, name, f"runs:{name}", summary)
    parser.add_argument("run", metavar="RUN", help="run id, or its unambiguous beginning")
    _add_store(parser)
    return parser


def _add_older_than(parser: Parser, about: str) -> None:
    parser.add_argument("--older-than", metavar="AGE", type=_age, help=about)


def _add_dry_run(parser: Parser) -> None:
    parser.add_argument(
        "--dry-run", action="store_true", help="look at everything and say what would be deleted"
    )


def _add_yes(parser: Parser) -> None:
    parser.add_argument(
        "-y", "--yes", action="store_true", help="delete without asking; needed off a terminal"
    )


def _add_fleet(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "workers",
        help="look at workers and drain them",
        description="Look at the workers of a store and drain them.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = _add(verbs, "list", "fleet:list_workers", "list the workers of a store")
    _add_store(parser)
    parser = _add(
        verbs,
        "drain",
        "fleet:drain",
        "ask a worker to end",
        "Ask a worker to take nothing more, to finish what it has, and to end.",
    )
    parser.add_argument("worker", metavar="WORKER", help="name, id, or the beginning of an id")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended")
    _add_timeout(parser, "with --wait: wait at most this many seconds")
    _add_store(parser)
    parser = _add(
        commands, "queues", "fleet:queues", "show what waits, what runs, and which workers serve it"
    )
    _add_store(parser)


def _add_operations(commands: Commands[Parser]) -> None:
    parser = _add(
        commands, "doctor", "doctor:doctor", "check that everything that must hold does hold"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="make runs agree with their history where they do not, and say what was changed",
    )
    _add_store(parser)
    parser = _add(
        commands,
        "gc",
        "retention:collect",
        "remove what nobody needs any more",
        "Remove plans that no run names, configs that no plan names, sessions and workers that\n"
        "were not heard of for long. Runs are deleted only with --older-than.",
    )
    _add_older_than(parser, "first delete runs that ended longer ago than this, such as 30d")
    parser.add_argument(
        "--grace",
        metavar="AGE",
        type=_age,
        default=3_600_000,
        help="keep plans that somebody has used within this time (default: 1h, at least 10m)",
    )
    _add_dry_run(parser)
    _add_yes(parser)
    _add_store(parser)
    _add_migrate(commands)
    parser = _add(
        commands,
        "demo",
        "demo:demo",
        "watch a run survive the death of its process",
        "Run an example workflow, kill its process half-way, and go on in another one.",
    )
    parser.add_argument("--keep", metavar="DIR", help="keep the store in this folder")
    _add(commands, "settings", "settings:show", "show every setting and where its value comes from")


def _add_migrate(commands: Commands[Parser]) -> None:
    parser = _add(
        commands,
        "migrate",
        "migrate:migrate",
        "move all runs into another store",
        "Move all runs, open and finished, with their plans and blobs into another store.\n"
        "Interrupted, it goes on when the command is given again; a run is never open in both.",
    )
    parser.add_argument("--from", dest="source", metavar="URL", required=True, help="the store")
    parser.add_argument("--to", dest="target", metavar="URL", required=True, help="the other store")
    parser.add_argument(
        "--only", choices=("open", "finished"), help="only runs that are open, or that are over"
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for workers to finish what they hold, instead of refusing",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="look at everything and say what would be done"
    )


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 0 or more")
    return number


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of 1 or more")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return seconds


def _age(text: str) -> int:
    """Milliseconds of `30d`, `12h`, `45m`, `90s`."""
    units = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal() and unit in units and int(number) < 1_000_000):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an age: write a number and a unit, such as 30d, 12h, 45m or 90s"
        )
    return int(number) * units[unit] * 1_000


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser; none if it is a command itself."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def every_command(
    parser: argparse.ArgumentParser | None = None,
) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands, in the order of the help page."""
    children = subcommands(parser or build_parser())
    for child in children.values():
        yield from every_command(child)
    if not children and parser is not None:
        yield parser
