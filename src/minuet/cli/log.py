"""The log of a command: lines on standard error that say which run and node they are about.

Warnings of everything are shown, and from INFO on what handlers say with `ctx.log`; with
MINUET_LOG=json also what becomes of runs. `--log-level` sets one level for all. If
the handlers' modules have set logging up to write to the terminal, that is left unchanged:
otherwise lines would appear twice.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any, TypeGuard

import msgspec

from minuet.app.watch import instance_name
from minuet.cli.output import clean, format_clock
from minuet.moments import moment
from minuet.nodes.handler_log import HANDLER_LOG, RunLogFilter
from minuet.nodes.kept_output import KeepingHandler, not_kept
from minuet.telemetry.observer import current_trace

#: What becomes of runs: joins that wait, approvals, ends (`app.run_log`).
RUNS_LOG = "minuet.runs"


@contextlib.contextmanager
def logging_to_stderr(arguments: Namespace) -> Iterator[None]:
    """Show the log while a command works, as `--log-level` and MINUET_LOG say."""
    level: str | None = arguments.log_level
    as_json = arguments.settings["MINUET_LOG"] == "json"
    root, handlers_log = logging.getLogger(), logging.getLogger(HANDLER_LOG)
    runs_log = logging.getLogger(RUNS_LOG)
    levels = root.level, handlers_log.level, runs_log.level
    theirs = [handler for handler in root.handlers if _writes_to_terminal(handler)]
    added = RunLogFilter()
    handler = _StderrHandler()
    handler.setFormatter(_JsonLines() if as_json else _Lines())
    handler.addFilter(added)
    if level is not None:
        root.setLevel(level.upper())
        handlers_log.setLevel(level.upper())
    elif not theirs:
        handlers_log.setLevel(logging.INFO)
        handler.addFilter(_is_shown)
        if as_json:
            runs_log.setLevel(logging.INFO)
    for one in theirs:
        one.addFilter(added)
        # A live picture replaces the stream, which they have held since they were made.
        one.setStream(_Current("stderr" if one.stream is sys.stderr else "stdout"))
    if not theirs:
        root.addHandler(handler)
    keeping = KeepingHandler()
    root.addHandler(keeping)
    try:
        yield
    finally:
        root.removeHandler(keeping)
        root.removeHandler(handler)
        for one in theirs:
            one.removeFilter(added)
            one.setStream(getattr(sys, one.stream.name))
        root.setLevel(levels[0])
        handlers_log.setLevel(levels[1])
        runs_log.setLevel(levels[2])


def _writes_to_terminal(handler: logging.Handler) -> TypeGuard[logging.StreamHandler[Any]]:
    """Whether a handler writes to the standard streams, wherever these lead."""
    return isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stdout, sys.stderr)


def _is_shown(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING or record.name in (HANDLER_LOG, RUNS_LOG)


class _StderrHandler(logging.Handler):
    """Reads `sys.stderr` each time: a live picture replaces it for a while."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # In one piece: other threads write there too.
            with not_kept():
                sys.stderr.write(self.format(record) + "\n")
                sys.stderr.flush()
        except Exception:
            self.handleError(record)


class _Current:
    """A standard stream, whatever it is at the time."""

    def __init__(self, name: str) -> None:
        self.name = name

    def write(self, text: str) -> Any:
        with not_kept():
            return getattr(sys, self.name).write(text)

    def flush(self) -> None:
        getattr(sys, self.name).flush()


class _Lines(logging.Formatter):
    """`12:00:01.123  WARNING  run 0198…  charge[2], attempt 2  cards: text`"""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        if record.name != HANDLER_LOG:
            text = f"{record.name}: {text}"
        line = (
            f"{format_clock(int(record.created * 1000))}  {record.levelname:<7}  {_where(record)}"
        )
        return clean(line + text)


class _JsonLines(logging.Formatter):
    """One JSON object on each line, for what collects logs."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": moment(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "facts", {})
        for name in ("run_id", "node_id", "scope", "attempt"):
            value = getattr(record, name, None)
            if value:
                line[name] = value
        line |= current_trace()
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


def _where(record: Any) -> str:
    if record.run_id is None:
        return ""
    again = f", attempt {record.attempt}" if (record.attempt or 1) > 1 else ""
    return f"run {record.run_id}  {instance_name(record.node_id, record.scope or ())}{again}  "
