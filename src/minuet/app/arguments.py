"""What may be passed to the facade: one rule for each argument, checked before anything happens.

`checked` finds the rule of every parameter in `RULES` when a class is defined, so a public
method with an argument that has no rule cannot be written. An argument that breaks its rule raises
InputError (ConfigError for the options of a constructor) that says which argument it is, what it
was and what is expected. A rule may also turn a value into what the method works with: any
iterable of inputs becomes a list.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, cast, get_args

import msgspec

from minuet.app.compiling import CompiledWorkflow
from minuet.app.roles import ROLES
from minuet.bridge.values import encode_value
from minuet.errors import ConfigError, InputError, MinuetError, OutputError
from minuet.model import Document, DocumentSource
from minuet.plan.plan import Plan, Retry
from minuet.store.records import LEASE_MS_MAX, RESERVED_SIGNAL, Run
from minuet.telemetry.observer import Observer, Tracer
from minuet.types import RunStatus

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Characters of names: idempotency keys, tenants, queues, workers, executors, workflows, nodes.
NAME_LENGTH_MAX = 255

#: Characters of a reason.
REASON_LENGTH_MAX = 1_000

#: Characters of what a person says about a decision.
COMMENTS_LENGTH_MAX = 10_000

#: Tags of a run, characters of a tag's name, and bytes of its value as JSON.
TAGS_MAX = 50
TAG_LENGTH_MAX = 100
TAG_BYTES_MAX = 1_000

#: A tag of a workflow.
TAG = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

#: Runs in one page, and inputs in one call of `start_many`.
PAGE_MAX = 10_000

#: Parts of a histogram.
BUCKETS_MAX = 500

#: Most ids in one call that goes through them one by one.
IDS_MAX = 1_000_000
START_MAX = 100_000

#: Longest duration in seconds: about thirty years.
SECONDS_MAX = 1_000_000_000

#: Largest number of an event.
SEQ_MAX = 2**31 - 1

STATUSES: tuple[str, ...] = get_args(RunStatus)


class InvalidArgument(Exception):
    """A value breaks its rule; the message says what was expected."""


#: Returns the value to use, or raises InvalidArgument.
Rule = Callable[[Any], Any]


def is_storable(name: str) -> bool:
    """Whether every store can hold this text. Documents are read with the same care."""
    if name.isascii():
        return "\0" not in name
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


# ── kinds of rules ──────────────────────────────────────────────────────────────────────────


def anything(value: Any) -> Any:
    """Checked elsewhere, or used unchanged."""
    return value


def optional(rule: Rule) -> Rule:
    """None, or what the rule says."""

    def check(value: Any) -> Any:
        return None if value is None else rule(value)

    return check


def text(length_max: int) -> Rule:
    """Text that every store can hold."""
    expected = f"expected text of 1 to {length_max:,} characters"

    def check(value: Any) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= length_max:
            raise InvalidArgument(expected)
        if not is_storable(value):
            raise InvalidArgument(
                "expected text without U+0000 and without halves of surrogate pairs"
            )
        # A subclass (such as an enum's member) becomes plain text here.
        return str.__str__(value)

    return check


def any_text(value: Any) -> str:
    """Text to search by: what no store can hold is not found."""
    if not isinstance(value, str):
        raise InvalidArgument("expected text")
    return str.__str__(value)


def whole(least: int, most: int) -> Rule:
    """A whole number; True and False are not numbers."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InvalidArgument(f"expected a whole number from {least:,} to {most:,}")
        return int(value)

    return check


def seconds(least: float = 0.0, most: float = SECONDS_MAX) -> Rule:
    """A duration: a number of seconds, or a timedelta."""

    def check(value: Any) -> float:
        if isinstance(value, timedelta):
            value = value.total_seconds()
        wrong = isinstance(value, bool) or not isinstance(value, int | float)
        # Not a number compares as false, and infinity is larger than anything.
        if wrong or not least <= value <= most:
            raise InvalidArgument(f"expected a number of seconds from {least:g} to {most:,.0f}")
        return cast(float, value)

    return check


def rate(value: Any) -> float:
    """How many of something in a second."""
    wrong = isinstance(value, bool) or not isinstance(value, int | float)
    if wrong or not 0.001 <= value <= 1_000_000:
        raise InvalidArgument("expected a number from 0.001 to 1,000,000")
    return cast(float, value)


