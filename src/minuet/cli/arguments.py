"""What can be written on the command line: commands, arguments and options.

Only declarations: each command names the function that does it (`module:function`), which is
imported when the command is called. The reference page is made from the same parsers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from minuet import __version__
from minuet.cli.parser import (
    Commands,
    Parser,
    add,
    add_all,
    add_dry_run,
    add_file_and_input,
    add_handling,
    add_log_level,
    add_older_than,
    add_store,
    add_timeout,
    add_working,
    add_yes,
    age,
    count,
    number,
)
from minuet.cli.workflow_arguments import add_deploy, add_workflows

#: What can go wrong in a simulated world (`minuet.rehearsal.scenario` says how).
TROUBLES = ("fail", "retry", "slow", "crash", "kill", "pause", "network", "store", "clock")

ENDED = ("COMPLETED", "FAILED", "CANCELLED")
STATUSES = ("PENDING", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED")

EPILOG = """\
exit codes:
  0  done (a run: COMPLETED)      2  wrong usage, document, input or store
  1  a run FAILED, findings, or   3  a run was CANCELLED, or out of time
     refused by a run's state
"""


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
    add_deploy(commands)
    add_workflows(commands)
    _add_documents(commands)
    _add_simulate(commands)
    _add_runs(commands)
    _add_signal(commands)
    _add_fleet(commands)
    _add_blobs(commands)
    _add_operations(commands)
    return parser


def _add_run(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "run",
        "execute:run",
        "run a workflow to its end in this process",
        "Check a workflow and run it to its end in this process. Other runs of the store are\n"
        "left alone.\n\n"
        "Without --handlers, a Python file of the same name beside the workflow\n"
        "(order.py beside order.yaml) is used.",
    )
    add_file_and_input(parser)
    add_working(parser)


def _add_resume(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "resume",
        "execute:resume",
        "continue open runs until they end",
        "Continue the open runs of a store, or those named, until they end.",
    )
    parser.add_argument(
        "runs",
        metavar="RUN",
        nargs="*",
        help="run id, or its unambiguous beginning; without any: all open runs",
    )
    add_working(parser)


def _add_start(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "start",
        "start:start",
        "start a run and leave it to the workers of the store",
        "Start a run of a deployed workflow, or of a file, for the workers of the store to\n"
        "execute. This process executes nothing of it.\n\n"
        "WORKFLOW is the name of a deployed workflow: name, name@tag or name@version. What has a\n"
        "slash, or ends in .yaml, .yml or .json, is a file.",
    )
    add_file_and_input(parser, "WORKFLOW", "deployed workflow, or a document's file")
    parser.add_argument(
        "--idempotency-key",
        metavar="KEY",
        help="starting the same run again with this key returns the first one",
    )
    parser.add_argument("--wait", action="store_true", help="wait until the run is over")
    add_timeout(parser, "with --wait: wait at most this many seconds; the run goes on")
    add_store(parser)
    add_log_level(parser)


def _add_worker(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "worker",
        "worker:work",
        "run the nodes of a store's runs until it is stopped",
        "Run the nodes of all runs in a store, until Ctrl-C or SIGTERM.\n\n"
        "Takes the nodes whose handlers it has and leaves the others to other workers.",
    )
    parser.add_argument(
        "--queues",
        metavar="QUEUE",
        nargs="+",
        default=[],
        help="take only from these queues, and nodes that need no handler (default: the queues of "
        "all handlers that are loaded)",
    )
    add_handling(parser, "$WORKER_CONCURRENCY, else 4")


def _add_documents(commands: Commands[Parser]) -> None:
    parser = add(
        commands, "validate", "documents:validate", "check documents and list all problems"
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="workflow document, YAML or JSON")
    parser.add_argument(
        "--handlers",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="also check that the handlers of the workflow are here; may be given more than once",
    )
    parser = add(commands, "graph", "documents:graph", "draw a workflow")
    parser.add_argument("file", metavar="FILE", help="workflow document, YAML or JSON")
    parser.add_argument(
        "--format",
        choices=("mermaid", "json"),
        default="mermaid",
        help="Mermaid flowchart (default) or nodes and edges as JSON",
    )
    parser = add(commands, "node-types", "catalog:node_types", "list the node types, or show one")
    parser.add_argument("name", metavar="NAME", nargs="?", help="show this one, with its schema")
    parser.add_argument(
        "--handlers",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="also list the node types that these register; may be given more than once",
    )


def _add_simulate(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "simulate",
        "simulate:simulate",
        "try a workflow in simulated worlds full of faults",
        "Run a workflow many times in simulated worlds, in which workers die and stand still,\n"
        "calls get lost and doubled, the store goes away and handlers fail, and report what can\n"
        "happen to it. Handlers are stubs unless they are given; without -i each world draws an\n"
        "input. Nothing is stored.",
    )
    add_file_and_input(parser)
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
        help="with --handlers: use only what they declare, and run stubs in their place",
    )
    parser.add_argument(
        "--seeds", metavar="N", type=count, default=200, help="how many worlds (default: 200)"
    )
    parser.add_argument(
        "--start", metavar="S", type=number, default=0, help="the first seed (default: 0)"
    )
    parser.add_argument(
        "--seed", metavar="S", type=number, help="only this seed, with everything that happens"
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
    parser = add(verbs, "list", "runs:list_runs", "list runs, the newest first")
    parser.add_argument(
        "--status", choices=STATUSES, action="append", default=[], help="only these; repeatable"
    )
    parser.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    parser.add_argument(
        "--limit", metavar="N", type=count, default=20, help="at most this many (default: 20)"
    )
    add_store(parser)
    parser = _add_about(verbs, "show", "runs:show", "show how a run stands, node by node")
    parser.add_argument(
        "node",
        metavar="NODE",
        nargs="?",
        help="only this node, with its instances; `NODE[2]` is the third iteration of a loop",
    )
    add_all(parser)
    parser = _add_about(verbs, "events", "runs:events", "list a run's history, event by event")
    parser.add_argument(
        "--after", metavar="SEQ", type=number, default=0, help="only events after this number"
    )
    _add_about(verbs, "tree", "runs:tree", "show a run with its child runs, and theirs")
    parser = _add_about(verbs, "why", "runs:why", "explain why a node has not run, or why it has")
    parser.add_argument("node", metavar="NODE", help="id of the node; `NODE[2]` is one instance")
    parser = _add_about(verbs, "replay", "runs:replay", "show how a run stood at an earlier event")
    parser.add_argument(
        "--at", metavar="SEQ", type=count, help="number of the event (default: the last one)"
    )
    add_all(parser)
    parser = _add_change(verbs, "cancel", "end a run as CANCELLED")
    parser.add_argument("--reason", help="stored with the run (default: cancelled)")
    _add_change(verbs, "pause", "start nothing more of a run")
    _add_change(verbs, "resume", "continue a paused run")
    _add_change(verbs, "retry", "run again what failed or was cut off in a run")
    parser = add(
        verbs,
        "delete",
        "retention:delete_runs",
        "delete runs that are over",
        "Delete runs that are over, with all that belongs to them: those named, or with\n"
        "--older-than those that ended longer ago. Open runs are kept, and so are the parents\n"
        "of open runs.",
    )
    parser.add_argument("runs", metavar="RUN", nargs="*", help="whole run id")
    add_older_than(parser, "delete runs that ended longer ago than this, such as 30d, 12h or 45m")
    parser.add_argument(
        "--status",
        choices=ENDED,
        action="append",
        default=[],
        help="with --older-than: only these; repeatable",
    )
    add_dry_run(parser)
    add_yes(parser)
    add_store(parser)


def _add_about(verbs: Commands[Parser], name: str, function: str, summary: str) -> Parser:
    parser = add(verbs, name, function, summary)
    parser.add_argument("run", metavar="RUN", help="run id, its unambiguous beginning, or `latest`")
    add_store(parser)
    return parser


def _add_change(verbs: Commands[Parser], name: str, summary: str) -> Parser:
    parser = add(verbs, name, f"runs:{name}", summary)
    parser.add_argument("run", metavar="RUN", help="run id, or its unambiguous beginning")
    add_store(parser)
    return parser


def _add_signal(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "signal",
        "signal:send",
        "send a signal to a run",
        "Send a signal to a run. The node that has waited for a signal of this name the longest\n"
        "receives it. If none waits, the run keeps it for the next one that does.",
    )
    parser.add_argument("run", metavar="RUN", help="run id, or its unambiguous beginning")
    parser.add_argument("name", metavar="NAME", help="the name that a node waits for")
    parser.add_argument(
        "-d",
        "--data",
        metavar="JSON",
        default="null",
        help="the output of the node that receives it: JSON, or @FILE (@- for standard input); "
        "default: null",
    )
    parser.add_argument(
        "--idempotency-key",
        metavar="KEY",
        help="sending a signal again with this key changes nothing",
    )
    add_store(parser)


def _add_fleet(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "workers",
        help="look at workers and drain them",
        description="Look at the workers of a store and drain them.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(verbs, "list", "workers:list_workers", "list the workers of a store")
    add_store(parser)
    parser = add(
        verbs,
        "drain",
        "workers:drain",
        "ask a worker to finish and end",
        "Ask a worker to take nothing more, to finish what it has, and to end.",
    )
    parser.add_argument("worker", metavar="WORKER", help="name, id, or the beginning of an id")
    parser.add_argument("--wait", action="store_true", help="wait until it has ended")
    add_timeout(parser, "with --wait: wait at most this many seconds")
    add_store(parser)
    parser = add(
        commands,
        "queues",
        "workers:queues",
        "show what waits, what runs, and who serves it",
    )
    add_store(parser)


def _add_blobs(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "blobs",
        help="store contents under their hashes, and read them",
        description="Store contents under their hashes, and read them.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(
        verbs,
        "put",
        "blobs:put",
        "store a file and print its reference",
        "Store a file and print its reference, for config_ref, schema_ref and code_ref in\n"
        "documents, and for ctx.open in handlers. It is kept while a stored plan names it.",
    )
    parser.add_argument("file", metavar="FILE", help="a file; `-` reads standard input")
    add_store(parser)
    parser = add(verbs, "get", "blobs:get", "print the content of a blob, or write it to a file")
    parser.add_argument("ref", metavar="REF", help="cas://sha256:…")
    parser.add_argument("file", metavar="FILE", nargs="?", help="write it there (default: print)")
    parser.add_argument(
        "--run", metavar="RUN", help="a run whose own blobs are found as well: its id, or `latest`"
    )
    add_store(parser)


def _add_operations(commands: Commands[Parser]) -> None:
    parser = add(commands, "doctor", "doctor:doctor", "check that a store is sound")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="repair runs that disagree with their history, and say what was changed",
    )
    add_store(parser)
    parser = add(
        commands,
        "gc",
        "retention:collect",
        "remove what is no longer needed",
        "Remove plans that nothing names, configs that no plan names, and sessions and workers\n"
        "that have been silent for long. Runs are deleted only with --older-than.",
    )
    add_older_than(parser, "first delete runs that ended longer ago than this, such as 30d")
    parser.add_argument(
        "--grace",
        metavar="AGE",
        type=age,
        help="keep plans that were used within this time (default: 1h, at least 10m)",
    )
    add_dry_run(parser)
    add_yes(parser)
    add_store(parser)
    _add_migrate(commands)
    parser = add(
        commands,
        "demo",
        "demo:demo",
        "watch a run survive the death of its process",
        "Run an example workflow, kill its process half-way, and continue in another one.",
    )
    parser.add_argument("--keep", metavar="DIR", help="keep the store in this folder")
    add(commands, "settings", "settings:show", "show every setting and where its value comes from")


def _add_migrate(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "migrate",
        "migrate:migrate",
        "move all runs and deployed workflows into another store",
        "Move all runs, open and finished, with their plans and blobs into another store, and\n"
        "copy all deployed workflows. If it is interrupted, run the command again. A run is\n"
        "never open in both stores.",
    )
    parser.add_argument("--from", dest="source", metavar="URL", required=True, help="the store")
    parser.add_argument("--to", dest="target", metavar="URL", required=True, help="the other store")
    parser.add_argument(
        "--to-blobs",
        metavar="URL",
        help="where the other store keeps large contents (without it: in the store itself); "
        "MINUET_BLOBS says where the first one does",
    )
    parser.add_argument(
        "--only", choices=("open", "finished"), help="only runs that are open, or that are over"
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait for workers to finish the nodes that they hold, instead of refusing",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="move nothing; say what would be done"
    )


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
