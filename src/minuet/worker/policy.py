"""Which retry policy applies to a node, and who wrote it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from minuet.errors import HandlerError
from minuet.nodes.handler import Handlers
from minuet.plan.plan import RETRY_DEFAULT, Node, Retry


class Policy(NamedTuple):
    """The retries of one node, and whether the document or the handler's author wrote them."""

    retry: Retry = RETRY_DEFAULT
    is_written: bool = False


#: For what goes wrong before or after the handler.
UNWRITTEN = Policy()


class Policies:
    """The policies of the nodes that one worker runs."""

    def __init__(self, handlers: Handlers, default: Retry) -> None:
        self._handlers = handlers
        #: The settings' policy, with which documents without one were compiled.
        self._default = default

    def of(self, node: Node) -> Policy:
        """The document's policy, or the handler's own, or that of the settings."""
        # Plans of older versions do not say who wrote a policy; one that is not the default
        # was probably written.
        is_foreign = node.retry_by is None and node.retry not in (self._default, RETRY_DEFAULT)
        if node.retry_by == "document" or is_foreign:
            return Policy(node.retry, is_written=True)
        retries = self._handler_retries(node)
        if retries is None:
            return Policy(node.retry)
        own = msgspec.structs.replace(node.retry, max_attempts=retries + 1)
        return Policy(own, is_written=True)

    def of_step(self, retries: int | None) -> Policy:
        """The policy of a step of a durable function: its task's own, or that of the settings."""
        if retries is None:
            return Policy(self._default)
        own = msgspec.structs.replace(self._default, max_attempts=retries + 1)
        return Policy(own, is_written=True)

    def _handler_retries(self, node: Node) -> int | None:
        if node.handler is None:
            return None
        try:
            return self._handlers.find(node.handler).retries
        except HandlerError:
            return None
