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
from collections.abc import Callable
from types import ModuleType
from typing import Any, ParamSpec, TypeVar, cast

from minuet.app.actions import BULK_ACTIONS, PREVIEW_ACTIONS
from minuet.app.argument_rules import (
    BUCKETS_MAX,
    COMMENTS_LENGTH_MAX,
    IDS_MAX,
    NAME_LENGTH_MAX,
    PAGE_MAX,
    REASON_LENGTH_MAX,
    SEQ_MAX,
    START_MAX,
    InvalidArgument,
    Rule,
    any_text,
    anything,
    by_name,
    instance,
    json_object,
    maybe_empty,
    one_of,
    optional,
    rate,
    seconds,
    secrets,
    several,
    store,
    tag,
    tags,
    text,
    whole,
    workflow,
)
from minuet.app.roles import ROLES
from minuet.errors import ConfigError, InputError, MinuetError
from minuet.plan.plan import Plan, Retry
from minuet.store.records import LEASE_MS_MAX, RESERVED_SIGNAL, Run
from minuet.telemetry.observer import Observer, Tracer
from minuet.types import STATUSES

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

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
    "Workflows.delete.name": any_text,
    "Workflows.list.after": any_text,
    "run_ids": several(any_text),
    "tenants": optional(several(_NAME)),
    "older_than": seconds(),
    "grace": seconds(),
    "audit_older_than": optional(seconds()),
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
    "action": one_of(*BULK_ACTIONS),
    "Runs.preview.action": one_of(*PREVIEW_ACTIONS),
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
