"""From the kernel's decisions to the store's records, and from its refusals to outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from minuet.bridge.values import encode_value
from minuet.kernel import settle
from minuet.kernel.program import Program, Send
from minuet.kernel.scope import encode
from minuet.plan.plan import author_of, is_undo
from minuet.store.blob import value_bytes
from minuet.store.changes import NewRun
from minuet.store.exchange import (
    Delivery,
    Done,
    Failed,
    Grant,
    Item,
    Retried,
    RunHeader,
    Slot,
    Waiting,
)
from minuet.store.identifiers import NAME_BYTES_MAX
from minuet.store.records import Read
from minuet.types import Scope

#: Deliveries by the tuple of sends they come from. The sends of a node outside all loops are
#: one cached value (`Program.sends`), so their translation is as well. Others come and go with
#: their runs, and are not kept.
_Cache = dict[int, tuple[tuple[Send, ...], tuple[Delivery, ...]]]


class Translator:
    """Turns settlements on one program into items to hand in."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._cache: _Cache = {}

    def item(self, grant: Grant, settlement: settle.Settlement, output: bytes) -> Item:
        """What to hand in for a token; `output` is what its node returned, encoded."""
        if isinstance(settlement, settle.Sent):
            return self._done(grant, settlement, output)
        token = (grant.run, grant.node, grant.scope, grant.lease)
        match settlement:
            case settle.Retried():
                return Retried(*token, settlement.error, settlement.delay_ms)
            case settle.NodeFailed():
                return Failed(*token, settlement.error, settlement.dead_letter, settlement.hold)
            case settle.Waiting():
                return Waiting(
                    *token,
                    settlement.kind,
                    settlement.key,
                    settlement.due_ms,
                    settlement.delay_ms,
                    encode_value(settlement.data),
                )

    def pass_on(self, grant: Grant, sends: tuple[Send, ...], output: bytes) -> Done:
        """What to hand in for a token whose node has succeeded and decides nothing."""
        if self._program.plan.max_bytes is not None:
            return self._done(grant, settle.Sent("completed", sends), output)
        return Done(
            grant.run,
            grant.node,
            grant.scope,
            grant.lease,
            self._program.digest,
            "completed",
            output,
            self.deliveries(sends),
        )

    def _done(self, grant: Grant, sent: settle.Sent, output: bytes) -> Done:
        if sent.outcome == "failed":
            # What its `on_error` passes on instead.
            output = encode_value(sent.output)
        output_bytes, limit = 0, self._program.plan.max_bytes
        # A part of a fan-out that comes later has the output of the first. What undoes a run must
        # not fail because the run has produced too much.
        if limit is not None and (grant.cursor or is_undo(grant.node)):
            limit = None
        elif limit is not None and sent.outcome != "skipped":
            output_bytes = value_bytes(output)
        return Done(
            grant.run,
            grant.node,
            grant.scope,
            grant.lease,
            self._program.digest,
            sent.outcome,
            output,
            self.deliveries(sent.sends),
            sent.error,
            sent.notes,
            sent.cursor,
            sent.dead_letter,
            output_bytes,
            limit,
        )

    def deliveries(self, sends: tuple[Send, ...]) -> tuple[Delivery, ...]:
        """Deliveries for the store."""
        found = self._cache.get(id(sends))
        if found is not None and found[0] is sends:
            return found[1]
        made = tuple(_delivery(send) for send in sends)
        if self._program.is_constant(sends):
            self._cache[id(sends)] = (sends, made)
        return made

    def new_run(
        self,
        run: str,
        *,
        tenant: str,
        input: bytes,
        idempotency_key: str | None = None,
        tags: dict[str, Any] | None = None,
        blobs: tuple[bytes, ...] = (),
        version: int | None = None,
        tag: str | None = None,
    ) -> NewRun:
        """A run of this program, as the store creates and starts it."""
        plan = self._program.plan
        return NewRun(
            run=run,
            workflow=plan.name,
            plan=self._program.digest,
            tenant=tenant,
            input=input,
            entries=self.deliveries(self._program.entries()),
            deadline_ms=plan.deadline_ms,
            idempotency_key=idempotency_key,
            tags=tags or {},
            blobs=blobs,
            version=version,
            tag=tag,
            undo_on=plan.undo_on,
        )


def _delivery(send: Send) -> Delivery:
    return Delivery(
        send.node,
        encode(send.scope),
        send.live,
        send.need,
        send.total,
        send.queue,
        reads_of(send.reads, send.every),
        send.withdraws,
        send.window,
    )


def reads_of(
    latest: Iterable[tuple[str, Scope]], every: Iterable[tuple[str, Scope]], upto: int = 0
) -> tuple[Read, ...]:
    """What an instance reads: the latest output under each prefix, and every one."""
    return (
        *[Read(node, encode(prefix), upto) for node, prefix in latest],
        *[Read(node, encode(prefix), upto, True) for node, prefix in every],
    )


def limit_failure(item: Item) -> settle.AttemptFailed:
    """The outcome of a node whose item the store has refused with `limit`."""
    if isinstance(item, Slot):
        return _NO_SLOTS
    return _KEY_TOO_LONG if isinstance(item, Waiting) else _TOO_LARGE


def full_failure(item: Item, header: RunHeader) -> Item:
    """What to hand in instead of a result that the store has refused with `full`."""
    assert isinstance(item, Done)
    error = {
        "code": "exceeded_max_bytes",
        "message": f"max_bytes is {item.max_bytes:,}: the outputs of the run have "
        f"{header.output_bytes:,} bytes, and that of node {author_of(item.node)!r} would add "
        f"{item.output_bytes:,}",
    }
    return Failed(item.run, item.node, item.scope, item.lease, error, "limit")


_TOO_LARGE = settle.AttemptFailed({"code": "payload_limit", "message": "the output is too large"})
_KEY_TOO_LONG = settle.AttemptFailed(
    {
        "code": "key_limit",
        "message": f"the key that the node waits for is longer than {NAME_BYTES_MAX} bytes: "
        "use a shorter one, or a hash of it",
    }
)
_NO_SLOTS = settle.AttemptFailed(
    {
        "code": "no_slots",
        "message": "this store cannot count the holders of a concurrency key: "
        "use a single Redis server, PostgreSQL or SQLite",
    }
)
