"""What can be written on the command line about stores: their workers, blobs and upkeep."""

from __future__ import annotations

from minuet.cli.parser import (
    Commands,
    Parser,
    add,
    add_dry_run,
    add_older_than,
    add_place,
    add_store_only,
    add_timeout,
    add_watching,
    add_yes,
    age,
)


def add_fleet(commands: Commands[Parser]) -> None:
    group = commands.add_parser(
        "workers",
        help="look at workers and drain them",
        description="Look at the workers of a store and drain them.",
        allow_abbrev=False,
    )
    verbs = group.add_subparsers(title="commands", metavar="COMMAND", dest="verb", required=True)
    parser = add(verbs, "list", "workers:list_workers", "list the workers of a store")
    add_place(parser)
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
    add_place(parser)
    parser = add(verbs, "leases", "workers:leases", "show what workers hold, and for how long")
    parser.add_argument(
        "worker", metavar="WORKER", nargs="?", help="name, id, or the beginning of an id"
    )
    add_place(parser)
    parser = add(
        commands,
        "overview",
        "overview:overview",
        "show the state of a store: runs, queues, workers, what waits for people",
    )
    add_place(parser)
    parser = add(
        commands,
        "queues",
        "workers:queues",
        "show what waits, what runs, and who serves it",
    )
    add_place(parser)


def add_top(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "top",
        "watching:top",
        "show queues, workers, runs and rates while they change",
        "Show queues, workers, runs and rates, again and again until Ctrl-C. Where the output is\n"
        "not a terminal, once.",
    )
    add_watching(parser)


def add_blobs(commands: Commands[Parser]) -> None:
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
    add_place(parser)
    parser = add(verbs, "get", "blobs:get", "print the content of a blob, or write it to a file")
    parser.add_argument("ref", metavar="REF", help="cas://sha256:…")
    parser.add_argument("file", metavar="FILE", nargs="?", help="write it there (default: print)")
    parser.add_argument(
        "--run", metavar="RUN", help="a run whose own blobs are found as well: its id, or `latest`"
    )
    add_place(parser)


def add_operations(commands: Commands[Parser]) -> None:
    parser = add(commands, "doctor", "doctor:doctor", "check that a store is sound")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="repair runs that disagree with their history, and say what was changed",
    )
    add_place(parser)
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
    add_store_only(parser, "it removes what belongs to the whole store, of all tenants")
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
