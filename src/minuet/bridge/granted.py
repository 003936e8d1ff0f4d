"""A granted token as the engine sees it: the values that came with it, and how to answer it.

The store grants a token as a record whose values are bytes, some of which only name a blob. Here
they become values, and here the items that end a grant without a settlement are made. The items
of a settlement are made by `translate`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.errors import DamagedRowError, InputLimitError
from minuet.kernel.foreach import Arrived, Listed, error_of
from minuet.kernel.scope import decode
from minuet.plan.plan import HIDDEN, item_id, items_id
from minuet.store.blob import BLOB_START, blob_of, value_bytes
from minuet.store.exchange import Failed, Grant, Held, Output, Released, RunHeader, Slot
from minuet.store.lenient import is_unreadable
from minuet.store.records import INPUT_BYTES_MAX, Key
from minuet.types import Json, Scope


class Granted(msgspec.Struct, eq=False):
    """One token that the store has granted, with what its node needs."""

    grant: Grant
    header: RunHeader
    key: Key = ("", "", "")
    #: Contents of the blobs that stand for values, by reference; filled before use.
    blobs: dict[str, bytes | bytearray] = {}
    #: Whether their bytes are dropped once the values are read, which are not read again.
    drops_blobs: bool = False
    _values: dict[tuple[str, str], Json] = {}
    _input: Any = msgspec.UNSET

    def __post_init__(self) -> None:
        grant = self.grant
        self.key = (grant.run, grant.node, grant.scope)

    @property
    def scope(self) -> Scope:
        """Iteration numbers of the loops around the node, outermost first."""
        text = self.grant.scope
        return decode(text) if text else ()

    # ── answers ─────────────────────────────────────────────────────────────────────────

    @property
    def _token(self) -> tuple[str, str, str, str]:
        """The token and the lease it is held under, as items begin."""
        grant = self.grant
        return (grant.run, grant.node, grant.scope, grant.lease)

    @property
    def held(self) -> Held:
        """The token and its lease, to be renewed."""
        grant = self.grant
        return Held(grant.run, grant.node, grant.scope, grant.lease)

    def release(self) -> Released:
        """Give the token back; any worker may take it."""
        return Released(*self._token)

    def ask_for_slot(self, key: str, limit: int) -> Slot:
        """Ask for one of `limit` slots of this key before the node runs."""
        return Slot(*self._token, key, limit)

    def fail_without_plan(self, error: dict[str, Any]) -> Failed:
        """Fail the run, because the plan that would say where to go on cannot be used."""
        return Failed(*self._token, error, "no_plan")

    # ── values ──────────────────────────────────────────────────────────────────────────

    def check_size(self) -> None:
        """Raise InputLimitError when the outputs that the node needs are too large together.
        Blobs count; they need not be loaded for that."""
        grant = self.grant
        outputs = {(o.node, o.scope): o for o in (*grant.inputs, *grant.reads)}
        outputs.pop(self.key[1:], None)
        size = grant.oversize or sum(value_bytes(o.data) for o in outputs.values())
        if size > INPUT_BYTES_MAX:
            raise InputLimitError(size, INPUT_BYTES_MAX)

    def oversize_error(self) -> InputLimitError:
        """The error of a token that came without its outputs, because they are too large."""
        return InputLimitError(self.grant.oversize, INPUT_BYTES_MAX)

    def check_rows(self) -> None:
        """Raise DamagedRowError when the store could not read what the node needs. A value whose
        damage shows only when it is decoded is found by `value`."""
        grant = self.grant
        if grant.damaged:
            raise self._damaged(f"the field {grant.damaged!r} of its row")
        if self.header.tags and is_unreadable(self.header.tags):
            raise self._damaged("the field 'tags' of the run")
        for output in (*grant.inputs, *grant.reads):
            if not output.data:
                raise self._damaged(_output_of(output))

    def _damaged(self, what: str, reason: str = "") -> DamagedRowError:
        scope = f" ({self.grant.scope})" if self.grant.scope else ""
        return DamagedRowError(self.grant.run, f"node {self.grant.node}{scope}: {what}", reason)

    @property
    def is_ordinary(self) -> bool:
        """Whether it is as almost every token is: its node has to be run, no worker has died of
        it, and everything that it needs came with it and is sound."""
        grant, header = self.grant, self.header
        if (
            grant.skip
            or grant.cursor
            or grant.expiry
            or grant.given
            or grant.edited
            or grant.oversize
            or grant.damaged
            or grant.resolution is not None
            or (header.tags and is_unreadable(header.tags))
            or header.input.startswith(BLOB_START)
        ):
            return False
        for output in grant.inputs:
            if not output.data or output.data.startswith(BLOB_START):
                return False
        for output in grant.reads:
            if not output.data or output.data.startswith(BLOB_START):
                return False
        return True

    def missing_blobs(self) -> list[str]:
        """Blobs that must be loaded before the values can be read."""
        grant, refs = self.grant, self._other_refs()
        for output in (*grant.inputs, *grant.reads):
            # Almost no value is a blob, and every token comes this way.
            if output.data.startswith(BLOB_START):
                ref = blob_of(output.data)
                if ref is not None and (output.node, output.scope) not in self._values:
                    refs.append(ref)
        return [ref for ref in refs if ref not in self.blobs] if refs else refs

    def _other_refs(self) -> list[str]:
        """Blobs that stand for the run's input, and for what the node waited for."""
        refs = []
        for value in (self.header.input, self.grant.resolution):
            if value is not None and value.startswith(BLOB_START):
                ref = blob_of(value)
                if ref is not None:
                    refs.append(ref)
        return refs

    def _value(self, data: bytes, what: str) -> Json:
        """Decode a stored value, or the blob that it names."""
        ref = blob_of(data)
        try:
            return msgspec.json.decode(self.blobs[ref] if ref is not None else data)
        except msgspec.DecodeError as error:
            raise self._damaged(what, str(error)) from None

    def _output(self, output: Output) -> Json:
        key = (output.node, output.scope)
        if key not in self._values:
            self._values[key] = self._value(output.data, _output_of(output))
            if self.drops_blobs and output.data.startswith(BLOB_START):
                self._drop_blob(blob_of(output.data))
        return self._values[key]

    def _drop_blob(self, ref: str | None) -> None:
        """Drop the bytes of a blob once no value is left that needs them: `missing_blobs` names it
        if the values are forgotten and asked for again."""
        for other in (*self.grant.inputs, *self.grant.reads):
            if (other.node, other.scope) not in self._values and blob_of(other.data) == ref:
                return
        if ref is not None and ref not in self._other_refs():
            self.blobs.pop(ref, None)

    def forget_values(self) -> None:
        """Drop the decoded values; they are decoded again when they are asked for."""
        self._values.clear()
        self._input = msgspec.UNSET

    def own_output(self) -> tuple[bytes, Json]:
        """The node's own output, of a fan-out whose first parts were sent: stored and decoded."""
        own = next(o for o in self.grant.reads if (o.node, o.scope) == self.key[1:])
        return own.data, self._value(own.data, "its own output")

    def input(self) -> Json:
        """The run's input."""
        if self._input is msgspec.UNSET:
            self._input = self._value(self.header.input, "the run's input")
        return self._input

    def inputs(self) -> dict[str, Json]:
        """Outputs of the dependencies that were live."""
        return {o.node: self._output(o) for o in self.grant.inputs if HIDDEN not in o.node}

    def reads(self) -> dict[str, Json]:
        """Outputs that templates and conditions name; none of nodes that were skipped."""
        return {o.node: self._output(o) for o in self.grant.reads if HIDDEN not in o.node}

    def outputs(self) -> dict[str, Json]:
        """All outputs at hand: inputs, and what templates and conditions read beyond them."""
        return {**self.reads(), **self.inputs()}

    def listed(self, node: str) -> Listed | None:
        """The list that the items of a node with foreach come from; None: it could not be made."""
        own = items_id(node)
        for output in (*self.grant.inputs, *self.grant.reads):
            if output.node == own:
                try:
                    return msgspec.json.decode(output.data, type=Listed)
                except msgspec.ValidationError:
                    return None
                except msgspec.DecodeError as error:
                    raise self._damaged(_output_of(output), str(error)) from None
        return None

    def list_error(self, node: str) -> dict[str, Any]:
        """Why there is no list."""
        own = items_id(node)
        failed = next((o for o in self.grant.inputs if o.node == own), None)
        value = None if failed is None else self._value(failed.data, _output_of(failed))
        return error_of(value)

    def arrived(self, node: str) -> list[Arrived]:
        """What the items of a node with foreach have come to, in their order."""
        item = item_id(node)
        return [
            Arrived(self._value(o.data, _output_of(o)), o.failed)
            for o in self.grant.reads
            if o.node == item
        ]

    def run_variable(self) -> Json:
        """What templates and conditions see as `run`."""
        header = self.header
        return {
            "id": header.run,
            "workflow": header.workflow,
            "created_ms": header.created_ms,
            "tags": header.tags,
        }

    def resolution(self) -> Json:
        """What the node waited for; None if nothing has come."""
        data = self.grant.resolution
        return None if data is None else self._value(data, "what it waited for")


def _output_of(output: Output) -> str:
    scope = f" ({output.scope})" if output.scope else ""
    return f"the output of node {output.node}{scope}"
