"""The writing verbs other than the exchange: what each does inside the writer's transaction."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from minuet.errors import RunConflictError, RunNotFoundError
from minuet.events import Place
from minuet.store import changes
from minuet.store.blob import blob_ref
from minuet.store.changes import NewRun
from minuet.store.exchange import NewStep, Refusal, Swept
from minuet.store.fields import to_json
from minuet.store.records import LEASE_MS_MAX, Key, Run, Snapshot
from minuet.store.retention import DELETED_PER_SWEEP
from minuet.store.sqlite.blobs import put_shared_blob
from minuet.store.sqlite.rows import run_of
from minuet.store.sqlite.statements import statement
from minuet.store.sqlite.writer import Change

_EXPIRED_LEASES = statement("expired_leases")
_DUE_TIMERS = statement("due_timers")
_OVERDUE_RUNS = statement("overdue_runs")
_NEXT_DUE = statement("next_due")
_OUTDATED_RUNS = statement("outdated_runs")
_FIND_BY_IDEMPOTENCY_KEY = statement("find_by_idempotency_key")
_DELETABLE_RUNS = statement("deletable_runs")
_DELETE_RUNS = statement("delete_runs")
_REMOVE_ROWS = statement("remove_rows")
_DISCARD_DEAD_LETTER = statement("discard_dead_letter")
_PUT_RUN_BLOB = statement("put_run_blob")
_REMOVE_BLOBS = statement("remove_blobs")


def sweep(change: Change, limit: int, retention_ms: int | None) -> Swept:
    db, step, now_ms = change.db, change.step, change.now_ms
    due = {"now": now_ms, "latest": now_ms + LEASE_MS_MAX, "limit": limit}
    expired: list[Key] = [row[1:] for row in db.execute(_EXPIRED_LEASES, due)]
    expired += change.owner.find_abandoned(db, now_ms, limit - len(expired))
    overdue = [run for (run,) in db.execute(_OVERDUE_RUNS, due)]
    waiting: list[tuple[str, Key]] = [(row[0], row[1:]) for row in db.execute(_DUE_TIMERS, due)]
    keys = [*expired, *(key for _, key in waiting)]
    change.rows.load_tokens(keys)
    change.rows.load_runs([*(key[0] for key in keys), *overdue])
    counts = (
        sum(step.expire(key) for key in expired),
        sum(step.resume(tenant, key, None) for tenant, key in waiting),
        sum(step.pass_deadline(run) for run in overdue),
    )
    change.write()
    deleted = 0 if retention_ms is None else _delete_outdated(change, retention_ms)
    next_due_ms = db.execute(_NEXT_DUE, {"now": now_ms}).get
    more = limit in (len(expired), len(waiting), len(overdue)) or deleted == DELETED_PER_SWEEP
    return Swept(*counts, next_due_ms=next_due_ms, more=more)


def create_runs(change: Change, runs: Sequence[NewRun]) -> list[Run | RunConflictError]:
    change.rows.load_runs(dict.fromkeys(new.run for new in runs))
    by_key = _runs_by_key(change, runs)
    answers: list[Run | RunConflictError] = []
    for new in runs:
        key = (new.tenant, new.idempotency_key)
        known = change.step.run(new.run)
        if known is None and new.idempotency_key is not None:
            known = by_key.get(key)
        if known is not None:
            answers.append(change.step.check_same(known, new))
            continue
        created = change.step.create_run(new)
        if isinstance(created, Run):
            by_key[key] = created
            _keep_blobs(change, new.tenant, new.run, new.blobs)
        answers.append(created)
    change.write()
    return [copy.copy(answer) if isinstance(answer, Run) else answer for answer in answers]


def _runs_by_key(change: Change, runs: Sequence[NewRun]) -> dict[tuple[str, str | None], Run]:
    keys = [(new.tenant, new.idempotency_key) for new in runs if new.idempotency_key is not None]
    if not keys:
        return {}
    rows = change.db.execute(_FIND_BY_IDEMPOTENCY_KEY, (to_json(keys),))
    found = [run_of(row) for row in rows]
    return {(run.tenant, run.idempotency_key): run for run in found}


def change_run(
    change: Change, tenant: str, run: str, wanted: changes.Change, expected_seq: int | None
) -> Run:
    changed = change.step.change_run(tenant, run, wanted, expected_seq)
    change.write()
    return copy.copy(changed)


def resolve(
    change: Change, tenant: str, key: Key, resolution: bytes, by: str, wait_key: str | None
) -> bool:
    resolved = change.step.resume(tenant, key, resolution, by=by, wait_key=wait_key)
    change.write()
    return resolved


def mark_reported(change: Change, tenant: str, run: str, seq: int) -> bool:
    marked = change.step.mark_reported(tenant, run, seq)
    change.write()
    return marked


def mark_noted(change: Change, tenant: str, run: str, upto: int) -> bool:
    marked = change.step.mark_noted(tenant, run, upto)
    change.write()
    return marked


def record_steps(change: Change, tenant: str, steps: Sequence[NewStep]) -> list[bytes | Refusal]:
    change.rows.load_tokens((new.run, new.node, new.scope) for new in steps)
    change.rows.load_runs(new.run for new in steps)
    answers = [change.step.record_step(tenant, new) for new in steps]
    change.write()
    return answers


def delete_runs(change: Change, tenant: str, runs: Sequence[str]) -> int:
    asked = {"tenant": tenant, "runs": to_json(sorted(set(runs)))}
    return _delete(change, [run for (run,) in change.db.execute(_DELETABLE_RUNS, asked)])


def remove_runs(change: Change, runs: Sequence[str]) -> int:
    return _delete(change, runs)


def _delete_outdated(change: Change, retention_ms: int) -> int:
    """Delete runs that ended longer ago than they are kept; say how many."""
    asked = {"latest": change.now_ms - retention_ms, "limit": DELETED_PER_SWEEP}
    return _delete(change, [run for (run,) in change.db.execute(_OUTDATED_RUNS, asked)])


def _delete(change: Change, runs: Sequence[str]) -> int:
    if runs:
        asked = {"runs": to_json(runs)}
        change.db.execute(_REMOVE_ROWS, asked)
        change.db.execute(_REMOVE_BLOBS, asked)
        change.db.execute(_DELETE_RUNS, asked)
        change.known.clear()
    return len(runs)


def put_run(
    change: Change,
    tenant: str,
    rows: Snapshot,
    expected_seq: int | None,
    blobs: Sequence[bytes],
) -> bool:
    name, key = rows.run.run, rows.run.idempotency_key
    owner = None
    if key is not None:
        for row in change.db.execute(_FIND_BY_IDEMPOTENCY_KEY, (to_json([(tenant, key)]),)):
            owner = run_of(row).run
    if not change.step.put_run(tenant, copy.deepcopy(rows), expected_seq, owner):
        return False
    change.db.execute(_REMOVE_ROWS, {"runs": to_json([name])})
    change.db.execute(_DELETE_RUNS, {"runs": to_json([name])})
    # Written again, with all its fields, whether it existed or not.
    change.step.new_runs.add(name)
    _keep_blobs(change, tenant, name, blobs)
    change.write()
    # The rows that were loaded are gone, and others have come in their place.
    change.known.clear()
    return True


def discard_dead_letter(
    change: Change, tenant: str, run: str, generation: int, why: str, held: Place | None
) -> bool:
    bindings: dict[str, Any] = {"tenant": tenant, "run": run, "generation": generation, "why": why}
    bindings["now"] = change.now_ms
    bindings["node"], bindings["scope"] = held or (None, None)
    return change.db.execute(_DISCARD_DEAD_LETTER, bindings).get is not None


def put_blob(change: Change, tenant: str, run: str | None, data: bytes) -> str:
    if run is None:
        return put_shared_blob(change, tenant, data)
    owner = change.step.run(run)
    if owner is None or owner.tenant != tenant:
        raise RunNotFoundError(run)
    _keep_blobs(change, tenant, run, [data])
    return blob_ref(data)


def _keep_blobs(change: Change, tenant: str, run: str, blobs: Sequence[bytes]) -> None:
    for data in blobs:
        bindings = {"run": run, "ref": blob_ref(data), "tenant": tenant, "data": data}
        change.db.execute(_PUT_RUN_BLOB, bindings)
