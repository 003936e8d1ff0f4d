"""`minuet runs …`: look at runs, and change them."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable, Coroutine
from operator import attrgetter
from typing import Any

from minuet import outcomes
from minuet.app import shapes
from minuet.app.actions import BulkAction
from minuet.app.app import Facade
from minuet.app.finder import Run
from minuet.app.options import liveness_settings
from minuet.app.results import Explanation, NodeResult, RunResult, RunTree, Undoing, WaitView
from minuet.app.runs import Runs
from minuet.app.watch import instance_name
from minuet.approvals import APPROVAL_WAIT, id_of
from minuet.cli.advice import advise
from minuet.cli.approvals import decide_command, people
from minuet.cli.bulk import change_many
from minuet.cli.handlers import goes_on
from minuet.cli.history import describe_event
from minuet.cli.output import (
    brief,
    clean,
    error_text,
    format_clock,
    format_duration,
    format_moment,
    paint,
    print_json,
    print_table,
    trace_text,
    workflow_text,
)
from minuet.cli.preview import preview
from minuet.cli.signal import signal_command, signals_in
from minuet.cli.steps import print_steps, wait_text
from minuet.cli.stores import find_run, find_to_change, with_app
from minuet.errors import ConfigError

#: Begins a reason that names the error of a node.
OWN_ERROR = "its error: "

#: Steps of a durable function that are shown with a run; `runs show RUN NODE` shows all.
STEPS_SHOWN_MAX = 40


def show(arguments: Namespace) -> int:
    """Show how a run stands."""

    async def ask(app: Facade) -> None:
        run_id = await find_run(app, arguments.run)
        if arguments.node is not None:
            _print_instances(arguments, await app.runs.instances(run_id, arguments.node))
            return
        run, result = await app.runs.show_row(run_id)
        each = await app.runs.instances(run_id) if arguments.all else None
        if arguments.output == "json":
            children = (await app.runs.tree(run_id, levels=1)).children
            print_json(shapes.run(run, result, each, children))
        else:
            _print_result(result, each)
            _print_relatives(run)
            async for line in advise(app, result, arguments.store):
                print(line)

    return _ask(arguments, ask)


def _print_relatives(run: Run) -> None:
    if run.parent is not None:
        node = instance_name(run.parent_node, run.parent_scope)
        print(f"Started by node {clean(node)} of run {run.parent}.")
    if run.children:
        print(f"It has child runs: minuet runs tree {run.run}")


def tree(arguments: Namespace) -> int:
    """Show a run with its child runs, and theirs."""

    async def ask(app: Facade) -> None:
        found = await app.runs.tree(await find_run(app, arguments.run))
        if arguments.output == "json":
            print_json(shapes.tree(found))
        else:
            for line in _branches(found):
                print(line)

    return _ask(arguments, ask)


def _branches(found: RunTree, before: str = "", below: str = "") -> list[str]:
    """A run and the runs below it, one line each."""
    node = f"{clean(instance_name(found.node, found.scope))}: " if found.node else ""
    lines = [f"{before}{node}{found.run_id} {clean(found.workflow)} {paint(found.status)}"]
    for place, child in enumerate(found.children, 1):
        is_last = place == len(found.children)
        edge, space = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        lines += _branches(child, f"{below}{edge}", f"{below}{space}")
    return lines


def replay(arguments: Namespace) -> int:
    """Show how a run stood after an event."""

    async def ask(app: Facade) -> None:
        run_id = await find_run(app, arguments.run)
        last = (await app.runs.get(run_id)).seq
        at = arguments.at or last
        result = await app.runs.replay(run_id, at=at)
        each = await app.runs.instances(run_id, at=at) if arguments.all else None
        if arguments.output == "json":
            print_json(shapes.replayed(result, last, each))
        else:
            print(f"After event {at} of {last}:")
            _print_result(result, each)

    return _ask(arguments, ask)


def events(arguments: Namespace) -> int:
    """List a run's history."""

    async def ask(app: Facade) -> None:
        run_id = await find_run(app, arguments.run)
        if arguments.output == "json":
            print_json(await app.runs.events(run_id, after=arguments.after))
            return
        shown = {one["seq"]: one["type"] for one in await app.runs.events(run_id)}
        rows = []
        for seq, at_ms, event in await app.runs.stored_events(run_id, after=arguments.after):
            moment = format_clock(at_ms)
            if isinstance(event, bytes):
                raw = brief(event.decode("utf-8", "replace"), 200)
                rows.append((str(seq), moment, shapes.UNREADABLE, "", clean(raw)))
                continue
            line = describe_event(at_ms, event)
            rows.append((str(seq), moment, shown[seq], clean(line.node), clean(line.text)))
        print_table(("seq", "time", "event", "node", ""), rows, names=("node",))

    return _ask(arguments, ask)


