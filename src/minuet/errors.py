"""Every error that Minuet raises, in one tree.

    MinuetError
    ├── DocumentError          a workflow document has problems (all of them, as diagnostics)
    ├── InputError             a run's input does not fit the workflow's input schema, or an
    │                          argument of a call is of the wrong type or size
    ├── ExpressionError        text inside a document cannot be compiled or evaluated
    │   ├── ConditionError     … in a condition
    │   └── TemplateError      … in a template
    ├── OutputError            a value that is not JSON, or too large or deep to be stored
    ├── InputLimitError        the outputs that a node instance needs are too large together
    ├── SignalTimeoutError     a node waited for a signal, and its time was over
    ├── HandlerError           a handler could not be found or called
    │   └── SecretError        a node reads a secret that it does not declare, or that is not there
    ├── ServiceError           a service that a node called did not do what it was asked
    │   ├── ServiceUnavailableError   … but may do it later (Retryable)
    │   └── ServiceRefusedError       … and would not the next time (NonRetryable)
    │       ├── EgressError           its address may not be reached from here
    │       └── AgentError            an agent came to one of its limits, or to no result
    ├── WebhookError           a webhook that came is not signed as it must be, or is too old
    ├── RunError               about one run
    │   ├── DamagedRowError    what the store holds of it cannot be read
    │   ├── RunNotFoundError
    │   ├── RunConflictError   its state forbids the change, or another call was faster
    │   ├── AmbiguousRunError  several runs have an id that begins like this
    │   ├── StartError         some runs of `start_many` were refused; has all answers
    │   ├── ChildFailedError   the child run of a node did not complete
    │   ├── ChildDepthError    a child run would be too deep
    │   ├── RunFailed          raised by `minuet.run` when a run did not complete
    │   ├── RunTimeoutError    the caller stopped waiting; the run goes on
    │   └── PlayError          a run that `minuet.testing` plays cannot go on
    ├── WorkflowNotFoundError  no deployed workflow has this name, version or tag
    ├── DeadLetterNotFoundError     no dead letter has this id
    ├── RedriveNotFoundError   no redrive of dead letters has this id
    ├── StoreError             the store could not do it
    │   ├── StoreUnavailableError   nothing was written, or it is not known: repeat the call
    │   ├── StoreUnusableError      wrong version, damaged, read-only: do not repeat
    │   ├── PositionError           the change feed cannot go on from this position
    │   ├── BlobError               a blob is missing, damaged or out of reach
    │   └── SessionError            a session the store does not know, or a wrong sequence
    ├── NotOpenError           an App is used before it was opened or after it was closed
    ├── InvariantError         something that must always hold does not: a bug
    └── ConfigError            a setting or option is wrong

    NonRetryable               a handler raises it (or a subclass) to fail without a retry
    Retryable                  a handler raises it to ask for a retry, perhaps `after` seconds

    LeaseLost (BaseException)  raised in a handler whose work is no longer wanted

Errors have typed fields and build their own message; messages are never parsed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from minuet.model.diagnostics import Diagnostic


class MinuetError(Exception):
    """Base of everything that Minuet raises on purpose."""

    #: Stable name of the kind of error: in events, JSON output and documentation.
    code = "error"


class DocumentError(MinuetError):
    """A workflow document has problems."""

    code = "invalid-document"

    def __init__(self, diagnostics: Sequence[Diagnostic], source: str = "<document>") -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        #: The document without the fields that could not be read, if it is valid without them:
        #: then problems of its meaning can be reported as well.
        self.remainder: Any = None
        count = len(self.diagnostics)
        lines = [f"{source}: {count} problem{'s' if count != 1 else ''}"]
        lines += [f"  {d.describe()}" for d in self.diagnostics]
        super().__init__("\n".join(lines))


class InputError(MinuetError):
    """A run's input does not fit the workflow's input schema, or an argument is wrong.

    `argument` is the name of the argument; None: it is about the run's input.
    """

    code = "invalid-input"

    def __init__(self, problems: Sequence[str], *, argument: str | None = None) -> None:
        self.problems = tuple(problems)
        self.argument = argument
        begin = "the input does not fit the workflow: " if argument is None else ""
        super().__init__(begin + "; ".join(self.problems))


class ExpressionError(MinuetError):
    """Text inside a document cannot be compiled or evaluated."""

    code = "expression-error"

    def __init__(self, message: str, *, source: str = "") -> None:
        self.source = source
        shown = source if len(source) <= 200 else source[:200] + "…"
        super().__init__(f"{message}, in {shown!r}" if source else message)


class ConditionError(ExpressionError):
    """A condition cannot be compiled or evaluated."""

    code = "condition-error"


class TemplateError(ExpressionError):
    """A template cannot be compiled or rendered."""

    code = "template-error"


class OutputError(MinuetError):
    """A value that is not JSON, or too large or deep to be stored."""

    code = "invalid-output"


class InputLimitError(MinuetError):
    """The outputs that a node instance needs are too large together."""

    code = "input_limit"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"the outputs that this node needs have {size:,} bytes together, more than the "
            f"{limit:,} allowed; return less from the nodes before it, or keep large data "
            "elsewhere and return where it is"
        )
        self.size, self.limit = size, limit


class SignalTimeoutError(MinuetError):
    """A node waited for a signal, and its time was over before one came."""

    code = "signal_timeout"

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"signal {name!r} did not come within {seconds:g} s")
        self.name, self.seconds = name, seconds


class HandlerError(MinuetError):
    """A handler could not be found or called."""

    code = "handler-error"


class SecretError(HandlerError):
    """A node reads a secret that it does not declare, or that its worker does not have."""

    code = "secret-error"


class CannotWaitError(HandlerError):
    """A node type that waits was run by a worker over HTTP, which cannot keep what it waits for."""

    code = "cannot-wait"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} waits, and a worker over HTTP cannot do that: run it in a worker on the "
            "store (minuet worker --store URL)"
        )


class RunError(MinuetError):
    """About one run."""

    code = "run-error"


class RunNotFoundError(RunError, LookupError):
    """There is no such run (or it belongs to another tenant)."""

    code = "run-not-found"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no run {run_id!r}")


class NodeNotFoundError(RunError, LookupError):
    """The run has no such node, or the node no such instance."""

    code = "node-not-found"


class DamagedRowError(RunError):
    """Something that the store holds of a run cannot be read."""

    code = "damaged_row"

    def __init__(self, run_id: str, what: str, reason: str = "") -> None:
        self.run_id, self.what, self.reason = run_id, what, reason
        because = f" ({reason})" if reason else ""
        super().__init__(
            f"run {run_id}: {what} cannot be read from the store{because}; "
            "`minuet doctor` lists everything that is damaged"
        )


class RunConflictError(RunError):
    """The run's state forbids the change, or another call was faster."""

    code = "run-conflict"

    def __init__(self, run_id: str, message: str, *, status: str = "", seq: int = 0) -> None:
        self.run_id, self.status, self.seq = run_id, status, seq
        super().__init__(f"run {run_id}: {message}")