def one_of(*allowed: str) -> Rule:
    """One of a few words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise InvalidArgument(f"expected one of {', '.join(allowed)}")
        return value

    return check


def instance(*kinds: type[Any]) -> Rule:
    """An object of one of these types."""

    def check(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise InvalidArgument(f"expected {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return check


def several(rule: Rule, most: int = PAGE_MAX) -> Rule:
    """A list, tuple or other iterable of values. One text is not a list of its characters."""

    def check(value: Any) -> list[Any]:
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            raise InvalidArgument("expected a list")
        items = list(itertools.islice(value, most + 1))
        if len(items) > most:
            raise InvalidArgument(f"expected a list of at most {most:,}")
        checked = []
        for number, item in enumerate(items):
            try:
                checked.append(rule(item))
            except InvalidArgument as wrong:
                raise InvalidArgument(f"{wrong} at position {number}") from None
        return checked

    return check


def by_name(rule: Rule) -> Rule:
    """A mapping of names to values."""

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise InvalidArgument("expected a mapping of names to values")
        checked = {}
        for name, one in value.items():
            try:
                checked[_NAME(name)] = rule(one)
            except InvalidArgument as wrong:
                raise InvalidArgument(f"{wrong} at {name!r:.100}") from None
        return checked

    return check


def json_object(value: Any) -> dict[str, Any]:
    """A mapping whose values are JSON, as the store will return it."""
    if not isinstance(value, Mapping):
        raise InvalidArgument("expected a mapping of names to JSON values")
    try:
        data = encode_value(dict(value))
    except OutputError as error:
        raise InvalidArgument(f"expected JSON: {error}") from None
    decoded: dict[str, Any] = msgspec.json.decode(data)
    return decoded


def tags(value: Any) -> dict[str, Any]:
    """A few small values by name."""
    found = json_object(value)
    name_rule = text(TAG_LENGTH_MAX)
    if len(found) > TAGS_MAX:
        raise InvalidArgument(f"expected at most {TAGS_MAX} tags")
    for name, item in found.items():
        try:
            name_rule(name)
        except InvalidArgument as wrong:
            raise InvalidArgument(f"{wrong} as the name of a tag") from None
        if len(msgspec.json.encode(item)) > TAG_BYTES_MAX:
            raise InvalidArgument(
                f"expected values of at most {TAG_BYTES_MAX:,} bytes of JSON ({name!r})"
            )
    return found


def maybe_empty(length_max: int) -> Rule:
    """Text that every store can hold, or none."""
    rule = text(length_max)
    return lambda value: "" if value == "" else rule(value)


def tag(value: Any) -> str:
    """The name of a tag. It begins with a letter, so that it cannot be taken for a number."""
    if not isinstance(value, str) or TAG.fullmatch(value) is None:
        raise InvalidArgument(
            "expected a tag: a letter (a-z, A-Z), and up to 63 more letters, digits, _, - or ."
        )
    return str.__str__(value)


def secrets(value: Any) -> Any:
    """A provider of secrets, or None."""
    if value is None or callable(getattr(value, "get", None)):
        return value
    raise InvalidArgument("expected an object with a method get(name)")


def workflow(value: Any) -> Any:
    """Anything that a workflow can be read from."""
    kinds = (str, os.PathLike, Mapping, Document, DocumentSource, CompiledWorkflow)
    if not isinstance(value, kinds):
        raise InvalidArgument(
            "expected a file's path, a document as text or as a mapping, a Workflow, the name of a "
            "deployed workflow, or a compiled workflow"
        )
    return value


def store(value: Any) -> Any:
    """A store's URL, or a store."""
    if not isinstance(value, str) and not hasattr(value, "exchange"):
        raise InvalidArgument("expected a store's URL, or a store")
    return value


# ── the table ───────────────────────────────────────────────────────────────────────────────

_NAME = text(NAME_LENGTH_MAX)


def _signal_name(value: Any) -> str:
    name: str = _NAME(value)
    if name.startswith(RESERVED_SIGNAL):
        raise InvalidArgument(f"expected text that does not begin with {RESERVED_SIGNAL!r}")
    return name


_STATUSES = several(one_of(*STATUSES))

