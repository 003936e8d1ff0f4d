"""What can be written on the command line about runs."""

from __future__ import annotations

from minuet.cli.parser import (
    Commands,
    Parser,
    add,
    add_all,
    add_dry_run,
    add_older_than,
    add_person,
    add_place,
    add_preview,
    add_watching,
    add_yes,
    count,
    number,
)
from minuet.types import ENDED, STATUSES

FILTERS = """\
A filter is words that must all fit a run: status:failed workflow:order tag:customer:acme
'age<1h' 'took>5s' is:stalled is:child by:NAME parent:RUN run:ID error:TEXT input:TEXT
output:TEXT, or a text that may be anywhere. `-` before a word means that it must not fit, commas
separate alternatives, and * stands for anything."""


def add_runs(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "runs",
        help="look at runs and change them",
        description="Look at runs and change them.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(verbs, "list", "searching:list_runs", "list runs, the newest first", FILTERS)
    _add_filter(parser)
    parser.add_argument(
        "--limit", metavar="N", type=count, default=20, help="at most this many (default: 20)"
    )
    add_place(parser)
    parser = add(verbs, "histogram", "searching:histogram", "count runs over time", FILTERS)
    _add_filter(parser)
    parser.add_argument(
        "--buckets", metavar="N", type=count, default=24, help="how many parts (default: 24)"
    )
    add_place(parser)
    parser = add(
        verbs,
        "watch",
        "watching:watch",
        "watch runs while they change",
        "Watch a run until it is over, or the newest runs until Ctrl-C: a table on a terminal, a\n"
        "line for each change elsewhere.",
    )
    parser.add_argument(
        "run", metavar="RUN", nargs="?", help="run id, its unambiguous beginning, or `latest`"
    )
    parser.add_argument(
        "--status", choices=STATUSES, action="append", default=[], help="only these; repeatable"
    )
    parser.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    parser.add_argument(
        "--limit", metavar="N", type=count, default=20, help="at most this many (default: 20)"
    )
    add_watching(parser)
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
    parser = _add_about(verbs, "logs", "logs:logs", "show what handlers have printed and logged")
    parser.add_argument(
        "node", metavar="NODE", nargs="?", help="only this node; `NODE[2]` is one instance"
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the run is over, or Ctrl-C"
    )
    _add_about(verbs, "tree", "runs:tree", "show a run with its child runs, and theirs")
    parser = _add_about(verbs, "why", "runs:why", "explain why a node has not run, or why it has")
    parser.add_argument("node", metavar="NODE", help="id of the node; `NODE[2]` is one instance")
    parser = _add_about(
        verbs, "attempts", "attempts:attempts", "show what a node was given, and its attempts"
    )
    parser.add_argument(
        "node", metavar="NODE", help="id of the node; `NODE[2]` is one instance (default: the last)"
    )
    parser = _add_about(verbs, "replay", "runs:replay", "show how a run stood at an earlier event")
    parser.add_argument(
        "--at", metavar="SEQ", type=count, help="number of the event (default: the last one)"
    )
    add_all(parser)
    _add_about(
        verbs, "export", "testing:export", "print a run with all that belongs to it, as JSON"
    )
    parser = _add_changes(verbs, "cancel", "end runs as CANCELLED")
    parser.add_argument("--reason", help="stored with the run (default: cancelled)")
    _add_changes(verbs, "pause", "start nothing more of runs")
    _add_changes(verbs, "resume", "continue paused runs")
    parser = _add_changes(verbs, "retry", "run again what failed or was cut off in runs")
    parser.add_argument(
        "--undone",
        action="store_true",
        help="start a run that was undone over, as another run",
    )
    parser = _add_change(verbs, "rollback", "undo a run that is over: run its compensators")
    parser.add_argument(
        "--to",
        metavar="NODE",
        help="undo only what completed after this node",
    )
    add_preview(parser)
    _add_repair(verbs, "skip", "skip a node: what follows goes on without it")
    parser = _add_repair(verbs, "set-output", "give a node an output: its handler is not called")
    parser.add_argument(
        "-d",
        "--data",
        metavar="JSON",
        required=True,
        help="the output: JSON, or @FILE (@- for standard input)",
    )
    _add_repair(verbs, "take-back", "take a node back from the worker that runs it")
    parser = add(
        verbs,
        "delete",
        "retention:delete_runs",
        "delete runs that are over",
        "Delete runs that are over, with all that belongs to them: those named, with\n"
        "--older-than those that ended longer ago, with --filter those that fit it. Open runs\n"
        "are kept, and so are the parents of open runs.",
    )
    parser.add_argument("runs", metavar="RUN", nargs="*", help="whole run id")
    add_older_than(parser, "delete runs that ended longer ago than this, such as 30d, 12h or 45m")
    add_many(parser)
    parser.add_argument(
        "--status",
        choices=ENDED,
        action="append",
        default=[],
        help="with --older-than: only these; repeatable",
    )
    add_dry_run(parser)
    add_yes(parser)
    add_place(parser)


def _add_filter(parser: Parser) -> None:
    """Which runs: a filter, and options that say a part of it each."""
    parser.add_argument("--filter", metavar="FILTER", default="", help="only runs that fit it")
    parser.add_argument(
        "--status", choices=STATUSES, action="append", default=[], help="only these; repeatable"
    )
    parser.add_argument("--workflow", metavar="NAME", help="only runs of this workflow")
    parser.add_argument(
        "--tag",
        metavar="TAG",
        help="only runs that were started by this tag of their workflow, or NAME:VALUE: only runs "
        "with this tag",
    )
    parser.add_argument("--parent", metavar="RUN", help="only child runs of this run")
    parser.add_argument(
        "--since", metavar="TIME", help="only runs created since then: 45m, 12h, 2026-11-17"
    )
    parser.add_argument("--until", metavar="TIME", help="only runs created until then")
    parser.add_argument(
        "--stalled",
        action="store_true",
        help="only runs that wait for nobody, and to which nothing happens ($MINUET_STALL_SECONDS)",
    )


def _add_about(verbs: Commands[Parser], name: str, function: str, summary: str) -> Parser:
    parser = add(verbs, name, function, summary)
    parser.add_argument("run", metavar="RUN", help="run id, its unambiguous beginning, or `latest`")
    add_place(parser)
    return parser


def _add_changes(verbs: Commands[Parser], name: str, summary: str) -> Parser:
    """A change of one run, or of several."""
    parser = add(verbs, name, f"runs:{name}", summary)
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", help="run id, or its unambiguous beginning"
    )
    add_many(parser)
    _add_seq(parser)
    add_preview(parser)
    parser.add_argument(
        "-y",
        "--yes",
        action="store_true",
        help="with --filter: do not ask; needed without a terminal",
    )
    add_place(parser)
    return parser


