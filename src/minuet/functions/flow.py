"""What a durable function sees of its run, and what it can wait for."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, ParamSpec, TypeVar, overload

from minuet.errors import FunctionError, SignalTimeoutError
from minuet.functions.approval import APPROVAL_NODE, Decided, approval_document
from minuet.functions.function import Function
from minuet.functions.instance import Call, FunctionInstance, place_of_caller
from minuet.nodes.handler_log import current_context, keep_message
from minuet.nodes.values import as_it_is, decoder, result_decoder

#: Where `ctx.log` of a function writes.
FUNCTION_LOG = "minuet.function"

_log = logging.getLogger(FUNCTION_LOG)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: Longest name of a signal.
NAME_LENGTH_MAX = 255


class _Quiet(logging.LoggerAdapter[logging.Logger]):
    """A logger that says nothing while the code repeats what it has done before."""

    def __init__(self, instance: FunctionInstance, extra: Mapping[str, Any]) -> None:
        super().__init__(_log, dict(extra))
        self._instance = instance

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        context = current_context()
        if level >= logging.INFO and context is not None and not self._instance.is_repeating:
            keep_message(context, level, msg, args, kwargs.get("exc_info"))
        kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1  # This is not the caller.
        super().log(level, msg, *args, **kwargs)

    def isEnabledFor(self, level: int) -> bool:
        return not self._instance.is_repeating and super().isEnabledFor(level)


class Flow:
    """The run that a durable function belongs to.

    Everything that a function gets from outside comes through a task or through this: so a
    replay, after a crash or a wait, finds the same.
    """

    def __init__(
        self,
        instance: FunctionInstance,
        *,
        run_id: str,
        workflow: str,
        node_id: str,
        tags: Mapping[str, Any],
    ) -> None:
        self._instance = instance
        self.run_id = run_id
        self.workflow = workflow
        self.node_id = node_id
        #: The run's tags.
        self.tags = dict(tags)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger that knows the run. It says nothing during a replay."""
        return _Quiet(self._instance, {"run_id": self.run_id, "node_id": self.node_id})

    @property
    def is_replaying(self) -> bool:
        """Whether the code repeats what it has done before a crash or a wait."""
        return self._instance.is_repeating

    # ── waiting ─────────────────────────────────────────────────────────────────────────

    def sleep(
        self,
        seconds: float = 0,
        *,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        until: datetime | None = None,
    ) -> Coroutine[Any, Any, None]:
        """Wait for a time to pass, or for a point in time. No worker is held meanwhile."""
        span = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        return self._sleep(span.total_seconds(), until, place_of_caller())

    async def _sleep(self, delay: float, until: datetime | None, place: str) -> None:
        instance = self._instance
        instance.sleeps_at = place
        if until is not None:
            moment = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
            delay = moment.timestamp() - instance.time_ms() / 1000
        if delay > 0:
            await asyncio.sleep(delay)
        instance.sleeps_at = ""

    def signal(
        self, name: str, *, timeout: float | None = None, type: Any = None
    ) -> Coroutine[Any, Any, Any]:
        """Wait for a signal (`minuet signal RUN NAME`, `app.signal`) and return its data.

        Signals of one name are a queue, and one that came early is kept. If none has come after
        `timeout` seconds, SignalTimeoutError is raised. `type` is what the data is rebuilt as.
        """
        if not 0 < len(name) <= NAME_LENGTH_MAX or name.startswith("$"):
            raise FunctionError(
                f"the name of a signal has 1 to {NAME_LENGTH_MAX} characters and does not begin "
                f"with $: {name!r:.100}"
            )
        call = self._instance.new_call("signal", name)
        call.decode = as_it_is if type is None else decoder(type)
        return self._instance.wait(call) if timeout is None else self._limit(call, timeout)

    async def _limit(self, call: Call, timeout: float) -> Any:
        name = call.name
        self._instance.sleeps_at = call.place
        try:
            async with asyncio.timeout(timeout) as limit:
                self._instance.sleeps_at = ""
                return await self._instance.wait(call)
        except TimeoutError:
            if limit.expired():
                raise SignalTimeoutError(name, timeout) from None
            raise

    def approve(
        self,
        title: str,
        *,
        approvers: Sequence[str] = (),
        description: str | None = None,
        payload: Any = None,
        form: dict[str, Any] | None = None,
        quorum: int = 1,
        timeout: float | timedelta | None = None,
        escalation_policy: Literal["reject", "approve"] = "reject",
        approval_ui_url: str | None = None,
    ) -> Coroutine[Any, Any, Decided]:
        """Ask people for a decision (`minuet approvals`) and wait for it, as long as it takes.

        `approvers` are names of people and groups; without any, everybody may decide. `form` is the
        JSON Schema of the data of the decision. After `timeout` seconds the decision is `timeout`,
        or `approve` if that is the `escalation_policy`. A rejection raises nothing: look at
        `decision`, or at `approved`.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        document = approval_document(
            form=form, quorum=quorum, timeout_seconds=seconds, escalation_policy=escalation_policy
        )
        asked = {
            "title": title,
            "description": description,
            "approvers": list(approvers),
            "payload": payload,
            "approval_ui_url": approval_ui_url,
        }
        return self._instance.child(APPROVAL_NODE, document, asked, decoder(Decided))

    @overload
    def start(
        self,
        workflow: Function[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Coroutine[Any, Any, Result]: ...

    @overload
    def start(self, workflow: Any, input: Any = None, /) -> Coroutine[Any, Any, Any]: ...

    def start(self, workflow: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Run another workflow as a child run, wait for it and return its output.

        `workflow` is a durable function, called with its own arguments, or any other workflow with
        its input: a `Workflow`, a document, or the name of a deployed one. If the child run fails,
        ChildFailedError is raised.
        """
        if isinstance(workflow, Function):
            name, decode = workflow.name, workflow.decode_result
            value: Any = workflow.name_input(args, kwargs)
        else:
            if kwargs or len(args) > 1:
                raise TypeError("ctx.start takes a workflow and its input, unless it is a function")
            name, decode = _name_of(workflow), as_it_is
            value = args[0] if args else None
        return self._instance.child(name, workflow, value, decode)

    def step(
        self, name: str, fn: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Do `fn(*args, **kwargs)` as a step of this name, without making it a task.

        A sync function runs in a thread. Tasks are awaited directly: `await charge(order)`.
        """
        arguments = {"args": args, "kwargs": kwargs}
        return self._instance.step(name, fn, arguments, result_decoder(fn))

    # ── values that are recorded ────────────────────────────────────────────────────────

    def now(self) -> datetime:
        """The time, in UTC; the same in every replay."""
        return datetime.fromtimestamp(self._instance.now() / 1000, UTC)

    def random(self) -> float:
        """A random number from 0 to 1; the same in every replay."""
        return self._instance.random()

    def uuid(self) -> uuid.UUID:
        """A random UUID; the same in every replay."""
        return uuid.UUID(self._instance.uuid())

    def version(self, name: str) -> bool:
        """Whether a change of the code is in force for this run.

        if ctx.version("charge-later"):
            …the new way…
        else:
            …the former way, for runs that had passed here before the change…
        """
        return self._instance.version(name)


def _name_of(workflow: Any) -> str:
    """What a workflow is called in the journal."""
    if isinstance(workflow, str):
        return workflow if "\n" not in workflow else "document"
    if isinstance(workflow, Mapping):
        return str(workflow.get("name", "document"))
    return str(getattr(workflow, "name", "document"))