#: By the parameter's name, or by `Class.method.parameter` where one name has two meanings.
RULES: dict[str, Rule] = {
    # Starting.
    "source": workflow,
    "workflow": workflow,
    "input": anything,  # encoded, and then checked by the workflow's schema
    "inputs": several(anything, START_MAX),
    "idempotency_key": optional(_NAME),
    "idempotency_keys": optional(several(optional(_NAME), START_MAX)),
    "tags": optional(tags),
    "limits": optional(json_object),
    "timeout": optional(seconds()),
    # Deploying.
    "tag": tag,
    "message": maybe_empty(REASON_LENGTH_MAX),
    "by": maybe_empty(NAME_LENGTH_MAX),
    # Naming what is there.
    "run_id": any_text,
    "node": any_text,
    "text": any_text,
    "digest": _NAME,
    "Questions.program.run_id": _NAME,
    "Workflows.get.name": any_text,
    "Workflows.tag.name": any_text,
    "Workflows.list.after": any_text,
    "run_ids": several(any_text),
    "tenants": optional(several(_NAME)),
    "older_than": seconds(),
    "grace": seconds(),
    "Workers.drain.worker": any_text,
    "Workers.tasks.worker": any_text,
    "Workers.leases.worker": optional(any_text),
    "Statistics.statistics.workflow": optional(any_text),
    "Doctor.check.limit": whole(1, 1_000),
    "Workers.remove.worker": any_text,
    "Workers.wait_ended.worker": any_text,
    "run": instance(Run),
    "runs": several(instance(Run)),
    "plan": instance(Plan),
    # Changing.
    "dry_run": instance(bool),
    "action": one_of("cancel", "pause", "resume", "retry", "delete"),
    "Runs.preview.action": one_of(
        *("cancel", "pause", "resume", "retry", "rollback", "signal"),
        *("skip", "set_output", "take_back", "approve", "reject"),
    ),
    "Runs.preview.node": optional(any_text),
    "Runs.preview.name": optional(lambda value: _signal_name(value)),
    "reason": text(REASON_LENGTH_MAX),
    "to": optional(any_text),
    "undone": instance(bool),
    "seq": optional(whole(0, SEQ_MAX)),
    "Runs.signal.name": _signal_name,
    "Runs.signal.idempotency_key": optional(_signal_name),
    "data": anything,  # encoded
    # Deciding.
    "id": any_text,
    "decision": any_text,
    "Approvals.approve.by": _NAME,
    "Approvals.reject.by": _NAME,
    "Approvals.decide.by": _NAME,
    "comments": maybe_empty(COMMENTS_LENGTH_MAX),
    "groups": several(_NAME),
    "Approvals.list.run_id": optional(any_text),
    "Approvals.list.after": optional(any_text),
    "Approvals.list.status": optional(one_of("pending", "decided", "timeout", "cancelled")),
    # API keys.
    "Keys.create.name": _NAME,
    "roles": several(one_of(*ROLES)),
    "trusted": instance(bool),
    "expires_seconds": optional(seconds(1)),
    "Audit.list.after": optional(any_text),
    # Asking.
    "after": whole(0, SEQ_MAX),
    "at": optional(whole(1, SEQ_MAX)),
    "upto": optional(whole(0, SEQ_MAX)),
    "limit": whole(1, PAGE_MAX),
    "levels": whole(1, PAGE_MAX),
    "query": any_text,
    "buckets": whole(1, BUCKETS_MAX),
    "statuses": lambda value: tuple(_STATUSES(value)),
    "before": optional(any_text),
    "Questions.instances.node": optional(any_text),
    "Logs.logs.node": optional(any_text),
    "Logs.follow_logs.node": optional(any_text),
    "Finder.list.workflow": optional(any_text),
    "DeadLetters.list.run_id": optional(any_text),
    "DeadLetters.list.after": optional(any_text),
    "DeadLetters.ids.run_id": optional(any_text),
    "DeadLetters.group.run_id": optional(any_text),
    "node_id": optional(any_text),
    "DeadLetters.list.queue": optional(any_text),
    "DeadLetters.ids.queue": optional(any_text),
    "DeadLetters.group.queue": optional(any_text),
    "fingerprint": optional(any_text),
    "DeadLetters.retry.ids": several(any_text, IDS_MAX),
    "per_second": optional(rate),
    "config": json_object,
    "why": maybe_empty(REASON_LENGTH_MAX),
    "generation": optional(whole(1, SEQ_MAX)),
    "status": optional(one_of("pending", "reprocessed", "discarded")),
    # Options of an App.
    "store": optional(store),
    "blobs": optional(instance(str)),
    # Of `app.blobs`, which checks them itself.
    "Blobs.put.source": anything,
    "Blobs.read.reference": anything,
    "Blobs.read.run_id": optional(any_text),
    "tenant": _NAME,
    "handlers": several(instance(str, ModuleType)),
    "egress_allow": several(any_text),
    "egress_private": instance(bool),
    "llm_prices": optional(any_text),
    "worker": instance(bool),
    "own_runs_only": instance(bool),
    "concurrency": whole(1, 100_000),
    "lease_seconds": seconds(0.001, LEASE_MS_MAX / 1000),
    "lease_seconds_by_queue": by_name(seconds(0.001, LEASE_MS_MAX / 1000)),
    "drain_seconds": seconds(),
    "cancel_seconds": seconds(),
    "crashes_max": whole(0, 1_000_000),
    "retry": optional(instance(Retry)),
    "queues": optional(several(_NAME)),
    "name": optional(_NAME),
    "capabilities": optional(json_object),
    "executors": several(_NAME),
    "heartbeat_seconds": seconds(0.001),
    "stale_seconds": seconds(),
    "dead_seconds": seconds(),
    "stall_seconds": seconds(),
    "log_bytes": whole(0, 100_000_000),
    "log_retention_seconds": seconds(),
    "watch_runs": optional(instance(bool)),
    "tune_process": instance(bool),
    "observer": optional(instance(Observer)),
    "tracer": optional(instance(Tracer)),
    "webhooks": several(any_text),
    "webhook_give_up_seconds": seconds(0.001),
    "public_url": any_text,
    "clock": anything,
    "ids": anything,
    "secrets": secrets,
}