def add_many(parser: Parser) -> None:
    """Which runs, if there are several."""
    parser.add_argument(
        "--filter",
        metavar="FILTER",
        help="all runs that fit it, instead of RUN (`minuet runs list --help`)",
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=count,
        default=100,
        help="with --filter: at most this many, the newest (default: 100)",
    )


def _add_change(verbs: Commands[Parser], name: str, summary: str) -> Parser:
    parser = add(verbs, name, f"runs:{name}", summary)
    parser.add_argument("run", metavar="RUN", help="run id, or its unambiguous beginning")
    _add_seq(parser)
    add_place(parser)
    return parser


def _add_seq(parser: Parser) -> None:
    parser.add_argument(
        "--if-seq",
        metavar="SEQ",
        type=number,
        help="only if this is still the number of the run's last event (`seq`)",
    )


def _add_repair(verbs: Commands[Parser], name: str, summary: str) -> Parser:
    parser = add(verbs, name, f"repairs:{name.replace('-', '_')}", summary)
    parser.add_argument("run", metavar="RUN", help="run id, or its unambiguous beginning")
    parser.add_argument("node", metavar="NODE", help="id of the node; `NODE[2]` is one instance")
    parser.add_argument(
        "--why",
        metavar="TEXT",
        required=name != "take-back",
        default="",
        help="kept in the history of the run",
    )
    add_person(parser)
    _add_seq(parser)
    add_preview(parser)
    add_place(parser)
    return parser


def add_signal(commands: Commands[Parser]) -> None:
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
    add_preview(parser)
    add_place(parser)
