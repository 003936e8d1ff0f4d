"""What can be written on the command line about servers."""

from __future__ import annotations

import argparse

from minuet.cli.parser import (
    WORKFLOW_FILE,
    Commands,
    Parser,
    add,
    add_handling,
    add_log_level,
    add_store_only,
)

PORT = 7800


def add_servers(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "server",
        "server:serve",
        "serve the HTTP API of a store",
        "Serve the HTTP API of a store until Ctrl-C or SIGTERM. It runs no nodes: workers do.\n\n"
        "On an address that other machines reach, clients need an API key: see `minuet keys`.",
    )
    add_store_only(parser, "it is a server itself")
    _add_address(parser)
    parser.add_argument(
        "--read-only", action="store_true", help="answer questions only, and refuse all changes"
    )
    parser.add_argument(
        "--primary",
        metavar="URL",
        help="with --read-only: the server that changes are made at. Its runs are copied to the "
        "store, a SQLite file (default: minuet-replica.db), and answered from there, also while it "
        "is down. With another store, nothing is copied: it is read itself, and may be a standby",
    )
    add_log_level(parser)

    parser = add(
        commands,
        "dev",
        "dev:develop",
        "serve the HTTP API and run nodes, in one process",
        "Serve the HTTP API and run the nodes of all runs in the store, until Ctrl-C. The files\n"
        "are deployed at the start, and again when they change; handlers are loaded again.\n\n"
        "A Python file of the same name beside a workflow (order.py beside order.yaml) has its\n"
        "handlers, unless --handlers names others.\n\n"
        "Without files, a sample runs in a store that has nothing else: it fails once, asks you,\n"
        "and goes on when its worker is killed.",
    )
    parser.add_argument("files", metavar="FILE", nargs="*", help=WORKFLOW_FILE)
    add_handling(parser, "$WORKER_CONCURRENCY, else 32")
    _add_address(parser)
    parser.set_defaults(read_only=False, primary=None)
    parser.add_argument("--no-sample", action="store_true", help="run no sample")
    parser.add_argument(
        "--no-open",
        action="store_true",
        help="do not open the web page in a browser (it is opened on a terminal only)",
    )


def _add_address(parser: Parser) -> None:
    parser.add_argument(
        "--host",
        metavar="H",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, which only this machine reaches)",
    )
    parser.add_argument(
        "--port",
        metavar="P",
        type=port,
        default=PORT,
        help=f"port to listen on; 0: any free one (default: {PORT})",
    )
    parser.add_argument(
        "--require-key",
        action="store_true",
        help="ask for an API key also on a loopback address (default: $MINUET_REQUIRE_KEY)",
    )
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="listen on an address that other machines reach without asking for a key",
    )


def port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535")
    return int(text)
