"""A function instance while it is executed: its code, and what the code waits for.

The host, which is the worker, does what the code asks for and delivers what comes of it. `turn`
runs the code until all of it waits: first on the entries of the journal, then on what the host has
delivered.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Set
from types import FrameType
from typing import Any, Protocol

import msgspec

from minuet.errors import FunctionError, OutputError, ReplayError
from minuet.functions.exceptions import contents_of, rebuild
from minuet.functions.journal import (
    ADVICE,
    RESERVED,
    TIMEOUT,
    Entry,
    Journal,
    Kind,
    has_input,
    key_of,
    label_of,
    mismatch,
)
from minuet.functions.loop import FunctionLoop
from minuet.functions.mapping import run_all
from minuet.nodes.flowing import FLOWING
from minuet.nodes.handler import AnyTask
from minuet.nodes.values import Decode, as_it_is

_log = logging.getLogger("minuet.functions")

#: Steps that a function may wait for at once.
CALLS_MAX = 10_000


class Host(Protocol):
    """What the process that executes a function gives it."""

    def now_ms(self) -> int:
        """The time."""
        ...

    def encode(self, value: Any, what: str) -> bytes:
        """A value as JSON, without secrets; OutputError if it cannot be."""
        ...

    def random(self) -> float:
        """A random number from 0 to 1."""
        ...

    def uuid(self) -> str:
        """A random UUID."""
        ...


class Call:
    """Something that the code waits for."""

    __slots__ = (
        "arguments",
        "decode",
        "due_ms",
        "future",
        "handle",
        "input",
        "key",
        "kind",
        "label",
        "name",
        "number",
        "occurrence",
        "place",
        "target",
    )

    def __init__(self, kind: Kind, name: str, occurrence: int, place: str) -> None:
        self.kind, self.name, self.occurrence = kind, name, occurrence
        self.key = key_of(kind, name, occurrence)
        #: How people read it.
        self.label = label_of(kind, name, occurrence)
        #: Where the code asks for it: file and line.
        self.place = place
        #: The task or the function of a step, or the workflow of a child run; and its arguments.
        self.target: Any = None
        self.arguments: Mapping[str, Any] = {}
        #: The arguments as JSON; b"": they cannot be.
        self.input = b""
        #: When a timer is over, and what it calls then.
        self.due_ms = 0
        self.handle: asyncio.TimerHandle | None = None
        #: Which one of the instance's child runs it is.
        self.number = 0
        self.decode: Decode = as_it_is
        self.future: asyncio.Future[Any] | None = None


class FunctionInstance:
    """The code of one instance."""

    def __init__(self, journal: Journal, host: Host, place: str) -> None:
        self.journal = journal
        self._host = host
        #: Where the function is defined; and what it asked for last, and where.
        self._place = place
        self._last = ("", place)
        #: Where the code sleeps that is about to.
        self.sleeps_at = ""
        #: The code does not fit the journal. It cannot catch this.
        self._misfit: ReplayError | None = None
        self._is_closed = False
        #: Whether the code was left where it waits: until then, it repeats what it has done.
        self.was_left = False
        self._loop = FunctionLoop(self)  # type: ignore[abstract]
        self._root: asyncio.Task[Any] | None = None
        #: What the code waits for, by key, in the order in which it asked.
        self.waiting: dict[str, Call] = {}
        #: What it has asked for since the host last looked.
        self._asked: list[Call] = []
        #: The timers among what it waits for; cancelled ones are dropped when they are looked at.
        self._timers: dict[str, Call] = {}
        #: Steps that it no longer waits for.
        self.cancelled: list[Call] = []
        self._children = 0
        #: Which changes of the code are in force, as `version` has answered first.
        self._versions: dict[str, bool] = {}

    # ── for the host ────────────────────────────────────────────────────────────────────

    def begin(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Begin with the code."""
        context = contextvars.copy_context()
        context.run(FLOWING.set, self)
        self._root = self._loop.create_task(function(), name="function", context=context)

    def turn(self) -> None:
        """Run the code until all of it waits for what is not there."""
        assert self._root is not None
        while True:
            self._loop.run_until_blocked()
            if self._misfit is not None:
                raise self._misfit
            if self._loop.lost_error is not None:
                error, self._loop.lost_error = self._loop.lost_error, None
                _log.warning("an exception in a function had nobody to go to", exc_info=error)
            entry = self.journal.next
            if entry is None:
                return
            if self._root.done():
                raise mismatch(entry, [], self._how_it_ended())
            self._repeat(entry)

    @property
    def is_repeating(self) -> bool:
        """Whether the code does what it has done before."""
        return self.was_left or self.journal.is_replaying

    @property
    def is_over(self) -> bool:
        """Whether the code has returned or raised."""
        return self._root is not None and self._root.done()

    def result(self) -> Any:
        """What the code has returned; raises what it has raised."""
        assert self._root is not None
        return self._root.result()

    def take_asked(self) -> list[Call]:
        """What the code has asked for since the last time, and still waits for."""
        asked, self._asked = self._asked, []
        return [call for call in asked if self.waiting.get(call.key) is call]

    @property
    def has_timers(self) -> bool:
        """Whether timers may be set."""
        return bool(self._timers)

    def timers(self) -> Iterator[Call]:
        """The timers that are set."""
        for call in list(self._timers.values()):
            assert call.handle is not None
            if call.handle.cancelled():
                del self.waiting[call.key], self._timers[call.key]
            else:
                yield call

    def deliver(self, call: Call, entry: Entry) -> None:
        """The code gets what it waits for: a new entry."""
        if entry.error is None and call.handle is None:
            try:
                value = self._decode(call, entry)
            except Exception as error:
                # It is of another type than its annotation says: so it will be in a replay.
                what = {"type": type(error).__name__, "message": str(error), **contents_of(error)}
                entry = msgspec.structs.replace(entry, error=what)
            else:
                self._give(call, self.journal.add(entry), value)
                return
        self._give(call, self.journal.add(entry))

    def close(self) -> None:
        """Leave the code where it is."""
        self._is_closed = True
        self._loop.close()
        if self._root is not None and self._root.done() and not self._root.cancelled():
            self._root.exception()  # It counts as seen.
        self._root = None
        self.waiting.clear()
        self._timers.clear()
        self._asked.clear()

    # ── replay ──────────────────────────────────────────────────────────────────────────

    def _repeat(self, entry: Entry) -> None:
        """The code gets the next entry of the journal."""
        call = self.waiting.get(key_of(entry.kind, entry.name, entry.occurrence))
        if call is None or (call.handle is not None and call.handle.cancelled()):
            wanted = [
                (one.label, one.place)
                for one in self.waiting.values()
                if one.handle is None or not one.handle.cancelled()
            ]
            raise mismatch(entry, wanted, f"waits for nothing from outside {self._after()}")
        if not has_input(entry, call.input):
            raise _other_input(entry, call)
        value = None
        if entry.error is None and call.handle is None:
            try:
                value = self._decode(call, entry)
            except Exception as error:
                raise _other_type(entry, call, error) from error
        self._give(call, self.journal.advance(), value)

    def _decode(self, call: Call, entry: Entry) -> Any:
        value = msgspec.json.decode(entry.output) if entry.output else None
        return call.decode(value, f"the result of {call.label!r}")

    def _how_it_ended(self) -> str:
        assert self._root is not None
        error = None if self._root.cancelled() else self._root.exception()
        if error is None:
            return f"returns {self._after()}"
        return f"raises {type(error).__name__} ({_place_of(error) or self._place}): {error}"

    def _after(self) -> str:
        """How far the code has come."""
        label, place = self._last
        return f"after {label!r} ({place})" if label else f"without asking for anything ({place})"

    def _give(self, call: Call, entry: Entry, value: Any = None) -> None:
        del self.waiting[call.key]
        if call.handle is not None:
            del self._timers[call.key]
            self._loop.fire(call.handle)
            return
        assert call.future is not None
        if call.future.done():
            return
        if entry.error is not None:
            call.future.set_exception(rebuild(call.label, entry.error))
        else:
            call.future.set_result(value)

    # ── for the code ────────────────────────────────────────────────────────────────────

    async def wait(self, call: Call) -> Any:
        """Wait for something. As any coroutine, it begins when it is awaited."""
        if call.key in self.waiting:
            raise FunctionError(f"{call.label!r} is awaited twice")
        if len(self.waiting) >= CALLS_MAX:
            raise FunctionError(f"a function can wait for at most {CALLS_MAX:,} steps at once")
        call.future = self._loop.create_future()
        self.waiting[call.key] = call
        self._asked.append(call)
        try:
            return await call.future
        except asyncio.CancelledError:
            if self.waiting.pop(call.key, None) is not None:
                self.cancelled.append(call)
            raise

    def call_task(
        self, task: AnyTask, positional: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Coroutine[Any, Any, Any]:
        """A step that runs a task."""
        arguments = _named(task, positional, named)
        return self.step(task.name, task, arguments, task.decode_result, depth=3)

    def call_for_each(
        self,
        task: AnyTask,
        positional: tuple[Any, ...],
        named: Mapping[str, Any],
        *,
        max_parallel: int | None,
        return_exceptions: bool,
    ) -> Coroutine[Any, Any, list[Any]]:
        """A step for each item of the first argument."""
        arguments = _named(task, positional, named)
        first, items = next(iter(arguments.items()), ("", None))
        if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping | Set):
            raise FunctionError(
                f"{task.name}.map(…) takes a list as its first argument, not {items!r:.80}"
            )
        if max_parallel is not None and max_parallel < 1:
            raise FunctionError(f"max_parallel must be at least 1, not {max_parallel}")
        place = place_of_caller(above=2)
        # Numbered now: so the steps are in the order of the items, whenever they begin.
        calls = [
            self._step_call(task.name, task, {**arguments, first: item}, task.decode_result, place)
            for item in items
        ]
        waits = map(self.wait, calls)
        return run_all(len(calls), waits, max_parallel, return_exceptions=return_exceptions)

    def step(
        self, name: str, target: Any, arguments: Mapping[str, Any], decode: Decode, depth: int = 2
    ) -> Coroutine[Any, Any, Any]:
        """A step of this name."""
        place = place_of_caller(above=depth)
        return self.wait(self._step_call(name, target, arguments, decode, place))

    def _step_call(
        self, name: str, target: Any, arguments: Mapping[str, Any], decode: Decode, place: str
    ) -> Call:
        if not name or name.startswith(RESERVED):
            raise FunctionError(f"a step needs a name that does not begin with $, not {name!r}")
        call = self._call("step", name, place)
        call.target, call.arguments, call.decode = target, arguments, decode
        try:
            call.input = self._host.encode(arguments, f"the arguments of {call.label!r}")
        except OutputError:
            pass  # They need not be JSON: they are not kept, and a replay does not compare them.
        return call

    def new_call(self, kind: Kind, name: str, depth: int = 2) -> Call:
        """Something that the code asks for, at the place that called so many calls above."""
        return self._call(kind, name, place_of_caller(above=depth))

    def _call(self, kind: Kind, name: str, place: str) -> Call:
        if self._is_closed:
            raise asyncio.CancelledError  # The code is being left.
        call = Call(kind, name, self.journal.count(kind, name), place)
        self._last = (call.label, place)
        return call

    def child(
        self, name: str, workflow: Any, value: Any, decode: Decode
    ) -> Coroutine[Any, Any, Any]:
        """A child run of a workflow."""
        call = self.new_call("child", name, depth=3)
        call.target, call.arguments, call.decode = workflow, {"input": value}, decode
        self._children += 1
        call.number = self._children
        call.input = self._host.encode(value, f"the input of {call.label!r}")
        return self.wait(call)

    def now(self) -> int:
        """What the clock said, in milliseconds."""
        return int(self.note("now", "", self._host.now_ms))

    def random(self) -> float:
        """A random number."""
        return float(self.note("random", "", self._host.random))

    def uuid(self) -> str:
        """A random UUID."""
        return str(self.note("uuid", "", self._host.uuid))

    def note(self, kind: Kind, name: str, make: Callable[[], Any]) -> Any:
        """A value that the code gets at once: of the journal, or a new one that is kept."""
        if self._is_closed:
            raise asyncio.CancelledError
        journal = self.journal
        occurrence = journal.count(kind, name)
        label, place = label_of(kind, name, occurrence), self._outside()
        entry = journal.next
        if entry is None:
            output = msgspec.Raw(msgspec.json.encode(make()))
            new = journal.new(kind, name, occurrence, self._host.now_ms(), output=output)
            entry = journal.add(new)
        else:
            if (entry.kind, entry.name, entry.occurrence) != (kind, name, occurrence):
                self._misfit = self._misfit or mismatch(entry, [(label, place)], "")
                raise self._misfit
            journal.advance()
        self._last = (label, place)
        return msgspec.json.decode(entry.output)

    def version(self, name: str) -> bool:
        """Whether a change is in force: always, unless the run had passed here before the change
        was made."""
        known = self._versions.get(name)
        if known is None:
            journal = self.journal
            known = name in journal.versions or not journal.is_replaying
            if known and name not in journal.versions:
                journal.add(journal.new("version", name, 1, self._host.now_ms()))
            self._versions[name] = known
        return known

    # ── time ────────────────────────────────────────────────────────────────────────────

    def time_ms(self) -> int:
        """The time that the code has come to: of the last thing that it got."""
        if self.journal.time_ms is None:
            self.note("start", "", lambda: None)
        assert self.journal.time_ms is not None
        return self.journal.time_ms

    def add_timer(self, handle: asyncio.TimerHandle) -> None:
        """A timer has been set."""
        is_sleep = handle._callback is _WAKE_UP  # type: ignore[attr-defined]
        place, self.sleeps_at = self.sleeps_at or self._outside(), ""
        call = self._call("timer", "" if is_sleep else TIMEOUT, place)
        call.handle, call.due_ms = handle, round(handle.when() * 1000)
        self.waiting[call.key] = self._timers[call.key] = call
        self._asked.append(call)

    def _outside(self) -> str:
        """Where the code is that runs: the first place outside of asyncio and here."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not _RUN:
            if not _is_inside(frame):
                return f"{frame.f_code.co_filename}:{frame.f_lineno}"
            frame = frame.f_back
        # A task of nothing but `asyncio.sleep` and the like.
        return self._place


def place_of_caller(above: int = 1) -> str:
    """Where the function was called that calls this, or one so many calls above: file and line."""
    frame = sys._getframe(above + 1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _named(task: AnyTask, positional: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a task by name."""
    arguments = task.name_arguments(positional)
    if not named:
        return arguments
    twice = arguments.keys() & named.keys()
    if twice:
        raise TypeError(f"{task.name}() got several values for {', '.join(sorted(twice))}")
    arguments.update(named)
    return arguments