class ApprovalNotFoundError(RunError, LookupError):
    """There is no approval of this id."""

    code = "approval-not-found"

    def __init__(self, id: str, hint: str = "") -> None:
        self.id = id
        more = f": {hint}" if hint else ""
        super().__init__(f"there is no approval {id!r}{more}")


class AlreadyDecidedError(RunConflictError):
    """The approval no longer waits for this decision.

    `approval` is how it stands, with the decision that was first.
    """

    code = "already-decided"

    def __init__(self, run_id: str, message: str, approval: Any, *, status: str = "") -> None:
        self.approval = approval
        super().__init__(run_id, message, status=status)


class NotAnApproverError(RunError):
    """This person may not decide this approval."""

    code = "not-an-approver"


class AmbiguousRunError(RunError, LookupError):
    """The ids of several runs begin with this text; `matches` are the newest of them."""

    code = "ambiguous-run"

    def __init__(self, text: str, matches: Sequence[str], *, more: bool = False) -> None:
        self.text, self.matches, self.more = text, tuple(matches), more
        listed = ", ".join([*self.matches, *(["…"] if more else [])])
        super().__init__(f"the ids of several runs begin with {text!r}; write more of it: {listed}")


class StartError(RunError):
    """Some runs of `App.start_many` were refused; the others were started.

    `answers` has for each input, in order, the id of its run or the error that it was refused with.
    """

    code = "start-refused"

    def __init__(self, answers: Sequence[str | RunConflictError]) -> None:
        self.answers = tuple(answers)
        refused = [answer for answer in answers if not isinstance(answer, str)]
        super().__init__(
            f"{len(refused)} of {len(self.answers)} runs were refused, the others were started "
            f"(see `answers`); the first refusal: {refused[0]}"
        )


