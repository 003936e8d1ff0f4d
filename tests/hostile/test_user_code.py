"""Code of the user's that raises wherever it is run: the node fails with its own error, at once.

A case that leaves the executor as an exception would keep its token leased until the lease runs
out. The lease of these tests is longer than their patience, so such a case fails here.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

import minuet
from minuet.errors import MinuetError, StoreUnavailableError
from minuet.nodes.spec import Wait

from ..scenario.harness import QUICK_RETRY, node, open_scene, task, workflow


class Trap(Exception):
    """What the hostile code below raises."""


class BaseTrap(BaseException):
    """The same, beyond `except Exception`."""


#: What hostile code raises: each hook below is tried with all of them.
RAISED: dict[str, type[BaseException]] = {
    "Exception": Trap,
    "BaseException": BaseTrap,
    "SystemExit": SystemExit,
    "LeaseLost": minuet.LeaseLost,
    "StoreUnavailableError": StoreUnavailableError,
    "StopIteration": StopIteration,
    "CancelledError": asyncio.CancelledError,
    "RecursionError": RecursionError,
}

#: Set by each test: what the hooks raise.
_raised: list[type[BaseException]] = []


def spring(*_: Any, **__: Any) -> Any:
    raise _raised[-1]("trap")


@dataclasses.dataclass
class RaisingArgument:
    number: int

    def __post_init__(self) -> None:
        spring()


class RaisingStruct(msgspec.Struct):
    number: int

    def __post_init__(self) -> None:
        spring()


def takes_a_dataclass(order: RaisingArgument) -> None: ...


def takes_a_struct(order: RaisingStruct) -> None: ...


class RaisingText(Exception):
    __str__ = __repr__ = spring


class RaisingCode(MinuetError):
    code = property(spring)


class OddCode(MinuetError):
    code = object()  # type: ignore[assignment]


class RaisingAfter(minuet.Retryable):
    def __init__(self) -> None:
        """Does not call its base class, so it has no `after`."""


class RaisingFloat:
    __float__ = __int__ = __index__ = spring


class RaisingClass(Exception):
    """An exception about which even `isinstance` cannot be asked."""

    __class__ = property(spring)


class RaisingNotes(Exception):
    __notes__ = property(spring)


class RaisingMapping(Mapping[str, Any]):
    __getitem__ = __len__ = spring

    def __iter__(self) -> Iterator[str]:
        return spring()  # type: ignore[no-any-return]


class RaisingObject:
    """Whatever is asked of it, it raises."""

    __eq__ = __hash__ = __bool__ = __len__ = __iter__ = __repr__ = spring
    __str__ = __getattr__ = __reduce__ = __format__ = spring
    __class__ = property(spring)
    __dict__ = property(spring)


class RaisingDict(dict[str, Any]):
    __iter__ = items = keys = values = __getitem__ = __len__ = spring


class RaisingList(list[Any]):
    __iter__ = __getitem__ = __len__ = spring


class RaisingFields:
    __dataclass_fields__ = property(spring)


@dataclasses.dataclass
class RaisingField:
    number: int = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "number":
            spring()
        return object.__getattribute__(self, name)


class RaisingMeta(type):
    """A class whose class raises."""

    __getattr__ = spring
    __name__ = property(spring)


class RaisingType(metaclass=RaisingMeta):
    pass


class RaisingKind(Exception, metaclass=RaisingMeta):
    """An exception whose class cannot be asked for its name."""


def raises(make: Any) -> Any:
    """A handler that raises what `make` makes."""

    def work() -> None:
        raise make()

    return work


def returns(make: Any) -> Any:
    """A handler that returns what `make` makes."""

    def work() -> Any:
        return make()

    return work


def step(make: Any) -> Any:
    """A handler with a step whose result is what `make` makes."""

    def work(ctx: minuet.Context) -> Any:
        return ctx.step("step", make)

    return work


def cause(make: Any) -> Any:
    def work() -> None:
        try:
            raise make()
        except BaseException as error:
            raise RuntimeError("outer") from error

    return work


def group(make: Any) -> Any:
    def work() -> None:
        raise BaseExceptionGroup("several", [make(), ValueError("plain")])

    return work


#: Where hostile code runs: name → the handler.
HOOKS: dict[str, Any] = {
    "the handler": spring,
    "a dataclass argument": takes_a_dataclass,
    "a struct argument": takes_a_struct,
    "a step": step(spring),
    "the text of an exception": raises(RaisingText),
    "the text of a cause": cause(RaisingText),
    "the text in a group": group(RaisingText),
    "the code of an exception": raises(RaisingCode),
    "a code that is no text": raises(OddCode),
    "Retryable without after": raises(RaisingAfter),
    "the number in after": raises(lambda: minuet.Retryable("x", after=RaisingFloat())),  # type: ignore[arg-type]
    "the class of an exception": raises(RaisingClass),
    "the notes of an exception": raises(RaisingNotes),
    "the name of an exception's class": raises(RaisingKind),
    **{
        f"{name}, {how.__name__}": how(make)
        for how in (returns, step)
        for name, make in {
            "a mapping": RaisingMapping,
            "an object": RaisingObject,
            "an object inside": lambda: {"a": [RaisingObject()]},
            "a subclass of dict": lambda: RaisingDict(a=1),
            "a subclass of list": lambda: [RaisingList([1])],
            "dataclass fields": RaisingFields,
            "a field of a dataclass": RaisingField,
            "a class of a class": RaisingType,
            "what a node waits for": lambda: Wait("timer", delay_ms=1, data=RaisingObject()),
        }.items()
    },
}


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("hook", HOOKS)
async def test_user_code_that_raises_fails_its_node_at_once(hook: str, raised: str) -> None:
    _raised.append(RAISED[raised])
    handler = HOOKS[hook]

    async def asynchronous(ctx: minuet.Context) -> Any:
        value = handler(ctx) if "step" in hook else handler()
        return await value if asyncio.iscoroutine(value) else value

    binds = "argument" in hook
    config = {"order": {"number": 1}} if binds else {}
    # To be compared with the name of what was raised.
    retry = {**QUICK_RETRY, "max_attempts": 2, "no_retry_on": ["builtins.ArithmeticError"]}
    nodes = [task("work", config=config, retry=retry)]
    if not binds:
        nodes.append(task("asynchronous", retry=retry))
    # What runs the user's code is the same for every store.
    async with open_scene("memory://", {"work": handler, "asynchronous": asynchronous}) as s:
        for one in nodes:
            result = await s.run(workflow(one))

            assert result.status == "FAILED"
            assert result.error is not None
            assert result.error["node"] == one["id"]
            assert result.error["code"] != "crash_loop"
            assert result.error["message"]
            assert await s.count(result.run_id, "lease.expired") == 0
        # The worker lives, and takes at once.
        assert (await s.run(workflow(node("a")))).status == "COMPLETED"


#: Documents and inputs that raise inside of us: name → (nodes, input).
DOCUMENTS: dict[str, tuple[Any, Any]] = {
    "a list as a key": (task("work", config={"x": "{{ {[1]: 2} }}"}), None),
    "an object as a key, inline": (
        {"id": "work", "type": "transform", "config": {"value": "{{ {{}: 2} }}"}},
        None,
    ),
    "a list as a key of a slot": (
        task("work", concurrency={"key": "{{ {[1]: 2} }}", "limit": 1}),
        None,
    ),
    "a slot that is missing": (
        task("work", concurrency={"key": "{{ input.nothing }}", "limit": 1}),
        {},
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_document_that_raises_fails_its_node_at_once(scene: Any, name: str) -> None:
    one, value = DOCUMENTS[name]

    def work(x: Any = None) -> None: ...

    async with scene({"work": work}) as s:
        result = await s.run(workflow(one), value)

        assert result.status == "FAILED"
        assert result.error["node"] == "work"
        assert result.error["code"] == "template-error"
        assert await s.count(result.run_id, "lease.expired") == 0
        assert (await s.run(workflow(node("a")))).status == "COMPLETED"


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_outage_of_another_store_is_the_handlers_own_error(scene: Any, kind: str) -> None:
    attempts = []

    def work(ctx: minuet.Context) -> None:
        attempts.append(ctx.attempt)
        raise StoreUnavailableError("another store is away")

    async def work_async(ctx: minuet.Context) -> None:
        work(ctx)

    async with scene({"work": work if kind == "sync" else work_async}) as s:
        result = await s.run(workflow(task("work", retry=QUICK_RETRY)))

        assert result.status == "FAILED"
        assert result.error["code"] == "store-unavailable"
        # It may be back at the next attempt.
        assert attempts == [1, 2, 3]
        assert s.app.worker.counts.released == 0
