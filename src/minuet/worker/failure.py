"""Turn what a handler or a node type raised into an error that can be stored; decide on a retry.

The first of these rules that applies decides:

* NonRetryable is not retried. The refusal of a service is, if `retry_on` names its code or status.
* What the policy's `no_retry_on` names is not retried.
* With `retry_on`, what it names is retried, and nothing else.
* Retryable is retried.
* Under a policy that an author wrote, everything is retried.
* Otherwise everything is retried except NOT_RETRIED, which would fail in the same way again.
  Network errors, timeouts and services that are down may pass.

What goes wrong before or after the handler (a template, an argument, a value that cannot be kept)
is not retried under any policy: it would fail in the same way again.

An exception is the user's object. Reading its text, code or cause may raise; an error is made of it
in any case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import msgspec

from minuet.errors import (
    ChildFailedError,
    MinuetError,
    NonRetryable,
    OutputError,
    Retryable,
    SecretError,
    ServiceError,
    StoreUnavailableError,
)
from minuet.kernel.settle import AttemptFailed
from minuet.nodes.masking import NO_MASK, Mask, mask_of
from minuet.nodes.secrets import known_values
from minuet.worker.policy import UNWRITTEN, Policies, Policy
from minuet.worker.raised import RaisedHere
from minuet.worker.trace import add_trace, clean, name_of, text_of

if TYPE_CHECKING:
    from minuet.worker.assignment import Assignment

#: Longest time until the next attempt that a handler may ask for: a year.
AFTER_MS_MAX = 365 * 24 * 3_600_000

#: Not retried under any policy: what its author calls final, a value that cannot be kept, which a
#: handler can get from `ctx.step` too, and a secret that is not there.
FINAL = (NonRetryable, OutputError, SecretError)

NOT_RETRIED: tuple[type[BaseException], ...] = (
    NonRetryable,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    MinuetError,
    SystemExit,
)


class Failures:
    """Makes the failures of one worker's nodes: by their policies, without their secrets."""

    def __init__(
        self, policies: Policies, read_secret: Callable[[str], str], raised: RaisedHere
    ) -> None:
        self._policies = policies
        self._read_secret = read_secret
        self._raised = raised

    def outside_handler(self, assignment: Assignment, error: BaseException) -> AttemptFailed:
        """The outcome of a node when something before or after its handler raised."""
        return self._fail(assignment, error, UNWRITTEN)

    def in_handler(self, assignment: Assignment, error: BaseException) -> AttemptFailed:
        """The outcome of a node whose handler raised."""
        return self._fail(assignment, error, self._policy(assignment))

    def elsewhere(self, assignment: Assignment, error: Examined) -> AttemptFailed:
        """The outcome of a node whose handler raised in another process."""
        return error.under(self._policy(assignment))

    def time_out(self, assignment: Assignment, timeout_ms: int, left: str = "") -> AttemptFailed:
        """The outcome of a node whose attempt took too long; `left` says what still runs."""
        return timed_out(timeout_ms, self._policy(assignment), left=left)

    def _fail(self, assignment: Assignment, error: BaseException, policy: Policy) -> AttemptFailed:
        mask = self._mask(assignment)
        failure = failure_of(error, policy, mask)
        # One that holds a secret stays where it is.
        if mask is NO_MASK or describe(error) == failure.error:
            self._raised.note(assignment.key[0], failure.error, error)
        return failure

    def _policy(self, assignment: Assignment) -> Policy:
        assert assignment.node is not None
        return self._policies.of(assignment.node)

    def _mask(self, assignment: Assignment) -> Mask:
        """Masks what the handler has got, and what else its node declares."""
        node, context = assignment.node, assignment.context
        if context is not None:
            return context.mask
        names = node.secrets if node is not None else ()
        return mask_of(frozenset(known_values(names, self._read_secret))) if names else NO_MASK


def failure_of(
    error: BaseException, policy: Policy = UNWRITTEN, mask: Mask = NO_MASK
) -> AttemptFailed:
    """The failure that an exception means. One that a handler raised comes with its policy, and
    with a mask of what must not be kept."""
    return examine(error, mask).under(policy)


#: What the class of an exception says about a retry. `final`: never. `refused`: by a service, and
#: only a policy that names it has it retried. `passing`: it asks for one. `permanent`: it would
#: fail in the same way again. `open`: nothing.
Verdict: TypeAlias = Literal["final", "refused", "passing", "permanent", "open"]


class Examined(msgspec.Struct, frozen=True):
    """An exception as data: what is stored of it, and what policies ask about it. It can be sent
    from one process to another."""

    record: dict[str, Any]
    verdict: Verdict
    #: The names by which a policy may mean it: of its class, and of the bases.
    names: tuple[str, ...] = ()
    #: Its code and its HTTP status, which a policy may name too.
    codes: tuple[str, ...] = ()
    #: The time until the next attempt that it asks for.
    after_ms: int | None = None

    def masked(self, mask: Mask) -> Examined:
        """Without what must not be kept."""
        record = mask.data(msgspec.json.encode(self.record), self.record)
        return self if record is self.record else msgspec.structs.replace(self, record=record)

    def under(self, policy: Policy) -> AttemptFailed:
        """The failure that it means under a policy."""
        return AttemptFailed(
            self.record, retryable=self._is_retried(policy), after_ms=self.after_ms
        )

    def _is_retried(self, policy: Policy) -> bool:
        if self.verdict == "final":
            return False
        retry, is_refused = policy.retry, self.verdict == "refused"
        named = {*self.codes, *self.names}
        if not named.isdisjoint(retry.no_retry_on):
            return False
        if retry.retry_on:
            # A service's refusal may pass if a document names just this one.
            return not (set(self.codes) if is_refused else named).isdisjoint(retry.retry_on)
        if is_refused:
            return False
        return policy.is_written or self.verdict != "permanent"