def place_of(node: str) -> str:
    """Where in its workflow a run failed, in words: a node, or the `output` of the document."""
    return "its output" if node.startswith("$") else f"node {node!r}"


class RunFailed(RunError):
    """A run did not complete: it FAILED or was CANCELLED."""

    code = "run-failed"

    def __init__(
        self, run_id: str, status: str, *, node: str | None = None, error: Any = None
    ) -> None:
        self.run_id, self.status, self.node, self.error = run_id, status, node, error
        message = (error or {}).get("message", "") if isinstance(error, dict) else str(error or "")
        where = f" at {place_of(node)}" if node else ""
        super().__init__(f"run {run_id} is {status}{where}: {message}".rstrip(": "))
        trace = trace_lines(error)
        if trace:
            # Python prints notes below the message, so a program that does not catch this shows
            # where the handler failed.
            self.add_note("\n".join(["In the handler:", *trace]))


class RunTimeoutError(RunError):
    """The caller stopped waiting; the run goes on."""

    code = "run-timeout"

    def __init__(self, run_id: str, seconds: float) -> None:
        self.run_id, self.seconds = run_id, seconds
        super().__init__(f"run {run_id} did not end within {seconds:g} s; it can be resumed")


class PlayError(RunError):
    """A run that `minuet.testing` plays cannot go on: it would wait forever, or takes too long.

    `waits` says what it waits for; `played` is how far it came.
    """

    code = "play-stopped"

    def __init__(self, run_id: str, reason: str, waits: Sequence[str], played: Any) -> None:
        self.run_id, self.reason, self.waits = run_id, reason, tuple(waits)
        self.played = played
        why = "; ".join(self.waits)
        super().__init__(f"the run cannot go on: {reason}{f': {why}' if why else ''}")


class DeadLetterNotFoundError(MinuetError, LookupError):
    """There is no dead letter with this id (or it belongs to another tenant)."""

    code = "dead-letter-not-found"

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(
            f"there is no dead letter {id!r}: an id is a run and its generation, such as 0198a2b3.1"
        )


class RedriveNotFoundError(MinuetError, LookupError):
    """There is no redrive of dead letters with this id (or it belongs to another tenant)."""

    code = "redrive-not-found"

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"there is no redrive {id!r:.100}: `minuet dlq redrives` lists them")


class KeyNotFoundError(MinuetError, LookupError):
    """There is no API key with this id (or it belongs to another tenant)."""

    code = "key-not-found"

    def __init__(self, id: str) -> None:
        self.id = id
        super().__init__(f"there is no API key {id!r:.100}, or several begin like this")


class WorkflowNotFoundError(MinuetError, LookupError):
    """No deployed workflow has this name, or it has no such version or tag.

    `close` are similar names. `newest` and `tags` are what the workflow has; 0: there is none.
    """

    code = "workflow-not-found"

    def __init__(
        self,
        name: str,
        *,
        at: int | str | None = None,
        close: Sequence[str] = (),
        newest: int = 0,
        tags: Mapping[str, int] | None = None,
    ) -> None:
        self.name, self.at, self.close = name, at, tuple(close)
        self.newest, self.tags = newest, dict(tags or {})
        super().__init__(self._refused() if newest else self._unknown())

    def _unknown(self) -> str:
        message = f"no deployed workflow has the name {self.name!r}"
        if self.close:
            return f"{message}: did you mean {' or '.join(map(repr, self.close))}?"
        return (
            f"{message}: deploy it with `minuet deploy FILE`; a file is named by its path (./FILE)"
        )

    def _refused(self) -> str:
        if isinstance(self.at, int):
            there = "version 1" if self.newest == 1 else f"versions 1 to {self.newest}"
            return f"workflow {self.name!r} has no version {self.at}: it has {there}"
        named = [f"{tag} (version {number})" for tag, number in sorted(self.tags.items())]
        there = ", ".join(named) or f"none, and versions 1 to {self.newest}"
        return f"workflow {self.name!r} has no tag {self.at!r}: it has {there}"


