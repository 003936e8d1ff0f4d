"""The writing verbs other than the exchange: what each does inside its transaction."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import msgspec

from minuet import events
from minuet.errors import RunConflictError, RunNotFoundError
from minuet.events import Place
from minuet.store.blob import blob_ref
from minuet.store.changes import Change, NewRun
from minuet.store.exchange import NewStep, Refusal, Swept
from minuet.store.families import awaited_children
from minuet.store.postgres.blobs import put_shared_blob
from minuet.store.postgres.database import Link
from minuet.store.postgres.rows import Rows, columns_of, run_of, run_row, token_row
from minuet.store.postgres.statements import statement
from minuet.store.postgres.step import change_rows, write_only
from minuet.store.postgres.wanted import Wanted
from minuet.store.records import LEASE_MS_MAX, Key, Run, Snapshot
from minuet.store.rules.transition import Transition

_DUE = statement("due")
_NEXT_DUE = statement("next_due")
_LOCK_IDEMPOTENCY_KEYS = statement("lock_idempotency_keys")
_FIND_BY_IDEMPOTENCY_KEY = statement("find_by_idempotency_key")
_LOAD_FIRST_EVENTS = statement("load_first_events")
_LOCK_DELETABLE_RUNS = statement("lock_deletable_runs")
_LOCK_OUTDATED_RUNS = statement("lock_outdated_runs")
_DELETE_RUNS = statement("delete_runs")
_VACUUM_BLOBS = statement("vacuum_blobs")
_REMOVE_ROWS = statement("remove_rows")
_REMOVE_EVENTS = statement("remove_events")
_INSERT_WHOLE_TOKENS = statement("insert_whole_tokens")
_REPLACE_RUN = statement("replace_run")
_DISCARD_DEAD_LETTER = statement("discard_dead_letter")
_PUT_RUN_BLOB = statement("put_run_blob")
_INSERT_RUN_BLOB = statement("insert_run_blob")
_RECORD_ROWS = statement("record_rows")


# ── the sweep ───────────────────────────────────────────────────────────────────────────


class Due:
    """What a sweep has found to be due."""

    def __init__(self) -> None:
        self.leases: list[Key] = []
        self.timers: list[tuple[str, Key]] = []
        self.deadlines: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.leases or self.timers or self.deadlines)

    def reaches(self, limit: int) -> bool:
        """Whether there may be more."""
        return limit in (len(self.leases), len(self.timers), len(self.deadlines))

    def wanted(self) -> Wanted:
        wanted = Wanted()
        for key in (*self.leases, *(key for _, key in self.timers)):
            wanted.want_token(key)
        for run in self.deadlines:
            wanted.want_whole(run)
        return wanted


async def find_due(link: Link, now_ms: int | None, limit: int) -> Due:
    """Find what is due; nothing is locked."""
    due = Due()
    for kind, tenant, *key in await link.rows(_DUE, now_ms, LEASE_MS_MAX, limit):
        if kind == 0:
            due.leases.append((key[0], key[1], key[2]))
        elif kind == 1:
            due.timers.append((tenant, (key[0], key[1], key[2])))
        else:
            due.deadlines.append(key[0])
    return due


async def next_due(link: Link, now_ms: int | None) -> int | None:
    """When the next lease, timer, deadline or retry is due."""
    found: int | None = await link.value(_NEXT_DUE, now_ms)
    return found


async def sweep(link: Link, wanted: Wanted, due: Due, now_ms: int | None) -> Swept:
    """Expire, resume and cancel what is still due now that it is locked."""
    rows = Rows(wanted, inputs=False)
    await rows.load(link, now_ms)
    return await change_rows(link, rows, lambda step: _pass_due(step, rows, due))


def _pass_due(step: Transition, rows: Rows, due: Due) -> Swept:
    now_ms = step.now_ms

    def is_expired(key: Key) -> bool:
        token = rows.tokens.get(key)
        if token is None or token.due_ms is None:
            return False
        return not now_ms < token.due_ms <= now_ms + LEASE_MS_MAX

    def is_over(key: Key) -> bool:
        token = rows.tokens.get(key)
        return token is not None and token.due_ms is not None and token.due_ms <= now_ms

    def is_late(name: str) -> bool:
        run = rows.runs.get(name)
        return run is not None and run.deadline_ms is not None and run.deadline_ms <= now_ms

    return Swept(
        # Whether each is due is asked as its turn comes: what comes before may have ended it.
        sum(is_expired(key) and step.expire(key) for key in due.leases),
        sum(is_over(key) and step.resume(tenant, key, None) for tenant, key in due.timers),
        sum(is_late(run) and step.pass_deadline(run) for run in due.deadlines),
    )


# ── runs ────────────────────────────────────────────────────────────────────────────────


async def create_runs(
    link: Link, runs: Sequence[NewRun], now_ms: int | None
) -> list[Run | RunConflictError]:
    by_key = [(new.tenant, new.idempotency_key) for new in runs if new.idempotency_key is not None]
    keys = ([tenant for tenant, _ in by_key], [(key or "").encode() for _, key in by_key])
    wanted = Wanted()
    wanted.runs = dict.fromkeys(new.run for new in runs)
    for new in runs:
        if new.parent is not None:
            wanted.want_token((new.parent.run, new.parent.node, new.parent.scope))
    rows = Rows(wanted, inputs=True)
    if by_key:
        await link.rows(_LOCK_IDEMPOTENCY_KEYS, *keys)
    await rows.load(link, now_ms)
    found = await link.rows(_FIND_BY_IDEMPOTENCY_KEY, *keys) if by_key else []
    known = [rows.add_run(row) for row in found]
    if rows.runs:
        events = await link.rows(_LOAD_FIRST_EVENTS, list(rows.runs))
        rows.first_events = dict(events)
    same_key = {(run.tenant, run.idempotency_key): run for run in known}
    created: list[NewRun] = []

    def create(step: Transition) -> list[Run | RunConflictError]:
        answers: list[Run | RunConflictError] = []
        for new in runs:
            key = (new.tenant, new.idempotency_key)
            run = step.run(new.run)
            if run is None and new.idempotency_key is not None:
                run = same_key.get(key)
            if run is not None:
                answers.append(step.check_same(run, new))
                continue
            answer = step.create_run(new)
            if isinstance(answer, Run):
                same_key[key] = answer
                created.append(new)
            answers.append(answer)
        return [copy.copy(answer) if isinstance(answer, Run) else answer for answer in answers]

    answers = await change_rows(link, rows, create)
    for new in created:
        await _keep_blobs(link, new.tenant, new.run, new.blobs)
    return answers


async def _load(
    link: Link, wanted: Wanted, now_ms: int | None, *, inputs: bool
) -> tuple[str, Rows]:
    """What a change by a tenant touches, and who that is."""
    assert wanted.tenant is not None
    rows = Rows(wanted, inputs=inputs)
    await rows.load(link, now_ms)
    return wanted.tenant, rows


async def change_run(
    link: Link,
    wanted: Wanted,
    run: str,
    change: Change,
    expected_seq: int | None,
    now_ms: int | None,
) -> Run:
    tenant, rows = await _load(link, wanted, now_ms, inputs=True)
    return await change_rows(
        link, rows, lambda step: copy.copy(step.change_run(tenant, run, change, expected_seq))
    )


async def resolve(
    link: Link,
    wanted: Wanted,
    key: Key,
    resolution: bytes,
    by: str,
    wait_key: str | None,
    now_ms: int | None,
) -> bool:
    tenant, rows = await _load(link, wanted, now_ms, inputs=False)
    return await change_rows(
        link, rows, lambda step: step.resume(tenant, key, resolution, by=by, wait_key=wait_key)
    )


async def record_at_once(
    link: Link, tenant: str, steps: Sequence[NewStep], now_ms: int | None, durability: str
) -> dict[str, int]:
    """Record steps that nothing stands in the way of, in one call: the event numbers of their runs
    afterwards. Nothing: they have to be recorded in the ordinary way."""
    now_recorded = {(new.run, new.node, new.scope, new.name) for new in steps}
    columns = columns_of(
        (
            *(new.run, new.node, new.scope, new.lease, new.name.encode(), new.value),
            events.encode_event(
                events.StepRecorded(new.node, new.scope, new.name, msgspec.Raw(new.value))
            ),
            b""
            if (new.run, new.node, new.scope, new.after) in now_recorded
            else new.after.encode(),
        )
        for new in steps
    )
    return dict(await link.rows(_RECORD_ROWS, tenant, now_ms, durability, *columns))


async def record_steps(
    link: Link, wanted: Wanted, steps: Sequence[NewStep], now_ms: int | None
) -> list[bytes | Refusal]:
    tenant, rows = await _load(link, wanted, now_ms, inputs=False)
    await rows.load_steps(link, steps)
    return await change_rows(
        link, rows, lambda step: [step.record_step(tenant, new) for new in steps]
    )


async def mark_reported(link: Link, wanted: Wanted, run: str, seq: int, now_ms: int | None) -> bool:
    tenant, rows = await _load(link, wanted, now_ms, inputs=False)
    return await change_rows(link, rows, lambda step: step.mark_reported(tenant, run, seq))


async def mark_noted(link: Link, wanted: Wanted, run: str, upto: int, now_ms: int | None) -> bool:
    tenant, rows = await _load(link, wanted, now_ms, inputs=False)
    return await change_rows(link, rows, lambda step: step.mark_noted(tenant, run, upto))


async def delete_runs(link: Link, tenant: str, runs: Sequence[str]) -> tuple[int, int]:
    """Delete runs; say how many, and how many bytes of blobs went with them."""
    return await _delete(link, await link.rows(_LOCK_DELETABLE_RUNS, sorted(set(runs)), tenant))


async def delete_outdated(
    link: Link, retention_ms: int, limit: int, now_ms: int | None
) -> tuple[int, int]:
    """Delete runs that ended longer ago than they are kept; say what `delete_runs` says."""
    return await _delete(link, await link.rows(_LOCK_OUTDATED_RUNS, now_ms, retention_ms, limit))


async def _delete(link: Link, doomed: Sequence[Any]) -> tuple[int, int]:
    if not doomed:
        return 0, 0
    names = [run for run, _ in doomed]
    await link.run(_REMOVE_ROWS, names)
    freed = await link.value(_DELETE_RUNS, names, [number for _, number in doomed])
    return len(doomed), freed


async def vacuum_blobs(link: Link) -> None:
    """Let the space of deleted blobs be used again."""
    await link.run(_VACUUM_BLOBS)


async def put_run(
    link: Link,
    tenant: str,
    snapshot: Snapshot,
    expected_seq: int | None,
    blobs: Sequence[bytes],
) -> bool:
    name, key = snapshot.run.run, snapshot.run.idempotency_key
    # A run of this name is found in any tenant: in another one, the name cannot be used.
    wanted = Wanted()
    wanted.want_whole(name)
    wanted.runs |= dict.fromkeys(awaited_children(snapshot))
    wanted.slots = dict.fromkeys((tenant, token.slot) for token in snapshot.tokens if token.slot)
    rows = Rows(wanted, inputs=True)
    keys = ([tenant], [(key or "").encode()])
    if key is not None:
        await link.rows(_LOCK_IDEMPOTENCY_KEYS, *keys)
    await rows.load(link, None)
    owners = await link.rows(_FIND_BY_IDEMPOTENCY_KEY, *keys) if key is not None else []
    wanted.slots |= dict.fromkeys((tenant, t.slot) for t in rows.tokens.values() if t.slot)
    step = Transition(rows, rows.now_ms)
    owner = run_of(owners[0]).run if owners else None
    if not step.put_run(tenant, copy.deepcopy(snapshot), expected_seq, owner):
        return False
    if name not in step.new_runs:
        await link.run(_REMOVE_ROWS, [name])
        await link.run(_REMOVE_EVENTS, name)
        await link.run(_REPLACE_RUN, [run_row(step.runs[name])])
        emptied = Rows(wanted, inputs=True)
        await emptied.load(link, None)
        rows.take_slots(emptied)
        step.promote_waiters()
    # Written unchanged, not as new tokens.
    await link.run(
        _INSERT_WHOLE_TOKENS, [token_row(step, step.tokens[key]) for key in step.new_tokens]
    )
    step.changed_tokens -= step.new_tokens
    step.new_tokens = set()
    await write_only(link, rows, step)
    await _keep_blobs(link, tenant, name, blobs)
    return True


async def discard_dead_letter(
    link: Link,
    tenant: str,
    run: str,
    generation: int,
    why: str,
    held: Place | None,
    now_ms: int | None,
) -> bool:
    named = (run, generation, tenant)
    place = held or (None, None)
    answer = await link.value(_DISCARD_DEAD_LETTER, *named, now_ms, why.encode(), *place)
    return answer is not None


# ── blobs ───────────────────────────────────────────────────────────────────────────────


async def put_blob(
    link: Link,
    tenant: str,
    run: str | None,
    data: bytes,
    now_ms: int | None,
    put_own: str = _PUT_RUN_BLOB,
) -> str:
    """Keep a blob; `put_own` is the statement for one that belongs to a run."""
    if run is None:
        return await put_shared_blob(link, tenant, data, now_ms)
    ref = blob_ref(data)
    if await link.value(put_own, run, ref, tenant, data) is None:
        raise RunNotFoundError(run)
    return ref


async def _keep_blobs(link: Link, tenant: str, run: str, blobs: Sequence[bytes]) -> None:
    """The blobs of a run that this transaction has made."""
    for data in blobs:
        await link.run(_INSERT_RUN_BLOB, run, blob_ref(data), tenant, data)