def why(arguments: Namespace) -> int:
    """Explain why a node is in its state."""

    async def ask(app: Facade) -> None:
        run_id = await find_run(app, arguments.run)
        explanation = await app.runs.explain(run_id, arguments.node)
        if arguments.output == "json":
            print_json(shapes.explanation(explanation))
        else:
            print(clean(explanation_text(explanation)))
            wait = explanation.details.get("waiting_for")
            signals = signals_in(WaitView(**wait)) if wait is not None else ()
            for name in signals:
                print(f"Send it with: {signal_command(arguments.store, run_id, name)}")
            if wait is not None and wait["kind"] == APPROVAL_WAIT:
                id = id_of(wait["key"])
                asked = await app.approvals.show(id)
                print(f"Who may decide: {people(asked)}")
                print(f"Decide with: {decide_command(arguments.store, id)}")
            elif not signals and explanation.status not in ("COMPLETED", "SKIPPED"):
                result = await app.runs.show(run_id)
                async for line in advise(app, result, arguments.store):
                    print(line)

    return _ask(arguments, ask)


def explanation_text(explanation: Explanation) -> str:
    """An explanation, one sentence a line; what the summary says is not said again."""
    summary = explanation.summary
    reasons = [one for one in explanation.reasons if one.removeprefix(OWN_ERROR) not in summary]
    return "\n".join([explanation.summary, *(f"  - {reason}" for reason in reasons)])


# ── changes ─────────────────────────────────────────────────────────────────────────────────


def cancel(arguments: Namespace) -> int:
    """End runs as CANCELLED."""
    options = {} if arguments.reason is None else {"reason": arguments.reason}
    return _change_some(arguments, "cancel", options)


def pause(arguments: Namespace) -> int:
    """Pause runs: start nothing more of them."""
    return _change_some(arguments, "pause", {})


def resume(arguments: Namespace) -> int:
    """Continue paused runs."""
    return _change_some(arguments, "resume", {})


def retry(arguments: Namespace) -> int:
    """Open the next generation of runs."""
    return _change_some(arguments, "retry", {"undone": True} if arguments.undone else {})


def _change_some(arguments: Namespace, action: BulkAction, options: dict[str, Any]) -> int:
    """Change one run, or several."""
    is_one = len(arguments.runs) == 1 and arguments.filter is None
    if "undone" in options and (not is_one or arguments.dry_run):
        raise ConfigError("--undone goes with one run, and without --dry-run")
    if arguments.if_seq is not None and not is_one:
        raise ConfigError("--if-seq goes with one run")
    if not is_one:
        return change_many(arguments, action, options)
    (arguments.run,) = arguments.runs
    if arguments.dry_run and action != "delete":
        return preview(arguments, action)
    return _change(arguments, attrgetter(action), **options)


def rollback(arguments: Namespace) -> int:
    """Undo a run that is over."""
    if arguments.dry_run:
        return preview(arguments, "rollback", to=arguments.to)
    return _change(arguments, lambda runs: runs.rollback, to=arguments.to)