class StoreError(MinuetError):
    """The store could not do it."""

    code = "store-error"


class StoreUnavailableError(StoreError):
    """Nothing was written, or it is not known: the same call may be repeated."""

    code = "store-unavailable"


class ServerUnavailableError(StoreUnavailableError):
    """No server answered a client, or the answer was lost: the same call may be repeated.

    `is_sent` says whether a server may have got the request, and done what it asks for.
    """

    code = "server-unavailable"

    def __init__(self, message: str, *, is_sent: bool = False) -> None:
        self.is_sent = is_sent
        super().__init__(message)


class StoreUnusableError(StoreError):
    """Wrong version, damaged or read-only: repeating does not help."""

    code = "store-unusable"


class PositionError(StoreError):
    """The change feed cannot go on from this position: it belongs to another store, or the store
    has lost or dropped what came after it. List the runs, and read the feed from now on."""

    code = "position-lost"

    def __init__(self, position: str) -> None:
        self.position = position
        super().__init__(
            f"the feed of this store cannot go on from the position {position!r:.200}: list the "
            "runs again, and read the feed from now on"
        )


class BlobError(StoreError):
    """A blob cannot be read: it is missing, damaged, or kept where this process cannot look."""

    code = "blob-unreadable"

    def __init__(
        self,
        ref: str,
        problem: str,
        state: Literal["missing", "damaged", "out of reach"] = "damaged",
    ) -> None:
        self.ref, self.problem, self.state = ref, problem, state
        super().__init__(f"the blob {ref} {problem}")


class SessionError(StoreError):
    """The store does not know the session, or the sequence number is not the next one."""

    code = "session-error"


class NotOpenError(MinuetError):
    """An App is used before it was opened, after it was closed, or in another event loop."""

    code = "not-open"


class InvariantError(MinuetError):
    """Something that must always hold does not: a bug in Minuet or a damaged store."""

    code = "invariant-broken"


class ConfigError(MinuetError):
    """A setting or an option is wrong."""

    code = "invalid-configuration"


class NonRetryable(Exception):
    """Raise it in a handler to fail the node at once, whatever its retry policy says."""


class Retryable(Exception):
    """Raise it in a handler to ask for another attempt.

    `after` is the number of seconds until then; without it the retry policy decides.
    """

    def __init__(self, message: str = "", *, after: float | None = None) -> None:
        self.after = after
        super().__init__(message)


class ApprovalTimeoutError(MinuetError, NonRetryable):
    """Nobody decided in time, and the node's `escalation_policy` is `fail`."""

    code = "approval_timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nobody decided within {seconds:g} s")


class ServiceError(MinuetError):
    """A service that a node called did not do what it was asked.

    `details` is kept with the node's error: where it was called and what it answered. It has
    nothing of the request but the address, without its user and the values of its query.
    """

    code = "service-error"

    def __init__(
        self, message: str, *, code: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        self.details = details or {}
        if code is not None:
            self.code = code
        super().__init__(message)


class ServiceUnavailableError(ServiceError, Retryable):
    """The call failed, and the same call may succeed later: after `after` seconds, if the service
    says so."""

    code = "service-unavailable"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        details: dict[str, Any] | None = None,
        after: float | None = None,
    ) -> None:
        super().__init__(message, code=code, details=details)
        self.after = after


class ServiceRefusedError(ServiceError, NonRetryable):
    """The call failed, and the same call would fail again."""

    code = "service-refused"


class EgressError(ServiceRefusedError):
    """A call to an address that may not be reached from this process."""

    code = "egress-refused"

    def __init__(self, host: str, port: int, address: str, kind: str) -> None:
        self.host, self.port, self.address, self.kind = host, port, address, kind
        where = host if host == address else f"{host} ({address})"
        super().__init__(
            f"{where} must not be called from here: it is a {kind} address. If it is meant, add "
            f"{address if kind == 'cloud metadata' else host} to MINUET_EGRESS_ALLOW"
        )


