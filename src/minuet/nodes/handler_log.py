"""What handlers log: which run and node it is about, what of it is kept, and no secrets."""

from __future__ import annotations

import contextvars
import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minuet.nodes.context import Context

#: Where `ctx.log` writes.
HANDLER_LOG = "minuet.handler"

_log = logging.getLogger(HANDLER_LOG)

#: The context of the handler that runs here. Tasks that it starts and `asyncio.to_thread` take it
#: along; a thread that it starts itself does not.
_current: contextvars.ContextVar[Context | None] = contextvars.ContextVar(
    "minuet_context", default=None
)


class RunLogFilter(logging.Filter):
    """Adds `run_id`, `node_id`, `scope` and `attempt` to every log record made while a handler
    runs, by any library; outside of handlers they are None. It masks the secrets that the handler
    may read, and filters nothing out.

        handler.addFilter(minuet.RunLogFilter())
    """

    def filter(self, record: logging.LogRecord) -> bool:
        context = _current.get()
        for name in ("run_id", "node_id", "scope", "attempt"):
            if not hasattr(record, name):
                setattr(record, name, None if context is None else getattr(context, name))
        return _mask_record(record)


def _mask_record(record: logging.LogRecord) -> bool:
    """Mask the secrets of the handler that runs here in a record, which is always kept."""
    context = _current.get()
    if context is not None:
        context.mask.record(record)
    return True


def current_context() -> Context | None:
    """The context of the handler that runs here."""
    return _current.get()


def set_context(context: Context) -> None:
    """Attribute what this asyncio task, or this thread, logs from now on to a run and node."""
    _current.set(context)


class KeepingLog(logging.LoggerAdapter[logging.Logger]):
    """`ctx.log`. Keeps what a handler logs from INFO on, whatever is shown of it."""

    def __init__(self, extra: Mapping[str, Any], context: Context) -> None:
        super().__init__(_log, dict(extra))
        self._context = context

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        if level >= logging.INFO:
            keep_message(self._context, level, msg, args, kwargs.get("exc_info"))
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # This is not the caller.
        super().log(level, msg, *args, **kwargs)


def keep_message(
    context: Context, level: int, msg: object, args: tuple[Any, ...], exc_info: Any = None
) -> None:
    """Keep a message and its exception as a log would show them."""
    record = _log.makeRecord("", level, "", 0, msg, args, None)
    if exc_info:
        error = exc_info if isinstance(exc_info, BaseException) else None
        record.exc_info = (type(error), error, error.__traceback__) if error else sys.exc_info()
    try:
        text = _FORMATTER.format(record)
    except Exception:
        # Logging reports such mistakes; here the text alone is kept.
        text = str(msg)
    context.keep_line(logging.getLevelName(level).lower(), text)


_FORMATTER = logging.Formatter()

# What handlers log with `ctx.log` is masked wherever it goes.
_log.addFilter(_mask_record)
