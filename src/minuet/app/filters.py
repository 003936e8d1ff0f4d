"""Filters for runs, as text that people write and keep: `status:failed workflow:order age<1h acme`.

All words must fit. A word is a term (`KEY:VALUE`, `age<1h`, `took>5s`) or a text to look for; `-`
before it means that it must not fit. Quotes keep spaces: `error:"no card"`. Commas separate
alternatives: `status:failed,cancelled`; `*` in a value stands for anything: `workflow:order*`.
Everything that filters runs takes this text, so a filter means the same everywhere. This module
reads and applies it; `search` finds the runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import msgspec

from minuet.errors import InputError
from minuet.store.records import Run
from minuet.types import ENDED, OPEN, STATUSES, TERMINAL, RunStatus

#: Longest filter.
LENGTH_MAX = 2_000

#: The latest moment: in the year 9987.
MOMENT_MAX = 253_000_000_000_000

#: Milliseconds of the units of durations.
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

#: What `is:` can ask.
KINDS = ("open", "over", "child", "stalled")

#: Terms whose values are compared with a text of the run.
TEXTS = ("run", "workflow", "parent", "by", "error", "input", "output")

KEYS = ("status", "is", "tag", "since", "until", *TEXTS)
NUMBERS = ("age", "took")

_WORD = re.compile(
    r"""(?P<not>-)?
    (?:(?P<key>[a-z]+)(?P<op>:|<=|>=|<|>))?
    (?P<value>(?:"(?:[^"\\]|\\.)*"|[^\s"])+)""",
    re.VERBOSE,
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d|w)")


class Term(msgspec.Struct, frozen=True):
    """A part of a filter. `key` is "" for a text that may be anywhere."""

    key: str
    values: tuple[str, ...]
    negated: bool = False


class RunFilter(msgspec.Struct, frozen=True, dict=True):
    """A filter that was read, with its times as moments."""

    terms: tuple[Term, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    #: How long a run took, or has taken so far.
    took_min_ms: int | None = None
    took_max_ms: int | None = None
    #: When it was read.
    now_ms: int = 0

    @cached_property
    def statuses(self) -> tuple[RunStatus, ...]:
        """The statuses that can fit; perhaps all of them, or none."""
        return tuple(one for one in STATUSES if all(_allows(term, one) for term in self.terms))

    @cached_property
    def workflow(self) -> str | None:
        """The only workflow that can fit, if a store can look for it."""
        for term in self.terms:
            if term.key == "workflow" and not term.negated and len(term.values) == 1:
                (name,) = term.values
                if "*" not in name and "@" not in name:
                    return _literal(name)
        return None

    @cached_property
    def parent(self) -> str | None:
        """The only run whose children can fit."""
        for term in self.terms:
            if term.key == "parent" and not term.negated and len(term.values) == 1:
                return term.values[0]
        return None

    @cached_property
    def wants_stalled(self) -> bool:
        """Whether only runs that stall can fit."""
        return any(t.key == "is" and t.values == ("stalled",) and not t.negated for t in self.terms)

    def fits_row(self, run: Run) -> list[Term] | None:
        """What remains to be found in the run's output; None: it does not fit."""
        if self.since_ms is not None and run.created_ms < self.since_ms:
            return None
        if self.until_ms is not None and run.created_ms > self.until_ms:
            return None
        took_ms = (run.ended_ms or self.now_ms) - run.created_ms
        if self.took_min_ms is not None and took_ms < self.took_min_ms:
            return None
        if self.took_max_ms is not None and took_ms > self.took_max_ms:
            return None
        left = []
        for term in self.terms:
            if term.key == "output":
                left.append(term)
            elif term.key == "":
                found = any(_is_in_row(value, run) for value in term.values)
                if found and term.negated:
                    return None
                if not found:
                    left.append(term)
            elif _fits(term, run) is term.negated:
                return None
        if run.status != "COMPLETED":  # It has no output.
            return [] if all(term.negated for term in left) else None
        return left


def fits_output(terms: Iterable[Term], output: Any) -> bool:
    """Whether what is left of a filter fits the output of a run."""
    text = msgspec.json.encode(output).decode().lower()
    return all(
        any(_literal(value).lower() in text for value in term.values) is not term.negated
        for term in terms
    )


