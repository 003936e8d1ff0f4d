"""`minuet migrate`: move all runs and deployed workflows of one store into another."""

from __future__ import annotations

import asyncio
import os
import time
from argparse import Namespace
from collections import Counter
from typing import Any

import msgspec

from minuet import outcomes
from minuet.app.move.mover import Mover
from minuet.app.move.transfer import Outcome
from minuet.app.move.workflows import WorkflowOutcome
from minuet.app.stores import chosen_blobs, opened
from minuet.cli.output import ProgressLine, clean, format_duration, note, print_json
from minuet.cli.stores import exists, file_of, is_memory
from minuet.clock import SystemClock
from minuet.errors import ConfigError, StoreUnavailableError
from minuet.settings import masked, read_settings

#: Problems that are printed one by one; the others are counted.
PROBLEMS_MAX = 1_000


def migrate(arguments: Namespace) -> int:
    """Move all runs of a store into another; 1 when some of them were left where they were."""
    settings = read_settings(os.environ, given=("MINUET_STORE",))
    source = settings.complete_store(arguments.source)
    target = settings.complete_store(arguments.target)
    _check(source, target)
    report = asyncio.run(_work(arguments, source, target))
    if arguments.output == "json":
        print_json(report.to_json())
    else:
        report.print_summary()
    return outcomes.FAILED if report.problem_count else outcomes.COMPLETED


def _check(source: str, target: str) -> None:
    for option, url in (("--from", source), ("--to", target)):
        if is_memory(url):
            raise ConfigError(f"{option}: memory:// ends with its process: name another store")
    if not exists(source):
        raise ConfigError(f"--from: there is no store at {file_of(source)}")
    ours, theirs = file_of(source), file_of(target)
    same_file = ours is not None and theirs is not None and ours.resolve() == theirs.resolve()
    if source == target or same_file:
        raise ConfigError("--from and --to name the same store")


async def _work(arguments: Namespace, source_url: str, target_url: str) -> Report:
    names = (masked(source_url), masked(target_url))
    report = Report(*names, dry_run=arguments.dry_run)
    # A dry run creates no file.
    is_new = arguments.dry_run and not exists(target_url)
    async with (
        opened(source_url, blobs=chosen_blobs()) as source,
        opened("memory://" if is_new else target_url, blobs=arguments.to_blobs) as target,
    ):
        mover = Mover(
            source,
            target,
            SystemClock(),
            come_from=names[0],
            to=names[1],
            only=arguments.only,
            wait=arguments.wait,
            dry_run=arguments.dry_run,
        )
        await _follow(mover, report)
    return report


async def _follow(mover: Mover, report: Report) -> None:
    total, began, progress = await mover.count(), time.monotonic(), ProgressLine()
    try:
        async for version in mover.copy_workflows():
            report.add_version(version)
        async for outcome in mover.move():
            report.add(outcome)
            progress.show(_progress(report.done, total, time.monotonic() - began))
    except StoreUnavailableError as error:
        hint = f"{error}; {report.done} runs were done: run the same command again"
        raise StoreUnavailableError(hint) from error
    finally:
        progress.close()
        report.blobs, report.webhooks = mover.blobs, mover.webhooks


def _progress(done: int, total: int, seconds: float) -> str:
    rate = done / max(seconds, 0.001)
    left = max(total - done, 0)
    text = f"{done} of {total} runs, {rate:.0f} a second, {left} left"
    if left and rate:
        text += f", about {format_duration(int(1000 * left / rate))}"
    return text


class Report:
    """What was done."""

    def __init__(self, source: str, target: str, *, dry_run: bool) -> None:
        self._source, self._target, self._dry_run = source, target, dry_run
        self._began = time.monotonic()
        self._counts: Counter[str] = Counter()
        self._problems: list[Outcome] = []
        self.problem_count = 0
        self.done = 0
        self.blobs = self.webhooks = 0
        self._versions = 0
        self._refused: list[WorkflowOutcome] = []

    def add(self, outcome: Outcome) -> None:
        self.done += 1
        kind = ("open" if outcome.open else "finished") if outcome.kind == "moved" else outcome.kind
        self._counts[kind] += 1
        if outcome.is_problem:
            self.problem_count += 1
            if len(self._problems) < PROBLEMS_MAX:
                self._problems.append(outcome)

    def add_version(self, outcome: WorkflowOutcome) -> None:
        self._versions += outcome.is_new
        if outcome.message:
            self.problem_count += 1
            self._refused.append(outcome)

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self._source,
            "to": self._target,
            "dry_run": self._dry_run,
            "runs": self.done,
            "moved": {"open": self._counts["open"], "finished": self._counts["finished"]},
            "already_there": self._counts["there"],
            "elsewhere": self._counts["elsewhere"],
            "blobs": self.blobs,
            "webhooks": self.webhooks,
            "versions": self._versions,
            "workflow_problems": [msgspec.to_builtins(one) for one in self._refused],
            "problems": [problem.to_json() for problem in self._problems],
            "problem_count": self.problem_count,
            "seconds": round(time.monotonic() - self._began, 3),
        }

    def print_summary(self) -> None:
        for one in self._refused:
            tenant = "" if one.tenant == "default" else f" of {one.tenant}"
            print(clean(f"workflow {one.name}@{one.version}{tenant}: {one.message}"))
        for problem in self._problems:
            tenant = "" if problem.tenant == "default" else f" of {problem.tenant}"
            message = problem.message.removeprefix(f"run {problem.run_id}: ")
            print(clean(f"run {problem.run_id}{tenant}: {problem.kind}: {message}"))
        took = format_duration(int(1000 * (time.monotonic() - self._began)))
        verb = "would be moved" if self._dry_run else "moved"
        open_runs, finished = self._counts["open"], self._counts["finished"]
        text = f"{_runs(open_runs + finished)} {verb} to {self._target} ({open_runs} open)"
        if self._counts["there"]:
            text += f", {self._counts['there']} were there already"
        if self._counts["elsewhere"]:
            text += f", {self._counts['elsewhere']} have been moved elsewhere"
        print(clean(f"{text}, in {took}."))
        if self._versions:
            versions = f"{self._versions} version{'' if self._versions == 1 else 's'}"
            print(f"{versions} of deployed workflows {verb.replace('moved', 'copied')}.")
        if self.webhooks:
            webhooks = f"{self.webhooks} webhook{'' if self.webhooks == 1 else 's'}"
            print(f"{webhooks} that {'is' if self.webhooks == 1 else 'are'} to be sent {verb}.")
        if self.problem_count - len(self._refused):
            count = self.problem_count - len(self._refused)
            note(
                f"{_runs(count)} {'was' if count == 1 else 'were'} left where "
                f"{'it is' if count == 1 else 'they are'}."
            )


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
