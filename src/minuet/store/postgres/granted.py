"""What a take returns: rows of `minuet.granted`, read into tokens, their runs and grants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from minuet.store.records import Exchange, Grant, Output, Read, Run, Token
from minuet.store.reply import output_of
from minuet.store.transition import lease_end

#: Where a row lies in its table (`ctid`): it moves whenever the row changes.
Place: TypeAlias = tuple[int, int]

#: The kind of outputs that arrived; all others are read.
_ARRIVED = 0

_decode = msgspec.json.Decoder().decode
_decode_reads = msgspec.json.Decoder(tuple[Read, ...]).decode


class Granted:
    """Tokens that a call has taken, in the order of taking."""

    def __init__(self, rows: Iterable[Any], request: Exchange) -> None:
        self.grants: list[Grant] = []
        self.tokens: list[tuple[Place, Token]] = []
        #: With their numbers in the database. Of a run, what an exchange needs is there.
        self.runs: dict[str, tuple[int, Run]] = {}
        for row in rows:
            self._add(row, request)

    def _add(self, row: Any, request: Exchange) -> None:
        (
            taken_ms,
            place,
            run,
            node,
            scope,
            queue,
            skip,
            hop,
            attempt,
            expiry,
            delivery,
            source,
            source_scope,
            reads,
            cursor,
            resolution,
            event,
            slot_bytes,
            slot_limit,
            data,
            outputs,
            *about_run,
        ) = row
        slot = slot_bytes.decode() if slot_bytes else ""
        lease = request.lease
        self.tokens.append(
            (
                place,
                Token(
                    run,
                    node,
                    scope,
                    request.tenant,
                    queue,
                    "leased",
                    "",
                    skip,
                    lease_end(request, taken_ms),
                    hop,
                    attempt,
                    expiry,
                    delivery,
                    lease,
                    request.session,
                    taken_ms,
                    source,
                    source_scope,
                    _decode_reads(reads) if reads else (),
                    cursor,
                    "",
                    "",
                    resolution,
                    event,
                    "",
                    slot,
                    slot_limit,
                ),
            )
        )
        if run not in self.runs:
            self.runs[run] = _run(run, request.tenant, *about_run)
        arrived: tuple[Output, ...] = ()
        read: tuple[Output, ...] = ()
        if data is not None:
            arrived = (Output(source, source_scope, output_of(data)),)
        if outputs:
            arrived, read = _outputs(arrived, outputs)
        self.grants.append(
            Grant(
                run,
                node,
                scope,
                lease,
                skip,
                attempt,
                expiry,
                delivery,
                hop,
                taken_ms,
                cursor,
                resolution,
                slot,
                arrived,
                read,
            )
        )


def _run(
    run: str,
    tenant: str,
    number: int,
    workflow: str,
    plan: str,
    status: Any,
    counter: int,
    seq: int,
    generation: int,
    input: bytes,
    tags: str,
    created_ms: int,
    deadline_ms: int | None,
) -> tuple[int, Run]:
    return number, Run(
        run,
        tenant,
        workflow,
        plan,
        status,
        counter,
        seq,
        generation,
        input,
        _decode(tags) if tags != "{}" else {},
        None,
        created_ms,
        None,
        None,
        deadline_ms,
    )


def _outputs(arrived: tuple[Output, ...], others: Any) -> tuple[tuple[Output, ...], ...]:
    """All outputs of a token: those that arrived, and those that it reads."""
    found = [
        (kind, Output(node, scope, output_of(data)))
        for kind, _, node, scope, data in sorted(others, key=_order)
    ]
    return (
        (*arrived, *(output for kind, output in found if kind == _ARRIVED)),
        tuple(output for kind, output in found if kind != _ARRIVED),
    )


def _order(row: Any) -> tuple[Any, ...]:
    return (row[0], row[1], row[2], row[3])
