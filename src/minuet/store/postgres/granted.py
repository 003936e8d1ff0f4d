"""What a take returns: rows of `minuet.granted`, read into tokens, their runs and grants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from minuet.store.lenient import damage_of, reads_of, tags_of, text_of
from minuet.store.records import Exchange, Grant, Output, Run, Token
from minuet.store.reply import output_of
from minuet.store.rules.leases import lease_end

#: Where a row lies in its table (`ctid`): it moves whenever the row changes.
Place: TypeAlias = tuple[int, int]

#: Where the event, the data and the number of the run stand in a row.
_EVENT, _DATA, _RUN_ID = 16, 19, 21

#: The kind of outputs that arrived; all others are read.
_ARRIVED = 0


class Granted:
    """Tokens that a call has taken, in the order of taking."""

    def __init__(self, rows: Iterable[Any], request: Exchange) -> None:
        self.grants: list[Grant] = []
        self.tokens: list[tuple[Place, Token]] = []
        #: With their numbers in the database. Of a run, what an exchange needs is there.
        self.runs: dict[str, tuple[int, Run]] = {}
        #: Each output once, by its event, and the last one by its instance.
        self._events: dict[tuple[int, int], bytes] = {}
        self._outputs: dict[tuple[int, int], Output] = {}
        self._last: tuple[tuple[str, str, str], Output] | None = None
        tokens = []
        for row in rows:
            if row[2] is not None:
                tokens.append(row)
            else:
                # Only the data of an event.
                self._events[row[_RUN_ID], row[_EVENT]] = row[_DATA]
        for row in tokens:
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
            oversize,
        ) = row
        slot = text_of(slot_bytes) if slot_bytes else ""
        wanted = reads_of(reads) if reads else ()
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
                    wanted,
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
        if outputs is not None:
            arrived, read = self._find(outputs)
        elif source:
            arrived = self._arrived((run, source, source_scope), data)
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
                oversize,
                damage_of(wanted),
            )
        )

    def _arrived(self, instance: tuple[str, str, str], data: bytes | None) -> tuple[Output, ...]:
        """The output of the one node that made a token ready: of tokens that follow each other
        and have the same, only the first comes with it."""
        if data is not None:
            self._last = (instance, Output(*instance[1:], output_of(data)))
        if self._last is None or self._last[0] != instance:
            return ()
        return (self._last[1],)

    def _find(self, outputs: Any) -> tuple[tuple[Output, ...], tuple[Output, ...]]:
        """Outputs that arrived, and those that are read."""
        arrived: list[Output] = []
        read: list[Output] = []
        for kind, _, node, scope, run_id, event, _ in sorted(outputs, key=_order):
            output = self._outputs.get((run_id, event))
            if output is None:
                data = output_of(self._events[run_id, event])
                output = self._outputs[run_id, event] = Output(node, scope, data)
            (arrived if kind == _ARRIVED else read).append(output)
        return tuple(arrived), tuple(read)


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
        tags_of(tags) if tags != "{}" else {},
        None,
        created_ms,
        None,
        None,
        deadline_ms,
    )


def _order(row: Any) -> tuple[Any, ...]:
    return (row[0], row[1], row[2], row[3])
