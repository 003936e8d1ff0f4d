"""`minuet simulate`: what can happen to a workflow, tried in simulated worlds.

The same command line prints the same, byte for byte: nothing here depends on time or machine.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec

from minuet import outcomes
from minuet.app.app import Facade
from minuet.app.compiling import compile_source, encode_input, is_name
from minuet.app.handlers import make_handlers
from minuet.app.workflows import WorkflowView
from minuet.cli.handlers import load_handlers
from minuet.cli.history import describe_event
from minuet.cli.inputs import file_and_input, read_input
from minuet.cli.output import brief, clean, note, print_json
from minuet.cli.parser import UsageError
from minuet.cli.problems import print_diagnostics
from minuet.cli.settings import settle
from minuet.cli.sources import find_source, python_file
from minuet.cli.stores import check_names, with_app
from minuet.errors import ConfigError
from minuet.events import encode_event
from minuet.rehearsal.findings import Finding
from minuet.rehearsal.report import Rehearsal, Report
from minuet.rehearsal.stage import Line, Seen

COMMAND = "minuet simulate"

#: How often progress is printed as plain lines, in parts of the whole.
LINES = 10


def simulate(arguments: Namespace) -> int:
    """Play the seeds, and report."""
    file, values = file_and_input(arguments)
    if arguments.stubs and not arguments.handlers:
        raise UsageError(COMMAND, "--stubs says what to do with --handlers, and there are none")
    if arguments.seed is not None and arguments.start:
        raise UsageError(COMMAND, "--seed is one seed, --start the first of many: give one of them")
    handlers = make_handlers(load_handlers(arguments.handlers)) if arguments.handlers else None
    is_deployed = is_name(file) and python_file(file) is None
    source = _read_deployed(file, arguments) if is_deployed else find_source(file)
    workflow = compile_source(source, handlers=None if arguments.stubs else handlers)
    print_diagnostics(file, workflow.warnings)
    value = read_input(values)
    if values:
        encode_input(workflow.plan, value)
    rehearsal = Rehearsal(
        workflow,
        input=value,
        draw_input=not values,
        handlers=handlers,
        stubs=arguments.stubs,
        without=tuple(sorted(set(arguments.without))),
        printed=sys.stderr if arguments.seed is not None else None,
    )
    if handlers is None:
        _note_beside(python_file(file) or file)
    if arguments.seed is not None:
        report = _play_one(rehearsal, arguments)
    else:
        report = _play_many(rehearsal, arguments)
    failed = report.fails or (arguments.strict and report.findings)
    return outcomes.FAILED if failed else outcomes.COMPLETED


def _read_deployed(name: str, arguments: Namespace) -> dict[str, Any]:
    """The document of a deployed workflow."""
    arguments.store = arguments.registry
    settle(arguments)
    check_names(arguments.store, name)

    async def ask(app: Facade) -> WorkflowView:
        return await app.workflows.get(name)

    view = with_app(arguments, ask)
    if view.document is None:
        raise ConfigError(
            f"the store has lost the document of {name!r}: deploy the same file again"
        )
    return view.document


def _note_beside(file: str) -> None:
    beside = Path(file).with_suffix(".py")
    if beside.is_file():
        note(
            f"handlers are stubs; to run those in {beside}: --handlers {beside}, "
            "to take only what they declare: --stubs as well"
        )


def _play_many(rehearsal: Rehearsal, arguments: Namespace) -> Report:
    as_json = arguments.output == "json"
    progress = Ticker(arguments.seeds, quiet=as_json)
    seeds = range(arguments.start, arguments.start + arguments.seeds)
    try:
        report = rehearsal.play_all(seeds, progress.tick)
    finally:
        progress.close()
    if as_json:
        print_json(_record(report))
    else:
        print(_summary(report))
        _print_findings(report.findings)
    return report


def _play_one(rehearsal: Rehearsal, arguments: Namespace) -> Report:
    played: list[Seen] = []
    report = rehearsal.play_all([arguments.seed], lambda seen, _: played.append(seen))
    (seen,) = played
    if arguments.output == "json":
        record = _record(report)
        record["scenario"] = msgspec.to_builtins(seen.scenario)
        record["input"] = seen.input
        record["story"] = [_story_record(line) for line in seen.story]
        print_json(record)
        return report
    print(f"{clean(report.workflow)}, seed {seen.seed}, input {brief(seen.input)}")
    for line in seen.story:
        print(_story_line(line))
    print()
    print(_summary(report))
    _print_findings(report.findings)
    return report


# ── progress ────────────────────────────────────────────────────────────────────────────────


class Ticker:
    """Progress: one line that changes on a terminal, a few plain lines anywhere else."""

    def __init__(self, seeds: int, *, quiet: bool) -> None:
        self._seeds = seeds
        self._done = 0
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_quiet = quiet and not self._is_live
        self._shown = False

    def tick(self, seen: Seen, findings: int) -> None:
        """A seed has been played."""
        self._done += 1
        text = f"{self._done} of {self._seeds} seeds, {_count(findings, 'finding')}"
        if self._is_live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._shown = True
        elif not self._is_quiet and (
            self._done % -(-self._seeds // LINES) == 0 or self._done == self._seeds
        ):
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Leave the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


# ── the report ──────────────────────────────────────────────────────────────────────────────


def _summary(report: Report) -> str:
    first = report.start or 0
    last = first + report.seeds - 1
    which = f"seed {first}" if first == last else f"{report.seeds} seeds ({first} to {last})"
    ends = ", ".join(f"{count} {end}" for end, count in report.ends.items())
    errors = sum(found.severity == "error" for found in report.findings)
    warnings = len(report.findings) - errors
    seen = f"{report.turns_taken} of {report.turns} turns taken"
    found = f"{_count(errors, 'error')}, {_count(warnings, 'warning')}"
    return f"{clean(report.workflow)}: {which}: {ends}; {seen}; {found}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _print_findings(findings: list[Finding]) -> None:
    """What was found, with the seed that shows it; a hint that several share comes once."""
    for _, group in groupby(findings, key=lambda f: (f.severity, f.code, f.hint)):
        print()
        found = list(group)
        for finding in found:
            where = f"{finding.node}: " if finding.node else ""
            shown = "" if finding.seed is None else f" ({_seeds_text(finding)})"
            head = f"{finding.severity}[{finding.code}]: {where}{finding.message}{shown}"
            print(clean(head))
        if found[0].hint:
            print(clean(f"  hint: {found[0].hint}"))
    if any(finding.seed is not None for finding in findings):
        print("\nTo see how it comes about, add --seed and the number to the same command line.")


def _seeds_text(finding: Finding) -> str:
    more = finding.seeds - 1
    return f"seed {finding.seed}" + (f" and {more} more" if more else "")


def _record(report: Report) -> dict[str, Any]:
    record: dict[str, Any] = msgspec.to_builtins(report)
    return {"ok": not report.fails, **record}


def _story_line(line: Line) -> str:
    seconds, at_ms, what = line
    if isinstance(what, str):
        return clean(f"{seconds:10.3f}  * {what}")
    described = describe_event(at_ms, what)
    return clean(
        f"{seconds:10.3f}  {described.node or 'run':<20}  {described.state:<9}  {described.text}"
    ).rstrip()


def _story_record(line: Line) -> dict[str, Any]:
    seconds, _, what = line
    if isinstance(what, str):
        return {"at_s": round(seconds, 6), "what": what}
    return {"at_s": round(seconds, 6), "event": msgspec.json.decode(encode_event(what))}
