"""The entry point: find the command, call it, and turn errors into messages and exit codes.

Nothing is imported here that a command might not need: `minuet --help` must be fast.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from minuet import outcomes
from minuet.cli.arguments import build_parser, subcommands
from minuet.cli.parser import Parser, UsageError
from minuet.errors import MinuetError


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    if argv is not None:
        return _run(list(argv))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A command must not fail because the terminal cannot show a character.
            stream.reconfigure(errors="backslashreplace")
    code = _run(sys.argv[1:])
    if "minuet.cli.process" in sys.modules:
        sys.modules["minuet.cli.process"].leave_if_stuck(code)
    return code


def _run(argv: list[str]) -> int:
    parser = build_parser()
    try:
        arguments = _parse(parser, argv)
        if arguments is None:
            parser.print_help()
            return outcomes.COMPLETED
        return _call(arguments)
    except UsageError as error:
        print(f"{error.command}: {error}", file=sys.stderr)
        print(f"See {error.command} --help.", file=sys.stderr)
        return outcomes.INVALID
    except SystemExit as done:
        # --help and --version have been printed.
        return done.code if isinstance(done.code, int) else 0


def _parse(parser: Parser, argv: list[str]) -> argparse.Namespace | None:
    """Read the arguments; None when there are none. UsageError with a suggestion if wrong."""
    if not argv:
        return None
    command: argparse.ArgumentParser = parser
    for word in argv:
        known = subcommands(command)
        if not known or word.startswith("-"):
            break
        if word not in known:
            raise UsageError(
                command.prog, f"there is no command {word!r}{_suggest(word, list(known))}"
            )
        command = known[word]
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        options = [option for action in command._actions for option in action.option_strings]
        word = unknown[0].partition("=")[0]
        kind = "option" if word.startswith("-") else "argument"
        suggestion = _suggest(word, options) if kind == "option" else ""
        raise UsageError(command.prog, f"unknown {kind} {word!r}{suggestion}")
    if getattr(arguments, "function", None) is None:
        raise UsageError(command.prog, "which command?")
    return arguments


def _suggest(word: str, known: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f": did you mean {close[0]!r}?" if close else ""


def _call(arguments: argparse.Namespace) -> int:
    module, _, name = arguments.function.partition(":")
    command: Callable[[Any], int] = getattr(importlib.import_module(module), name)
    try:
        if "store" in arguments:
            from minuet.cli.settings import settle

            settle(arguments)
        code = command(arguments)
        sys.stdout.flush()
        return code
    except MinuetError as error:
        from minuet.settings import is_true

        if is_true(os.environ.get("MINUET_DEBUG")):
            import traceback

            traceback.print_exception(error)
        from minuet.cli.problems import print_error

        print_error(error, as_json=arguments.output == "json")
        return outcomes.outcome_of(error).exit_code
    except KeyboardInterrupt:
        print("minuet: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output, such as `head`, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return outcomes.COMPLETED