def checked(
    method: Callable[Parameters, Result], *, like: Callable[..., Any] | None = None
) -> Callable[Parameters, Result]:
    """Have every argument of a public method checked; see `RULES`. One that overrides another is
    checked `like` that one."""
    signature = inspect.signature(method)
    whose = method.__qualname__ if like is None else like.__qualname__
    named = [p for p in list(signature.parameters.values())[1:] if p.kind is not p.VAR_KEYWORD]
    rules = {p.name: RULES.get(f"{whose}.{p.name}") or RULES[p.name] for p in named}
    has_rest = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    positions = [rules[p.name] for p in named if p.kind is p.POSITIONAL_OR_KEYWORD]
    names = [p.name for p in named]
    error = ConfigError if method.__name__ == "__init__" else None

    def check(name: str, value: Any, rule: Rule) -> Any:
        try:
            return rule(value)
        except InvalidArgument as wrong:
            raise _refusal(name, value, str(wrong), error) from None

    def check_all(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments to call the method with; `keywords` are replaced in place. Those that do
        not fit the method are left to the call itself, which refuses them."""
        given = arguments[:1]
        for name, value, rule in zip(names, arguments[1:], positions, strict=False):
            given += (check(name, value, rule),)
        for name, value in keywords.items():
            # One without a rule is not an option; the method's constructor refuses it.
            other = RULES.get(name, anything) if has_rest else anything
            keywords[name] = check(name, value, rules.get(name, other))
        return given + arguments[len(given) :]

    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def call_async(*arguments: Any, **keywords: Any) -> Any:
            return await method(*check_all(arguments, keywords), **keywords)

        return cast(Callable[Parameters, Result], call_async)

    @functools.wraps(method)
    def call(*arguments: Any, **keywords: Any) -> Any:
        return method(*check_all(arguments, keywords), **keywords)

    return cast(Callable[Parameters, Result], call)


def _refusal(name: str, value: Any, expected: str, error: type[ConfigError] | None) -> MinuetError:
    message = f"{name}: {expected}, got {describe(value)}"
    return error(message) if error else InputError([message], argument=name)


def describe(value: Any) -> str:
    """A value in a message: short, and safe even if its `repr` raises."""
    try:
        shown = repr(value)
    except Exception:
        shown = "a value that cannot be shown"
    shown = shown.encode("ascii", "backslashreplace").decode()
    if len(shown) > 80:
        shown = (
            f"{shown[:79]}… ({len(value):,} long)" if isinstance(value, str) else shown[:79] + "…"
        )
    return f"{shown} ({type(value).__name__})"
