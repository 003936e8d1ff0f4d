"""Progress of runs: a table that changes on a terminal, plain lines anywhere else.

Both are fed with the events of the runs, from their beginning. Nothing here changes a run.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Protocol

from minuet.app.results import NodeView, StepView
from minuet.app.watch import Watch
from minuet.cli.history import describe_event
from minuet.cli.output import clean, error_text, format_clock, format_duration
from minuet.cli.steps import step_text, wait_text
from minuet.events import Event, Place, RunCreated
from minuet.nodes.kept_output import keeping_output
from minuet.plan.plan import is_list

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: For plans with more nodes, only counts and active nodes are shown.
NODES_SHOWN_MAX = 40
#: Active nodes shown then.
ACTIVE_SHOWN_MAX = 12

#: How much of an id tells runs apart: those of a family begin with the same 13 characters.
SHORT_ID = 23

#: Seconds between two pictures.
TICK_S = 0.12
#: At most, when drawing one takes long.
SLOW_TICK_S = 0.5

#: By run: the instances that a worker holds, and since when (in ms).
Held = dict[str, dict[Place, int]]


class Progress(Protocol):
    """Shows the progress of runs."""

    def begin(self, watch: Watch, *, known: int = 0) -> None:
        """A run will be followed; its first `known` events are not new."""
        ...

    def add(self, run_id: str, seq: int, at_ms: int, event: Event) -> None:
        """Something has happened."""
        ...

    def refresh(self, held: Held) -> float:
        """Show the latest; how many seconds later to do so again (0: not wanted)."""
        ...

    def close(self) -> None: ...


def make_progress() -> Progress:
    """The kind of progress that suits where standard error goes."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return LiveProgress()
    return PlainProgress()


class PlainProgress:
    """One line for each change of state, with its time."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._hidden: dict[str, str | None] = {}

    def begin(self, watch: Watch, *, known: int = 0) -> None:
        self._known[watch.run_id] = known
        self._hidden[watch.run_id] = watch.output_node
        if known:
            text = f"run {watch.run_id} of {watch.workflow} goes on"
            self._print(int(time.time() * 1000), text)

    def add(self, run_id: str, seq: int, at_ms: int, event: Event) -> None:
        line = describe_event(at_ms, event)
        if seq <= self._known[run_id] or not line.state:
            return
        if not line.node:
            if isinstance(event, RunCreated):
                self._print(at_ms, f"run {run_id} of {event.workflow} starts")
            elif line.state != "RUNNING":
                self._print(at_ms, f"run {run_id} is {line.state}  {line.text}")
        elif not self._is_hidden(run_id, getattr(event, "node", "")):
            where = f"{run_id[:SHORT_ID]}  " if len(self._known) > 1 else ""
            self._print(at_ms, f"{where}{line.node:<20}  {line.state:<9}  {line.text}")

    def _is_hidden(self, run_id: str, node: str) -> bool:
        return node == self._hidden[run_id] or is_list(node)

    def _print(self, at_ms: int, text: str) -> None:
        print(f"{format_clock(at_ms)}  {clean(text)}".rstrip(), file=sys.stderr, flush=True)

    def refresh(self, held: Held) -> float:
        return 0.0

    def close(self) -> None:
        sys.stderr.flush()


class _Shown:
    """A run that is shown, and since when."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.begun_at = time.time()