def read_filter(text: str, now_ms: int) -> RunFilter:
    """Read a filter; InputError with all its problems."""
    if len(text) > LENGTH_MAX:
        raise InputError([f"q: expected at most {LENGTH_MAX:,} characters"], argument="q")
    problems: list[str] = []
    terms: list[Term] = []
    bounds: dict[str, int] = {}
    for match in _words(text, problems):
        key, op, negated = match["key"] or "", match["op"] or "", bool(match["not"])
        if key in NUMBERS and op != ":":
            _bound(key, op, match["value"], negated, now_ms, bounds, problems)
        elif key in KEYS and op == ":":
            if key in ("since", "until"):
                at_ms = _moment(match["value"], now_ms)
                if at_ms is None or negated:
                    problems.append(
                        f"q: {match[0]}: expected a duration such as 45m, or a time such as "
                        "2026-11-17 or 2026-11-17T08:00:00Z"
                    )
                else:
                    _narrow(bounds, key, at_ms)
                continue
            values = tuple(_plain(value) for value in _alternatives(match["value"]))
            terms.append(Term(key, _known(key, values, negated, problems), negated))
        else:
            _check_meant(key, op, problems)
            whole = match[0][1:] if negated else match[0]
            terms.append(Term("", (_plain(whole),), negated))
    if problems:
        raise InputError(problems, argument="q")
    return RunFilter(
        tuple(terms),
        bounds.get("since"),
        bounds.get("until"),
        bounds.get("took_min"),
        bounds.get("took_max"),
        now_ms,
    )


def make_query(
    text: str = "",
    *,
    statuses: Iterable[str] = (),
    workflow: str | None = None,
    tag: str | None = None,
    parent: str | None = None,
    since: str | None = None,
    until: str | None = None,
    stalled: bool = False,
) -> str:
    """A filter of a text and of options that say a part of it each."""
    words = [text.strip()] if text.strip() else []
    named = list(statuses)
    words += [f"status:{','.join(named)}"] if named else []
    given = {"workflow": workflow, "tag": tag, "parent": parent, "since": since, "until": until}
    words += [f"{key}:{quoted(value)}" for key, value in given.items() if value is not None]
    words += ["is:stalled"] if stalled else []
    return " ".join(words)


def quoted(text: str) -> str:
    """A text as a value that stands for itself."""
    if re.fullmatch(r"[\w@./:+-]+", text):
        return text
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def _words(text: str, problems: list[str]) -> list[re.Match[str]]:
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _WORD.match(text, at)
        if match is None:
            problems.append(f"q: a quotation mark at character {at + 1} has no end")
            break
        found.append(match)
        at = match.end()
    return found


def _alternatives(value: str) -> list[str]:
    """The parts of a value between commas that are not quoted."""
    parts = re.findall(r'((?:"(?:[^"\\]|\\.)*"|[^,"])+)', value)
    return parts or [value]


def _plain(value: str) -> str:
    """A value without its quotes. A star that was quoted stands for itself."""
    inner = re.compile(r"\\(.)")

    def unquote(match: re.Match[str]) -> str:
        return inner.sub(r"\1", match[1]).replace("*", "\0")

    return _QUOTED.sub(unquote, value)


def _known(
    key: str, values: tuple[str, ...], negated: bool, problems: list[str]
) -> tuple[str, ...]:
    """The values of a term as they are compared."""
    if key == "status":
        values = tuple(value.upper() for value in values)
        allowed = (*STATUSES, "OPEN", "OVER")
    elif key == "is":
        values = tuple(value.lower() for value in values)
        allowed = KINDS
    else:
        return values
    wrong = [value for value in values if value not in allowed]
    if wrong:
        words = ", ".join(allowed).lower()
        problems.append(f"q: {key}:{wrong[0].lower()}: expected one of {words}")
    elif "stalled" in values and (negated or len(values) > 1):
        problems.append("q: is:stalled stands alone, and without -")
    return values


def _check_meant(key: str, op: str, problems: list[str]) -> None:
    """A word that looks like a term and is none is a text, unless a key was misspelt."""
    known = (*KEYS, *NUMBERS)
    if key in NUMBERS:
        problems.append(f"q: {key}: expected {key}< or {key}>, as in {key}<1h")
    elif key in KEYS:
        problems.append(f"q: {key}{op}: expected {key}:")
    elif key and (meant := difflib.get_close_matches(key, known, 1, 0.75)):
        problems.append(
            f"q: {key}{op}: did you mean {meant[0]}? To look for the text, put it into quotes"
        )