def _change(
    arguments: Namespace, verb: Callable[[Runs], Callable[..., Awaitable[Run]]], **options: Any
) -> int:
    async def ask(app: Facade) -> None:
        run_id = await find_to_change(app, arguments.run)
        run = await verb(app.runs)(run_id, seq=arguments.if_seq, **options)
        if arguments.output == "json":
            print_json(shapes.row(run))
            return
        print(f"run {run.run} is {paint(run.status)}")
        if run.status in ("RUNNING", "COMPENSATING"):
            print(goes_on(arguments.store, run))

    return _ask(arguments, ask)


# ── printing ────────────────────────────────────────────────────────────────────────────────


def _ask(arguments: Namespace, ask: Callable[[Facade], Coroutine[Any, Any, None]]) -> int:
    with_app(arguments, ask, **liveness_settings(arguments.settings))
    return outcomes.COMPLETED


def _print_instances(arguments: Namespace, found: dict[str, NodeResult]) -> None:
    """One node: all its instances, or everything about the only one."""
    if arguments.output == "json":
        print_json(shapes.nodes(found))
        return
    _print_nodes(found)
    for name, node in found.items():
        print_steps(name, node)
    if len(found) == 1:
        (node,) = found.values()
        if node.error:
            print("error:")
            print_json(node.error)
        if node.output is not None:
            print("output:")
            print_json(node.output)


def _print_result(result: RunResult, each: dict[str, NodeResult] | None = None) -> None:
    took = f" in {format_duration(result.duration_ms)}" if result.duration_ms is not None else ""
    generation = f", generation {result.generation}" if result.generation > 1 else ""
    workflow = workflow_text(result.workflow, result.version)
    print(f"{workflow}: {paint(result.status)}{took}  (run {result.run_id}{generation})")
    if result.error and result.error.get("message") != "cancelled":
        title = "reason" if result.status == "CANCELLED" else "error"
        print(f"{title}: {clean(error_text(result.error))}")
        if trace := trace_text(result.error):
            print(trace)
    if result.compensated is not None:
        print(f"undone: {result.compensated}")
    nodes = result.nodes if each is None else each
    _print_nodes(nodes, shown=result.error)
    for name, node in nodes.items():
        print_steps(name, node, most=STEPS_SHOWN_MAX)
    if result.status == "COMPLETED":
        print("output:")
        print_json(result.output)


def _undone_text(found: Undoing | None) -> str:
    """What has become of a node's compensator; "": it was not called."""
    if found is None:
        return ""
    if found.status == "COMPLETED":
        return "undone"
    if found.status == "FAILED":
        return f"not undone: {error_text(found.error)}"
    return "is being undone"


def _print_nodes(nodes: dict[str, NodeResult], shown: dict[str, Any] | None = None) -> None:
    """A table of nodes, and where their errors come from, but for one that was shown."""
    days = {format_moment(node.started_ms)[:10] for node in nodes.values() if node.started_ms}
    # All on one day, as usual: the day is in the title, and the rows are shorter.
    is_short = len(days) == 1
    title = f"began {days.pop()}" if is_short else "began"

    def moment(at_ms: int | None) -> str:
        return format_moment(at_ms)[11:] if is_short else format_moment(at_ms)

    rows = []
    for name, node in nodes.items():
        times = f"{name} ×{node.instances}" if node.instances > 1 else name
        took = ""
        if node.started_ms is not None and node.ended_ms is not None:
            took = format_duration(node.ended_ms - node.started_ms)
        text = wait_text(node.waiting_for) or error_text(node.error)
        text = text or (node.reason or "").replace("_", " ")
        if not text and node.output is not None:
            text = brief(node.output, 60)
        text = "; ".join(filter(None, (_undone_text(node.compensation), text)))
        attempts = str(node.attempts or "")
        began = moment(node.started_ms)
        rows.append((times, node.status, attempts, began, took, brief(text)))
    titles = ("node", "status", "tries", title, "took", "output or error")
    print_table(titles, rows, names=("node",))
    for name, node in nodes.items():
        trace = trace_text(node.error)
        if trace and trace != trace_text(shown):
            print(f"{clean(name)}: {clean(error_text(node.error))}\n{trace}")
