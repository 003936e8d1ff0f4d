"""What can be written on the command line about servers."""

from __future__ import annotations

import argparse

from minuet.cli.parser import Commands, Parser, add, add_log_level, add_store

PORT = 7800


def add_servers(commands: Commands[Parser]) -> None:
    parser = add(
        commands,
        "server",
        "server:serve",
        "serve the HTTP API of a store",
        "Serve the HTTP API of a store until Ctrl-C or SIGTERM. It runs no nodes: workers do.\n\n"
        "On an address that other machines reach, clients need a key: MINUET_API_KEY.",
    )
    add_store(parser)
    _add_address(parser)
    add_log_level(parser)


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
        "--insecure",
        action="store_true",
        help="listen on an address that other machines reach without asking for a key",
    )


def port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535")
    return int(text)
