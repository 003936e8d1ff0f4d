"""`app.runs.search` and `histogram`: find runs by a filter (`filters`), and count them over time.

Stores list runs by status and workflow, the newest first. Everything else is compared here, run by
run, so both look at a bounded number of runs and say how far back they looked.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec

from minuet.app.argument_rules import is_storable
from minuet.app.arguments import checked
from minuet.app.filters import RunFilter, Term, fits_output, read_filter
from minuet.app.options import to_ms
from minuet.app.questions import Questions
from minuet.bridge.stalls import Stall, find_stall
from minuet.errors import InputError, MinuetError
from minuet.ids import format_uuid7
from minuet.store.records import Run
from minuet.types import STATUSES

#: Runs looked at for one page, and events read for the outputs of some of them.
SEARCHED_MAX = 10_000
EVENTS_MAX = 20_000

#: Runs counted for one histogram.
COUNTED_MAX = 50_000

#: Runs read at once.
PAGE = 500

#: How much the clocks of those who make ids and of the store may differ. A child run has the time
#: of its parent in its id: one that was started later than this may be found too late.
SLACK_MS = 3_600_000

#: The window of a histogram, without others.
WINDOW_MS = 24 * 3_600_000


class FoundRuns(msgspec.Struct, frozen=True):
    """Runs that fit a filter, the newest first, and how far was looked."""

    runs: tuple[Run, ...]
    #: How those that were asked for stall, by run.
    stalls: dict[str, Stall]
    #: Where to go on; None: there are no more.
    next: str | None
    #: Runs looked at, and those whose outputs were read.
    searched: int
    outputs: int
    #: All runs that are not older than this were looked at; None: all.
    back_to_ms: int | None


class Bucket(msgspec.Struct, frozen=True):
    """A part of a histogram: how many runs were created in it, by their status now."""

    from_ms: int
    counts: dict[str, int]


class Histogram(msgspec.Struct, frozen=True):
    """Runs over time."""

    from_ms: int
    to_ms: int
    bucket_ms: int
    buckets: tuple[Bucket, ...]
    counts: dict[str, int]
    counted: int
    #: Runs older than this were not counted; None: all were.
    back_to_ms: int | None


class Searching(Questions):
    """Finds runs by filters."""

    @checked
    async def search(
        self, query: str = "", *, before: str | None = None, limit: int = 100
    ) -> FoundRuns:
        """Runs that fit a filter such as `status:failed workflow:order age<1h acme`, the newest
        first. `before` is `next` of the last answer.

        An answer may have few runs, or none, and go on: it looks at 10,000 runs at most.
        """
        wanted = read_filter(query, self._behind.engine.clock.now_ms())
        found: list[Run] = []
        stalls: dict[str, Stall] = {}
        searched = outputs = events = 0
        last: Run | None = None
        async for run in self._newest(wanted, before, limit + 1):
            if searched >= SEARCHED_MAX or events >= EVENTS_MAX or len(found) == limit:
                assert last is not None
                return FoundRuns(tuple(found), stalls, last.run, searched, outputs, last.created_ms)
            last = run
            searched += 1
            left = wanted.fits_row(run)
            if left is None:
                continue
            if left:
                outputs, events = outputs + 1, events + run.seq
                if not await self._fits_output(run, left):
                    continue
            if wanted.wants_stalled:
                stall = await self._find_stall(run)
                if stall is None:
                    continue
                stalls[run.run] = stall
            found.append(run)
        return FoundRuns(tuple(found), stalls, None, searched, outputs, None)

    async def _newest(
        self, wanted: RunFilter, before: str | None, first: int = PAGE
    ) -> AsyncIterator[Run]:
        """Runs that can fit, the newest first, as long as they are not too old. `first` is how many
        are read at first: perhaps they are enough."""
        statuses = wanted.statuses
        text = f"{wanted.workflow or ''}{before or ''}"
        if not statuses or not is_storable(text):
            return
        if before is None and wanted.until_ms is not None:
            before = await self._first_before(wanted.until_ms)
        # The ids of a family begin alike.
        family = wanted.parent[:13] if wanted.parent is not None else None
        if family is not None and _time_in(family) is not None:
            before = min(before or "~", f"{family}~")
        else:
            family = None
        size = min(first, PAGE)
        while True:
            page = await self._store.list_runs(
                self._tenant,
                statuses=() if len(statuses) == len(STATUSES) else statuses,
                workflow=wanted.workflow,
                before=before,
                limit=size,
            )
            for run in page:
                yield run
            if len(page) < size or (family is not None and page[-1].run < family):
                return
            newest_ms = max(run.created_ms for run in page)
            if wanted.since_ms is not None and newest_ms < wanted.since_ms - SLACK_MS:
                return
            before, size = page[-1].run, PAGE

    async def _first_before(self, until_ms: int) -> str | None:
        """Where runs begin that were created until then, if ids say so: they have a time."""
        newest = await self._store.list_runs(self._tenant, limit=1)
        if not newest:
            return None
        made_ms = _time_in(newest[0].run)
        if made_ms is None or abs(made_ms - newest[0].created_ms) > SLACK_MS:
            # A child run is as old as its parent there; or the clocks differ.
            return None
        return format_uuid7(until_ms + SLACK_MS, b"\xff" * 10)

    async def _fits_output(self, run: Run, left: Sequence[Term]) -> bool:
        try:
            return fits_output(left, (await self.show_ended(run)).output)
        except MinuetError:
            return False  # It was deleted meanwhile, or cannot be read.

    async def _find_stall(self, run: Run) -> Stall | None:
        engine = self._behind.engine
        stall_ms = to_ms(engine.options.stall_seconds)
        return await find_stall(self._store, run, engine.clock.now_ms(), stall_ms)

    @checked
    async def histogram(self, query: str = "", *, buckets: int = 60) -> Histogram:
        """How many runs that fit a filter were created in each part of a time, by their status now.

        The filter says which time (`since:2026-11-17 until:2026-11-18`, or `age<2h`); without
        that, it is the last day. At most 50,000 runs are counted, the newest; `back_to_ms` says
        where counting ended. A text is not looked for in outputs.
        """
        now_ms = self._behind.engine.clock.now_ms()
        wanted = read_filter(query, now_ms)
        end_ms = now_ms if wanted.until_ms is None else wanted.until_ms
        start_ms = end_ms - WINDOW_MS if wanted.since_ms is None else wanted.since_ms
        if start_ms >= end_ms:
            raise InputError(["q: the time ends before it begins"], argument="q")
        if any(term.key == "output" for term in wanted.terms):
            raise InputError(["q: output: runs are not counted by their outputs"], argument="q")
        wanted = msgspec.structs.replace(wanted, since_ms=start_ms, until_ms=end_ms)
        width_ms = -(-(end_ms - start_ms) // buckets)
        counts: list[dict[str, int]] = [{} for _ in range(buckets)]
        total: dict[str, int] = {}
        counted, back_to_ms = 0, None
        async for run in self._newest(wanted, None):
            if counted >= COUNTED_MAX:
                back_to_ms = run.created_ms
                break
            counted += 1
            left = wanted.fits_row(run)
            if left is None or not all(term.negated for term in left):
                continue
            here = counts[min((run.created_ms - start_ms) // width_ms, buckets - 1)]
            here[run.status] = here.get(run.status, 0) + 1
            total[run.status] = total.get(run.status, 0) + 1
        parts = tuple(Bucket(start_ms + n * width_ms, one) for n, one in enumerate(counts))
        return Histogram(start_ms, end_ms, width_ms, parts, total, counted, back_to_ms)


def _time_in(run_id: str) -> int | None:
    """The time in a run id; None: it has none."""
    text = run_id[:13].replace("-", "")
    try:
        return int(text, 16) if len(text) == 12 else None
    except ValueError:
        return None