class AgentError(ServiceRefusedError):
    """An agent came to one of its limits, or to no result. Its calls are kept: when the node is
    tried again, it goes on where it was."""

    code = "agent-failed"


class WebhookError(MinuetError, ValueError):
    """A webhook that came is not from who it says, or is too old."""

    code = "webhook-refused"


class ChildFailedError(RunError):
    """The child run of a node did not complete: it FAILED, or was CANCELLED (`child_cancelled`)."""

    code = "child_failed"

    def __init__(self, run_id: str, status: str, error: Any) -> None:
        known: dict[str, Any] = error if isinstance(error, dict) else {}
        if status != "FAILED":
            self.code = "child_cancelled"
        self.run_id, self.status = run_id, status
        #: Which run, where in it, and why; and the same of its own child run, if that has failed.
        self.child = {"run_id": run_id, "status": status}
        for name in ("node", "scope", "code", "type", "message", "child"):
            if name in known:
                self.child[name] = known[name]
        where = f" at {place_of(known['node'])}" if "node" in known else ""
        what = "failed" if status == "FAILED" else "was cancelled"
        # What went wrong is at the bottom; the runs between are in `child`.
        while isinstance(known.get("child"), dict):
            known = known["child"]
            if "node" in known:
                where = f"; at {place_of(known['node'])} of its descendant {known.get('run_id')}"
        reason = str(known.get("message", ""))
        super().__init__(f"child run {run_id} {what}{where}: {reason}".rstrip(": "))


class ChildDepthError(RunError):
    """A child run would be too deep below the run that nothing started."""

    code = "child_depth"

    def __init__(self, workflow: str, limit: int) -> None:
        super().__init__(
            f"a child run of {workflow!r} would be more than {limit} levels deep: does a workflow "
            "start itself without an end?"
        )


class FunctionError(MinuetError):
    """A durable function does something that it cannot do, or is used where it cannot be."""

    code = "function-error"


class ReplayError(FunctionError):
    """The code of a durable function does not fit what a run of it has done before.

    `recorded` is what the run's journal has next, `wanted` what the code asks for instead.
    """

    code = "replay-mismatch"

    def __init__(self, message: str, *, recorded: str, wanted: list[str]) -> None:
        self.recorded, self.wanted = recorded, wanted
        super().__init__(message)


class StepFailed(MinuetError):
    """A step of a durable function failed with an exception whose class is not known here.

    `error` is what is kept of it: type, message and the like.
    """

    code = "step-failed"

    def __init__(self, step: str, error: dict[str, Any]) -> None:
        self.step, self.error = step, error
        super().__init__(f"step {step!r} failed: {error.get('type')}: {error.get('message')}")


class LeaseLost(BaseException):
    """The node is no longer this worker's to finish: it was cancelled or taken by another.

    A BaseException, so that a handler's `except Exception` does not swallow it.
    """


def trace_lines(error: Any, indent: str = "  ") -> list[str]:
    """Where a stored error came from, in lines for people; none if it is not known.

    The outermost call comes first, as in Python. `worker/trace.py` says what is kept.
    """
    if not isinstance(error, dict):
        return []
    lines = []
    for frame in error.get("traceback") or ():
        if "omitted" in frame:
            lines.append(f"{indent}… {frame['omitted']} more")
            continue
        lines.append(f"{indent}{frame.get('file')}:{frame.get('line')}, in {frame.get('function')}")
        if frame.get("code"):
            lines.append(f"{indent}  {frame['code']}")
    cause = error.get("cause")
    if isinstance(cause, dict):
        lines += _other_lines("caused by", cause, indent)
    members = error.get("errors") or ()
    for number, member in enumerate(members, start=1):
        lines += _other_lines(f"error {number} of the group:", member, indent)
    return lines


def _other_lines(how: str, error: dict[str, Any], indent: str) -> list[str]:
    kind, message = error.get("type") or error.get("code"), error.get("message") or ""
    text = message if kind == message else f"{kind}: {message}"
    return [f"{indent}{how} {text}", *trace_lines(error, f"{indent}  ")]
