"""`app.runs.retry`: run what failed again, or start a run that was undone over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minuet.app.compiling import encode_input
from minuet.app.move.parcel import moved_to
from minuet.app.repairing import change_run, check_seq
from minuet.app.results import NodeResult
from minuet.app.starting import Startable, Starter
from minuet.app.tenant import Tenant
from minuet.bridge.history import HistoryReader
from minuet.bridge.undo import undone_nodes
from minuet.errors import RunConflictError, StoreUnusableError
from minuet.store.changes import RetryRun
from minuet.store.large import get_content
from minuet.store.records import Run

if TYPE_CHECKING:
    from minuet.app.runs import Runs

#: The tag of a run that was started in place of one that was undone: that one's id.
AGAIN_TAG = "started_over"


async def retry(
    runs: Runs,
    tenant: Tenant,
    starter: Starter,
    run_id: str,
    *,
    generation: int | None,
    undone: bool,
    seq: int | None,
) -> Run:
    """Retry a run, or start it over."""
    run = await runs.get(run_id)
    check_seq(run, seq)
    if generation not in (None, run.generation):
        raise RunConflictError(run_id, "was retried", status=run.status, seq=run.seq)
    store = moved_to(run)
    if store is not None:
        raise RunConflictError(run_id, f"was moved to {store}: retry it there")
    if run.undos and undone:
        return await _start_over(runs, tenant, starter, run)
    if run.undos:
        await _check_not_undone(runs, run)
    try:
        loaded = await tenant.load(run.plan, run_id)
        deadline_ms = loaded.program.plan.deadline_ms
    except StoreUnusableError:
        deadline_ms = None  # Its plan is lost: the run will fail for that reason.
    if seq is None and (generation is not None or run.undos):
        # What was checked above must still hold: an undo may just be under way.
        seq = run.seq
    change = RetryRun(deadline_ms=deadline_ms, undone=bool(run.undos))
    run = await change_run(tenant, run_id, change, seq)
    tenant.work_on([run_id])
    return run


async def _check_not_undone(runs: Runs, run: Run) -> None:
    """RunConflictError if something that a run did was undone."""
    program = await runs.program(run.run, run.plan)
    undone = undone_nodes(program, await runs.history(run.run))
    if undone:
        message = (
            f"was undone ({', '.join(undone)}): retry it with --undone (in Python, "
            "`undone=True`), and it is started over as another run"
        )
        raise RunConflictError(run.run, message, status=run.status, seq=run.seq)


async def _start_over(runs: Runs, tenant: Tenant, starter: Starter, run: Run) -> Run:
    """Start a run that was undone once more, as another one."""
    found = await runs.show(run.run)
    refusal = None
    if run.parent is not None:
        refusal = f"is a child run: start its parent over, which is {run.parent}"
    elif found.compensated != "all":
        left = [name for name, one in found.nodes.items() if _is_left(one)]
        refusal = f"is not undone completely ({', '.join(left)} is left): undo it first"
    if refusal is not None:
        raise RunConflictError(run.run, refusal, status=run.status, seq=run.seq)
    loaded = await tenant.load(run.plan, run.run)
    data = await get_content(tenant.store, run.plan, run=run.run, tenant=tenant.name)
    plan = loaded.program.plan
    source = Startable(plan, run.plan, None if data is None else bytes(data), run.version, run.tag)
    input = encode_input(plan, await HistoryReader(tenant.store, tenant.name).input(run))
    loaded = await starter.keep(source)
    tenant.serve(loaded)
    key = f"again:{run.run}:{run.undos}"
    tags = {**run.tags, AGAIN_TAG: run.run}
    (answer,) = await starter.start(source, loaded, [input], [key], tags)
    if isinstance(answer, RunConflictError):
        raise answer
    tenant.work_on([answer.run])
    return answer


def _is_left(node: NodeResult) -> bool:
    """Whether a node completed and its compensator did not."""
    return node.compensation is not None and not node.compensation.is_undone