class ReportedError(Exception):
    """What a handler in a worker over HTTP has raised, as that worker reports it."""

    def __init__(self, examined: Examined) -> None:
        self.examined = examined
        super().__init__(examined.record.get("message", ""))


def examine(error: BaseException, mask: Mask = NO_MASK) -> Examined:
    """An exception as data, without what must not be kept."""
    if type(error) is ReportedError:
        return error.examined.masked(mask)
    # By its type: a user's exception may claim to be of any class.
    kind, record = type(error), describe(error, mask)
    after_ms = _milliseconds(error) if issubclass(kind, Retryable) else None
    codes = (record["code"], *_statuses(error))
    return Examined(record, _verdict(kind), tuple(sorted(_names(kind))), codes, after_ms)


def _verdict(kind: type[BaseException]) -> Verdict:
    if issubclass(kind, ServiceError) and issubclass(kind, NonRetryable):
        return "refused"
    if issubclass(kind, FINAL):
        return "final"
    # A store that the handler uses is a service like any other.
    if issubclass(kind, (Retryable, StoreUnavailableError)):
        return "passing"
    return "permanent" if issubclass(kind, NOT_RETRIED) else "open"


def _statuses(error: BaseException) -> tuple[str, ...]:
    """How a policy may name the HTTP status of an error, if it has one."""
    status = _status(error)
    return () if status is None else (str(status), f"{status // 100}xx")


def _status(error: BaseException) -> int | None:
    """The HTTP status that an exception is about: of a node's call, or of the usual clients."""
    try:
        if issubclass(type(error), ServiceError):
            found: Any = cast(ServiceError, error).details.get("status")
        else:
            response = getattr(error, "response", None)
            places = ((response, "status_code"), (error, "status_code"), (error, "status"))
            values = [getattr(owner, name, None) for owner, name in places]
            if issubclass(type(error), OSError):
                # urllib's HTTPError.
                values.append(getattr(error, "code", None))
            found = next((value for value in values if type(value) is int), None)
        return found if type(found) is int and 100 <= found < 600 else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def _names(kind: type[BaseException]) -> set[str]:
    """The names by which a policy may mean an exception: its own, and those of its bases."""
    names: set[str] = set()
    for base in kind.__mro__:
        try:
            names |= {base.__name__, base.__qualname__, f"{base.__module__}.{base.__qualname__}"}
        except KeyboardInterrupt:
            raise
        except BaseException:
            # A class has a class of its own, which may raise as well.
            continue
    return names


def _milliseconds(error: BaseException) -> int | None:
    """The time until the next attempt that a handler asked for; None when it asked for none."""
    try:
        return min(max(int(float(error.after) * 1000), 0), AFTER_MS_MAX)  # type: ignore[attr-defined]
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def describe(error: BaseException, mask: Mask = NO_MASK) -> dict[str, Any]:
    """An error as data: stable code, type, message, and where it came from."""
    record: dict[str, Any] = {
        "code": mask(_code(error)),
        "type": mask(name_of(error)),
        "message": text_of(error, mask),
    }
    # By its type: asking an exception of a handler for its class may run the handler's code.
    if issubclass(type(error), ChildFailedError):
        record["child"] = cast(ChildFailedError, error).child
    elif issubclass(type(error), ServiceError):
        # RaisedHere by Minuet's own code: what the service said is worth more than the place.
        details = cast(ServiceError, error).details
        record |= {name: _detail(value, mask) for name, value in details.items()}
    else:
        add_trace(record, error, mask)
    return record


def _detail(value: Any, mask: Mask) -> Any:
    return clean(mask(value)) if isinstance(value, str) else value


def _code(error: BaseException) -> str:
    if issubclass(type(error), MinuetError):
        try:
            code = error.code  # type: ignore[attr-defined]
            if type(code) is str and code.isprintable():
                return code[:100]
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass
    return "handler_raised"


def timed_out(timeout_ms: int, policy: Policy = UNWRITTEN, *, left: str = "") -> AttemptFailed:
    """An attempt that took too long; `left` says what still runs."""
    message = f"the attempt did not finish within {timeout_ms / 1000:g} s{left}"
    error = {"code": "timeout", "type": "TimeoutError", "message": message}
    names = tuple(sorted(_names(TimeoutError)))
    return Examined(error, "open", names, ("timeout",)).under(policy)


def crash_loop(expiry: int) -> AttemptFailed:
    """A node that keeps killing its workers."""
    message = (
        f"{expiry} workers died or hung while they ran this node and did not come back; "
        "it is not tried again until the run is retried"
    )
    return AttemptFailed({"code": "crash_loop", "message": message}, reason="crash_loop")