#: The callback of `asyncio.sleep`.
_WAKE_UP = asyncio.futures._set_result_unless_cancelled  # type: ignore[attr-defined]

#: What calls the code.
_RUN = FunctionLoop.run_until_blocked.__code__


def _is_inside(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] == "asyncio" or name.startswith("minuet.functions.")


def _place_of(error: BaseException) -> str:
    """Where an exception was raised: the last place outside of asyncio and here."""
    places = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not _is_inside(frame)
    ]
    return places[-1] if places else ""


def _other_type(entry: Entry, call: Call, error: Exception) -> ReplayError:
    return ReplayError(
        f"the code has changed since this run began: what {entry.label!r} gave (entry {entry.n}) "
        f"does not fit the type that it has now ({call.place}): {error}. {ADVICE}",
        recorded=entry.label,
        wanted=[call.label],
    )


def _other_input(entry: Entry, call: Call) -> ReplayError:
    recorded, wanted = bytes(entry.input).decode() or "others", call.input.decode()
    return ReplayError(
        f"the code calls {entry.label!r} with other arguments than when it was recorded (entry "
        f"{entry.n}, {call.place}): {recorded:.200} then, {wanted:.200} now. Either the code has "
        "changed since this run began, or it uses something that differs from time to time: a "
        "clock, a random number, a setting. Use ctx.now(), ctx.random(), ctx.uuid(), or a task",
        recorded=entry.label,
        wanted=[call.label],
    )
