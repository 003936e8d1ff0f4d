"""What to do about a run that failed, waits or hangs: the commands, ready to be pasted."""

from __future__ import annotations

from collections.abc import AsyncIterator

from minuet.app.app import Facade
from minuet.app.results import RunResult
from minuet.cli.approvals import asked_of, decide_command, show_command
from minuet.cli.output import clean, format_short_age
from minuet.cli.signal import awaited_signals, signal_command
from minuet.cli.stores import command_line, is_memory
from minuet.cli.unserved import worker_command

#: Errors that follow from the document and from outputs that are settled: a retry cannot help.
FINAL_CODES = frozenset(
    {"quorum_not_reached", "foreach_not_a_list", "exceeded_max_fanout", "exceeded_max_bytes"}
)

#: Held nodes that are named.
NAMED_MAX = 3


def retry_advice(result: RunResult, store: str) -> str:
    """How to go on with a run that is over; "": there is no way."""
    if result.status not in ("FAILED", "CANCELLED") or is_memory(store):
        return ""
    if (result.error or {}).get("code") in FINAL_CODES:
        return "A retry would fail in the same way: start another run after fixing it."
    undone = () if result.compensated is None else ("--undone",)
    command = command_line(store, "runs", "retry", result.run_id, *undone)
    return f"{'After fixing it' if result.status == 'FAILED' else 'Go on with it'}: {command}"


async def advise(app: Facade, result: RunResult, store: str) -> AsyncIterator[str]:
    """What somebody can do about a run, one line each."""
    run = result.run_id
    if result.compensated == "partly":
        yield f"What is not undone: {command_line(store, 'dlq', 'list', '--run-id', run)}"
    if text := retry_advice(result, store):
        yield text
    if result.status == "PAUSED":
        yield f"Go on with it: {command_line(store, 'runs', 'resume', run)}"
    if result.status not in ("RUNNING", "COMPENSATING"):
        return
    held = [one for one in await app.dead_letters.list(run_id=run) if one.held]
    for letter in held[:NAMED_MAX]:
        command = command_line(store, "dlq", "retry", letter.id)
        yield f"Try {clean(letter.node_id)} again: {command}"
    if held:
        yield "Or change its config (dlq edit), skip it (runs skip) or fail (dlq discard)."
    for name in awaited_signals(result):
        command = signal_command(store, run, name)
        yield f"Send signal {clean(repr(name))} with: {command}"
    for id in asked_of(result):
        yield f"Look at the approval: {show_command(store, id)}"
        yield f"Decide it with: {decide_command(store, id)}"
    stall = await app.runs.stall(run)
    if stall is not None:
        age = format_short_age(stall.since_ms)
        yield clean(f"It is stalled: nothing has happened for {age}, and {stall.explain()}.")
    commands = [worker_command(one, store) for one in await app.runs.unserved(run)]
    for command in dict.fromkeys(commands):
        yield f"Start a worker for it: {command}"
