"""What can be written on the command line: commands, arguments and options.

Only declarations: each command names the function that does it (`module:function`), which is
imported when the command is called. The reference page is made from the same parsers.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import cache

from minuet import __version__
from minuet.cli.approval_arguments import add_approvals
from minuet.cli.key_arguments import add_audit, add_keys
from minuet.cli.letter_arguments import add_dead_letters
from minuet.cli.parser import (
    WORKFLOW_FILE,
    Commands,
    Parser,
    add,
    add_file_and_input,
    add_handling,
    add_limit,
    add_log_level,
    add_place,
    add_store,
    add_timeout,
    add_working,
    count,
    number,
)
from minuet.cli.run_arguments import add_runs, add_signal
from minuet.cli.server_arguments import add_servers
from minuet.cli.store_arguments import add_blobs, add_fleet, add_operations, add_top
from minuet.cli.testing_arguments import add_test
from minuet.cli.webhook_arguments import add_webhooks
from minuet.cli.workflow_arguments import add_deploy, add_workflows

#: What can go wrong in a simulated world (`minuet.rehearsal.scenario` says how).
TROUBLES = ("fail", "retry", "slow", "crash", "kill", "pause", "network", "store", "clock")

EPILOG = """\
exit codes:
  0  done (a run: COMPLETED)      2  wrong usage, document, input or store
  1  a run FAILED, findings, or   3  a run was CANCELLED, or out of time
     refused by a run's state
"""


@cache
def build_parser() -> Parser:
    """The whole command line; made once, for a process that calls several commands."""
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
    add_servers(commands)
    add_deploy(commands)
    add_workflows(commands)
    _add_documents(commands)
    _add_simulate(commands)
    add_test(commands)
    add_runs(commands)
    add_approvals(commands)
    add_signal(commands)
    add_dead_letters(commands)
    add_webhooks(commands)
    add_keys(commands)
    add_audit(commands)
    add_fleet(commands)
    add_top(commands)
    add_blobs(commands)
    add_operations(commands)
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
    add_limit(parser)
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
    add_limit(parser)
    parser.add_argument(
        "--idempotency-key",
        metavar="KEY",
        help="starting the same run again with this key returns the first one",
    )
    parser.add_argument("--wait", action="store_true", help="wait until the run is over")
    add_timeout(parser, "with --wait: wait at most this many seconds; the run goes on")
    add_place(parser)
    add_log_level(parser)


def _add_worker(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "worker",
        "worker:work",
        "run the nodes of a store's runs until it is stopped",
        "Run the nodes of all runs in a store, until Ctrl-C or SIGTERM.\n\n"
        "Takes the nodes whose handlers it has and leaves the others to other workers.\n\n"
        "With --url, it takes them from a server and needs no access to the store. It then runs\n"
        "handlers and registered node types; durable functions need a worker on the store.",
    )
    parser.add_argument(
        "--queues",
        metavar="QUEUE",
        nargs="+",
        default=[],
        help="take only from these queues, and nodes that need no handler (default: the queues of "
        "all handlers that are loaded)",
    )
    parser.add_argument(
        "--tenant",
        metavar="T",
        default="default",
        help="whose runs it works on (default: those of the tenant `default`); with --url, the API "
        "key says that",
    )
    add_handling(parser, "$WORKER_CONCURRENCY, else 4", remote=True)


def _add_documents(commands: Commands[Parser]) -> None:
    parser = add(
        commands, "validate", "documents:validate", "check documents and list all problems"
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help=WORKFLOW_FILE)
    parser.add_argument(
        "--handlers",
        metavar="MODULE_OR_FILE",
        action="append",
        default=[],
        help="also check that the handlers of the workflow are here; may be given more than once",
    )
    parser = add(commands, "graph", "documents:graph", "draw a workflow")
    parser.add_argument("file", metavar="FILE", help=WORKFLOW_FILE)
    parser.add_argument(
        "--format",
        choices=("mermaid", "json"),
        default="mermaid",
        help="Mermaid flowchart (default) or nodes and edges as JSON",
    )
    add(commands, "schema", "documents:schema", "print the JSON Schema of documents, for editors")
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
        "input. Nothing is stored.\n\n"
        "WORKFLOW is a file, FILE.py:NAME, or the name of a deployed workflow, as for\n"
        "`minuet start`.",
    )
    add_file_and_input(parser, "WORKFLOW", "document's file, FILE.py:NAME, or a deployed workflow")
    # Only a name needs the store.
    add_store(parser, "registry")
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