def _bound(
    key: str,
    op: str,
    value: str,
    negated: bool,
    now_ms: int,
    bounds: dict[str, int],
    problems: list[str],
) -> None:
    span = _duration(_plain(value))
    if span is None:
        problems.append(f"q: {key}{op}{value}: expected a duration such as 90s, 45m, 12h or 30d")
        return
    is_less = (op[0] == "<") is not negated
    if key == "took":
        _narrow(bounds, "took_max" if is_less else "took_min", span)
    else:
        _narrow(bounds, "since" if is_less else "until", now_ms - span)


def _narrow(bounds: dict[str, int], name: str, value: int) -> None:
    value = min(max(value, 0), MOMENT_MAX)
    choose = max if name in ("since", "took_min") else min
    bounds[name] = choose(bounds.get(name, value), value)


def _duration(text: str) -> int | None:
    match = _DURATION.fullmatch(text)
    return None if match is None else int(match[1]) * UNITS[match[2]]


def _moment(text: str, now_ms: int) -> int | None:
    text = _plain(text)
    span = _duration(text)
    if span is not None:
        return now_ms - span
    try:
        found = datetime.fromisoformat(text)
        aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return int(aware.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


# ── applying ────────────────────────────────────────────────────────────────────────────────


def _statuses_of(term: Term) -> set[RunStatus] | None:
    """The statuses that a term names, if it is about them."""
    if term.key == "status":
        found: set[RunStatus] = set()
        for value in term.values:
            if value in ("OPEN", "OVER"):
                found |= _group(value.lower())
            else:
                found.add(value)  # type: ignore[arg-type]
        return found
    if term.key == "is" and set(term.values) <= {"open", "over"}:
        return set().union(*(_group(value) for value in term.values))
    return None


def _allows(term: Term, status: RunStatus) -> bool:
    named = _statuses_of(term)
    return named is None or (status in named) is not term.negated


def _group(name: str) -> set[RunStatus]:
    return set(OPEN if name == "open" else ENDED)


def _fits(term: Term, run: Run) -> bool:
    """Whether one of a term's values fits a run."""
    statuses = _statuses_of(term)
    if statuses is not None:
        return run.status in statuses
    if term.key == "is":
        kinds = {"child": run.parent is not None, "open": run.status not in TERMINAL}
        kinds |= {"over": run.status in TERMINAL, "stalled": True}  # Stalls are found later.
        return any(kinds[value] for value in term.values)
    if term.key == "tag":
        return any(_has_tag(value, run) for value in term.values)
    if term.key == "workflow":
        names = (run.workflow, f"{run.workflow}@{run.version}", f"{run.workflow}@{run.tag}")
        return any(_is_like(value, name) for value in term.values for name in names)
    if term.key == "run":
        return any(run.run.startswith(_literal(value)) for value in term.values)
    if term.key == "parent":
        return any(_is_like(value, run.parent or "") for value in term.values)
    if term.key == "by":
        return any(_is_like(v, str(run.tags.get("submitted_by") or "")) for v in term.values)
    texts = {"error": _error_text, "input": _input_text}
    text = texts[term.key](run).lower()
    return any(_literal(value).lower() in text for value in term.values)


def _has_tag(value: str, run: Run) -> bool:
    """`main`: the run was started by this tag of its workflow. `name:value`: it has this tag."""
    name, colon, wanted = value.partition(":")
    if not colon:
        return _is_like(value, run.tag or "")
    found = run.tags.get(_literal(name))
    return found is not None and _is_like(wanted, found if isinstance(found, str) else str(found))


def _is_like(pattern: str, text: str) -> bool:
    if "*" not in pattern:
        return _literal(pattern) == text
    regex = ".*".join(re.escape(_literal(part)) for part in pattern.split("*"))
    return re.fullmatch(regex, text, re.DOTALL) is not None


def _literal(value: str) -> str:
    """A value in which every star stands for itself."""
    return value.replace("\0", "*")


def _is_in_row(value: str, run: Run) -> bool:
    """Whether a text is somewhere in a run's row."""
    wanted = _literal(value).lower()
    if wanted in run.run or wanted in run.workflow.lower():
        return True
    if run.tags and wanted in msgspec.json.encode(run.tags).decode().lower():
        return True
    if wanted in (run.tag or "").lower() or wanted in (run.parent or ""):
        return True
    return wanted in _error_text(run).lower() or wanted in _input_text(run).lower()


def _error_text(run: Run) -> str:
    if not run.error:
        return ""
    return " ".join(str(one) for one in run.error.values() if isinstance(one, str))


def _input_text(run: Run) -> str:
    return run.input.decode("utf-8", "replace")