class LiveProgress:
    """A table of the nodes that is drawn again and again."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = console or Console(stderr=True)
        self._runs: dict[str, _Shown] = {}
        self._held: Held = {}
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()
        # What handlers print goes through it, and is kept as they have printed it.
        self._keeping = keeping_output()
        self._keeping.__enter__()

    def begin(self, watch: Watch, *, known: int = 0) -> None:
        self._runs[watch.run_id] = _Shown(watch)

    def add(self, run_id: str, seq: int, at_ms: int, event: Event) -> None:
        self._runs[run_id].watch.add(seq, at_ms, event)

    def refresh(self, held: Held) -> float:
        """Draw; a picture that takes long to draw is drawn less often."""
        begun = time.perf_counter()
        self._held = held
        self._live.update(self.picture(), refresh=True)
        return min(SLOW_TICK_S, max(TICK_S, 5 * (time.perf_counter() - begun)))

    def close(self) -> None:
        self._keeping.__exit__(None, None, None)
        self._live.update(self.picture(), refresh=True)
        self._live.stop()

    # ── drawing ─────────────────────────────────────────────────────────────────────────

    def picture(self) -> RenderableType:
        """What is to be seen now."""
        from rich.console import Group

        room = min(NODES_SHOWN_MAX, max(self._console.height - 6, 5))
        if len(self._runs) > 1:
            return self._overview(room)
        return Group(*(self._draw_run(run, room) for run in self._runs.values()))

    def _draw_run(self, run: _Shown, room: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        watch = run.watch
        title = Text(f"{watch.workflow}  ", style="bold")
        title.append(watch.run_id, style="dim")
        title.append(f"  {watch.status}", style=STYLES.get(watch.status, ""))
        title.append(f"  {format_duration(int((time.time() - run.begun_at) * 1000))}", style="dim")
        if watch.size > room:
            return Group(title, self._counts(watch), self._active(watch))
        return Group(title, self._table(watch))

    def _table(self, watch: Watch) -> Table:
        """Every node with its state."""
        table = _make_table()
        held = self._held.get(watch.run_id, {})
        since = {node: taken_ms for (node, _), taken_ms in held.items()}
        for view in watch.nodes(held):
            table.add_row(*_cells(view, since.get(view.node), watch.last_step(view.node)))
        return table

    def _counts(self, watch: Watch) -> RenderableType:
        """How many node instances are in which state."""
        from rich.text import Text

        counts = ", ".join(f"{count} {state}" for state, count in watch.counts().items())
        return Text(f"{watch.size} nodes: {counts}")

    def _active(self, watch: Watch) -> Table:
        """The node instances that are alive, the oldest first."""
        table = _make_table()
        now_ms = int(time.time() * 1000)
        for one in watch.active(ACTIVE_SHOWN_MAX):
            status = f"[{STYLES[one.status]}]{one.status}[/]"
            since = format_duration(now_ms - one.created_ms)
            table.add_row(clean(one.name), status, str(one.attempt), since, "")
        return table

    def _overview(self, room: int) -> RenderableType:
        """One line for each run."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name in ("run", "workflow", "status", "nodes settled", "active"):
            table.add_column(name)
        is_open = ("RUNNING", "PAUSED", "COMPENSATING", "PENDING", "")
        runs = [run.watch for run in self._runs.values()]
        runs.sort(key=lambda watch: watch.status not in is_open)
        for watch in runs[:room]:
            status = f"[{STYLES.get(watch.status, '')}]{watch.status}[/]" if watch.status else ""
            counts = (str(watch.settled), str(watch.live))
            table.add_row(watch.run_id, clean(watch.workflow), status, *counts)
        if len(runs) > room:
            table.add_row(f"… and {len(runs) - room} more", "", "", "", "")
        return table


STYLES = {
    "COMPLETED": "green",
    "RUNNING": "bold cyan",
    "QUEUED": "cyan",
    "WAITING": "yellow",
    "PAUSED": "yellow",
    "COMPENSATING": "yellow",
    "FAILED": "bold red",
    "CANCELLED": "red",
    "SKIPPED": "dim",
    "PENDING": "dim",
}


def _make_table() -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("node", "state", "attempt", "time", ""):
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    return table


def _cells(
    view: NodeView, taken_ms: int | None, last: tuple[int, StepView] | None
) -> list[RenderableType]:
    from rich.text import Text

    times = len(view.instances)
    name = view.node + (f"  ×{times}" if times > 1 else "")
    took = ""
    if view.status == "RUNNING" and taken_ms is not None:
        took = format_duration(int(time.time() * 1000) - taken_ms)
    elif view.started_ms is not None and view.ended_ms is not None:
        took = format_duration(view.ended_ms - view.started_ms)
    text = error_text(view.error) if view.error else view.reason.replace("_", " ")
    text = text or wait_text(view.waiting_for)
    if not text and last is not None and view.status in ("RUNNING", "QUEUED"):
        count, step = last
        text = f"step {count}: {step_text(step)}"
    return [
        Text(clean(name)),
        Text(view.status, style=STYLES[view.status]),
        Text(str(view.attempts or "")),
        Text(took),
        Text(clean(text.replace("\n", " ")), style="red" if view.error else "dim"),
    ]
