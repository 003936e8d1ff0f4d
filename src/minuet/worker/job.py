"""One token in a worker's hands, from the grant to the item that is handed in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.errors import DamagedRowError, InputLimitError
from minuet.kernel.scope import decode
from minuet.kernel.settle import Outcome, Succeeded
from minuet.plan.plan import Node
from minuet.store.blob import blob_of, value_bytes
from minuet.store.lenient import is_unreadable
from minuet.store.records import (
    INPUT_BYTES_MAX,
    Grant,
    Held,
    Item,
    Key,
    Output,
    RunHeader,
)
from minuet.types import Json, Scope

if TYPE_CHECKING:
    from minuet.bridge.programs import Loaded
    from minuet.nodes.context import Context


class Job:
    """What a worker knows about a token while it works on it."""

    __slots__ = (
        "_values",
        "abandoned",
        "blobs",
        "context",
        "grant",
        "header",
        "holds_slot",
        "key",
        "large",
        "loaded",
        "node",
        "outcome",
        "output",
        "releasing",
        "run_input",
        "scope",
        "task",
        "thread",
    )

    def __init__(self, grant: Grant, header: RunHeader) -> None:
        self.grant = grant
        self.header = header
        self.key: Key = (grant.run, grant.node, grant.scope)
        self.scope: Scope = decode(grant.scope)
        self.holds_slot = bool(grant.slot)
        #: Contents of the blobs that stand for inputs, by reference; filled before use.
        self.blobs: dict[str, bytes] = {}
        self._values: dict[tuple[str, str], Json] = {}
        self.run_input: Any = msgspec.UNSET
        self.loaded: Loaded | None = None
        self.node: Node | None = None
        self.context: Context | None = None
        #: The handler as a task, or as a future of the thread it runs in.
        self.task: asyncio.Task[Item | None] | None = None
        self.thread: asyncio.Future[Any] | None = None
        #: What came of it, kept until the store has accepted it.
        self.outcome: Outcome | None = None
        self.output: bytes = b"null"
        #: A result that was worked out already, whose output must be put away before it can be
        #: handed in; `output` is that output.
        self.large: Succeeded | None = None
        #: The lease is lost: whatever the handler returns is dropped.
        self.abandoned = False
        #: The worker drains: give the token back instead of failing it.
        self.releasing = False

    @property
    def token(self) -> tuple[str, str, str, str]:
        """The token and the lease it is held under, as items begin."""
        return (self.grant.run, self.grant.node, self.grant.scope, self.grant.lease)

    @property
    def held(self) -> Held:
        return Held(*self.token)

    # ── values that came with the token ─────────────────────────────────────────────────

    def check_size(self) -> None:
        """Raise InputLimitError when the outputs that the node needs are too large together. What
        stands in a blob counts, and need not be loaded for that."""
        grant = self.grant
        outputs = {(o.node, o.scope): o for o in (*grant.inputs, *grant.reads)}
        outputs.pop(self.key[1:], None)
        size = grant.oversize or sum(value_bytes(o.data) for o in outputs.values())
        if size > INPUT_BYTES_MAX:
            raise InputLimitError(size, INPUT_BYTES_MAX)

    def check_rows(self) -> None:
        """Raise DamagedRowError when the store could not read what the node needs. A value that
        only turns out to be damaged when it is decoded is found by `value`."""
        grant = self.grant
        if grant.damaged:
            raise self._damaged(f"the field {grant.damaged!r} of its row")
        if is_unreadable(self.header.tags):
            raise self._damaged("the field 'tags' of the run")
        for output in (*grant.inputs, *grant.reads):
            if not output.data:
                raise self._damaged(_output_of(output))

    def _damaged(self, what: str, reason: str = "") -> DamagedRowError:
        scope = f" ({self.grant.scope})" if self.grant.scope else ""
        return DamagedRowError(self.grant.run, f"node {self.grant.node}{scope}: {what}", reason)

    def missing_blobs(self) -> list[str]:
        """Blobs that must be loaded before the values can be read."""
        grant = self.grant
        refs = [blob_of(output.data) for output in (*grant.inputs, *grant.reads)]
        refs.append(blob_of(self.header.input))
        if grant.resolution is not None:
            refs.append(blob_of(grant.resolution))
        return [ref for ref in refs if ref is not None and ref not in self.blobs]

    def value(self, data: bytes, what: str) -> Json:
        """Read a stored value, looking through to its blob."""
        ref = blob_of(data)
        try:
            return msgspec.json.decode(self.blobs[ref] if ref is not None else data)
        except msgspec.DecodeError as error:
            raise self._damaged(what, str(error)) from None

    def _output(self, output: Output) -> Json:
        key = (output.node, output.scope)
        if key not in self._values:
            self._values[key] = self.value(output.data, _output_of(output))
        return self._values[key]

    def read_again(self) -> None:
        """Forget the values read so far."""
        self._values.clear()
        self.run_input = msgspec.UNSET

    def input(self) -> Json:
        """The run's input."""
        if self.run_input is msgspec.UNSET:
            self.run_input = self.value(self.header.input, "the run's input")
        return self.run_input

    def inputs(self) -> dict[str, Json]:
        """Outputs of the dependencies that were live."""
        return {output.node: self._output(output) for output in self.grant.inputs}

    def reads(self) -> dict[str, Json]:
        """Outputs that templates and conditions name; none of nodes that were skipped."""
        return {output.node: self._output(output) for output in self.grant.reads}

    def outputs(self) -> dict[str, Json]:
        """All outputs at hand: inputs, and what templates and conditions read beyond them."""
        return {**self.reads(), **self.inputs()}

    def run_variable(self) -> Json:
        """What templates and conditions see as `run`."""
        return {
            "id": self.header.run,
            "workflow": self.header.workflow,
            "created_ms": self.header.created_ms,
            "tags": self.header.tags,
        }

    def resolution(self) -> Json:
        """What the node waited for, or None."""
        data = self.grant.resolution
        return None if data is None else self.value(data, "what it waited for")

    # ── the end ─────────────────────────────────────────────────────────────────────────

    def abandon(self) -> None:
        """The token is no longer ours: tell the handler and drop what it returns."""
        self.abandoned = True
        self._interrupt()

    def release(self) -> None:
        """Stop the handler and give the token back."""
        self.releasing = True
        self._interrupt()

    def _interrupt(self) -> None:
        if self.context is not None:
            self.context.cancel()
        if self.task is not None:
            self.task.cancel()


def _output_of(output: Output) -> str:
    scope = f" ({output.scope})" if output.scope else ""
    return f"the output of node {output.node}{scope}"
