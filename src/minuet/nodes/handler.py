"""Handlers: finding them, and calling them with a node's config.

A handler is a function. `@task` registers it under its name; a document may also name it as
`module:function`, but only in modules that the person who started the worker has named, and only
functions that such a module defines: a document must not be able to call what a module merely
imports.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    overload,
)

from minuet.errors import ConfigError, FunctionError, HandlerError
from minuet.nodes.binding import Binder, Misfit, hint_of
from minuet.nodes.building import BUILDING, NamedTask
from minuet.nodes.context import Context
from minuet.nodes.flowing import FLOWING, DurableFunction
from minuet.nodes.loading import document_name, load_module
from minuet.nodes.spec import Effects, NodeType
from minuet.nodes.values import Decode, result_decoder
from minuet.types import MEMORY_MB_MIN

if TYPE_CHECKING:
    from minuet.builder.node import Mapped, Node
    from minuet.nodes.stand_in import StandIn, StepStandIn

Function = Callable[..., Any]

#: Where attempts run: in a process of their own, or in that of the worker.
Isolation: TypeAlias = Literal["process", "none"]

#: Modules with handlers that come with Minuet.
_OURS = "minuet.nodes."

#: What a handler's function takes and what it returns: a coroutine, if it is async.
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result", covariant=True)
Awaited = TypeVar("Awaited")

#: The first parameter of a function, and the others.
Item = TypeVar("Item")
Others = ParamSpec("Others")


class Task(Generic[Parameters, Result]):
    """A function that can be a node's handler, and how it wants to be run.

    Calling it calls the function: to a type checker, it has the function's parameters and result.
    Inside `with minuet.Workflow(…)`, calling it adds a node instead, and returns the node. A type
    checker cannot know that; `named` always returns a node.
    """

    def __init__(
        self,
        function: Callable[Parameters, Result],
        *,
        name: str | None = None,
        retries: int | None = None,
        timeout: float | None = None,
        soft_timeout: float | None = None,
        effects: Effects | None = None,
        overlap: bool = False,
        isolation: Isolation = "none",
        max_memory_mb: int | None = None,
    ) -> None:
        check_effects(effects)
        check_isolation(isolation, max_memory_mb)
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or function.__name__
        #: Attempts beyond the first, for nodes without their own number; None: the default decides.
        self.retries = retries
        #: Seconds per attempt, for nodes without their own timeout.
        self.timeout = timeout
        #: Seconds after which an attempt should come to an end, for nodes without their own number.
        self.soft_timeout = soft_timeout
        #: Whether attempts run in a process of their own, for nodes that do not say it; and how
        #: much memory such a process may use, in MiB.
        self.isolation: Isolation = isolation
        self.max_memory_mb = max_memory_mb
        #: What its author says about running it twice; None: nothing.
        self.effects = effects
        #: Whether an attempt may begin while the thread of the one before still runs.
        self.overlap = overlap
        self.is_async = inspect.iscoroutinefunction(function)

    @functools.cached_property
    def _binder(self) -> Binder:
        # When it is first needed: hints may name what the module defines below the function.
        return Binder(self.name, self.function)

    @property
    def is_ours(self) -> bool:
        """Whether it comes with Minuet."""
        return self.function.__module__.startswith(_OURS)

    @property
    def place(self) -> str:
        """Where its function is defined: file and line."""
        return place_of(self.function)

    def is_same(self, other: AnyTask) -> bool:
        """Whether both come from one module, which may have been imported under two names, loaded
        again, or typed at a prompt."""
        if self.function is other.function:
            return True
        modules = {self.function.__module__, other.function.__module__}
        mine, theirs = _code_of(self.function), _code_of(other.function)
        if modules == {"__main__"} or mine is None or theirs is None:
            return len(modules) == 1
        return Path(mine.co_filename).resolve() == Path(theirs.co_filename).resolve()

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        building = BUILDING.get()
        if building is not None:
            node: Any = building.add_task(self, self.name, args, kwargs)
            return cast(Result, node)
        flowing = FLOWING.get()
        if flowing is not None:
            if not self.is_async:
                raise FunctionError(
                    f"{self.name} is a sync task: inside a durable function, write "
                    f"await {self.name}.step(…), which runs it in a thread"
                )
            return cast(Result, flowing.call_task(self, args, kwargs))
        return self.function(*args, **kwargs)

    @overload
    def step(
        self: Task[Parameters, Coroutine[Any, Any, Awaited]],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Coroutine[Any, Any, Awaited]: ...

    @overload
    def step(
        self, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Coroutine[Any, Any, Result]: ...

    def step(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Coroutine[Any, Any, Any]:
        """Inside a durable function: a step that runs the task. Await it."""
        flowing = FLOWING.get()
        if flowing is None:
            raise FunctionError(
                f"{self.name}.step(…) is a step of a durable function: await it inside a function "
                "with @minuet.workflow"
            )
        return flowing.call_task(self, args, kwargs)

    @functools.cached_property
    def decode_result(self) -> Decode:
        """Rebuilds what the function returns."""
        return result_decoder(self.function)

    def named(self, node_id: str | None = None) -> NamedTask:
        """The task, to be called for a node with this id. Without one, the id is its name."""
        return NamedTask(self, self.name if node_id is None else node_id)

    # One that is given without its name is checked: nothing else of the arguments can be, beside
    # parameters of our own.

    @overload
    def map(
        self: Task[Concatenate[Item, Others], Coroutine[Any, Any, Awaited]],
        items: Iterable[Item] | str,
        /,
        *arguments: Any,
        max_parallel: int | None = None,
        need: int | None = None,
        return_exceptions: Literal[False] = False,
        **config: Any,
    ) -> Mapped[list[Awaited]]: ...

    @overload
    def map(
        self: Task[Concatenate[Item, Others], Coroutine[Any, Any, Awaited]],
        items: Iterable[Item] | str,
        /,
        *arguments: Any,
        max_parallel: int | None = None,
        return_exceptions: Literal[True],
        **config: Any,
    ) -> Mapped[list[Awaited | Exception]]: ...

    @overload
    def map(
        self: Task[Concatenate[Item, Others], Awaited],
        items: Iterable[Item] | str,
        /,
        *arguments: Any,
        max_parallel: int | None = None,
        need: int | None = None,
        return_exceptions: Literal[False] = False,
        **config: Any,
    ) -> Mapped[list[Awaited]]: ...

    @overload
    def map(
        self: Task[Concatenate[Item, Others], Awaited],
        items: Iterable[Item] | str,
        /,
        *arguments: Any,
        max_parallel: int | None = None,
        return_exceptions: Literal[True],
        **config: Any,
    ) -> Mapped[list[Awaited | Exception]]: ...

    @overload
    def map(
        self, *, max_parallel: int | None = None, need: int | None = None, **config: Any
    ) -> Node: ...

    # mypy wants a name for what the overloads take first.
    def map(  # type: ignore[misc]
        self: AnyTask,
        *arguments: Any,
        max_parallel: int | None = None,
        need: int | None = None,
        return_exceptions: bool = False,
        **config: Any,
    ) -> Any:
        """Call the task once for each item of the first argument, a list. The other arguments are
        the same for every item. `max_parallel` is how many items run at once.

        Inside a durable function: a step for each item; `await` gives the list of their results, in
        the order of the items. The first error cancels the other steps and is raised; with
        `return_exceptions`, all steps run, and an error is the result of its item.

        Inside `with minuet.Workflow(…)`: add a node with an instance for each item; `need` is how
        many must complete.
        """
        flowing = FLOWING.get() if BUILDING.get() is None else None
        if flowing is None:
            if return_exceptions:
                raise ConfigError(
                    f"{self.name}.map(…, return_exceptions=True) is for durable functions: of a "
                    'node, write .foreach(…, on_item_error="continue")'
                )
            named = self.named()
            return named.map(*arguments, max_parallel=max_parallel, need=need, **config)
        if need is not None:
            raise FunctionError(
                f"{self.name}.map(…, need={need!r}) is for nodes: inside a durable function, count "
                "the results of return_exceptions=True"
            )
        return flowing.call_for_each(
            self,
            arguments,
            config,
            max_parallel=max_parallel,
            return_exceptions=return_exceptions,
        )

    def call_with(self, arguments: Mapping[str, Any], context: Context) -> Any:
        """Call the function with arguments by name, and with the context if it takes one."""
        function: Function = self.function
        name = self._binder.context_name
        if name is None or name in arguments:
            return function(**arguments)
        return function(**arguments, **{name: context})

    @property
    def takes_context(self) -> bool:
        """Whether its function gets the context."""
        return self._binder.context_name is not None

    def name_arguments(self, positional: tuple[Any, ...]) -> dict[str, Any]:
        """Positional arguments by name; HandlerError if there are too many."""
        return self._binder.name(positional)

    def bind(self, config: Mapping[str, Any], context: Context) -> dict[str, Any]:
        """The function's arguments, from a node's config; HandlerError when they do not fit."""
        return self._binder.bind(config, context)

    def takes(self, name: str) -> bool:
        """Whether the function has an argument of this name, which a config may give."""
        return self._binder.takes(name)

    def misfits(self, names: Collection[str], *, complete: bool = True) -> list[Misfit]:
        """What is wrong with a config of these names; more may come unless it is complete."""
        return list(self._binder.misfits(names, complete=complete))


#: A task whose parameters and result do not matter.
AnyTask: TypeAlias = Task[..., Any]


def check_effects(effects: Effects | None) -> None:
    """ConfigError unless it is what may be declared."""
    if effects is not None and effects not in get_args(Effects):
        raise ConfigError(f"effects must be 'none', 'idempotent' or 'once', not {effects!r}")


def check_isolation(isolation: Isolation, max_memory_mb: int | None) -> None:
    """ConfigError unless both are what may be declared, and fit together."""
    if isolation not in get_args(Isolation):
        raise ConfigError(f"isolation must be 'process' or 'none', not {isolation!r}")
    if max_memory_mb is not None and isolation != "process":
        raise ConfigError('max_memory_mb needs isolation="process"')
    if max_memory_mb is not None and not max_memory_mb >= MEMORY_MB_MIN:
        raise ConfigError(f"max_memory_mb must be at least {MEMORY_MB_MIN}, not {max_memory_mb!r}")


def place_of(function: Function) -> str:
    """Where a function is defined: file and line."""
    code = _code_of(function)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def _file_of(place: str) -> Path:
    return Path(place.rpartition(":")[0]).resolve()


def _code_of(function: Function) -> CodeType | None:
    """The code of a function, below what decorates it."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code if isinstance(code, CodeType) else None


class Handlers:
    """The handlers that a worker can run."""

    def __init__(self, parent: Handlers | None = None) -> None:
        #: Searched for names that are not found here.
        self._parent = parent
        self._tasks: dict[str, AnyTask] = {}
        self._types: dict[str, NodeType] = {}
        self._functions: dict[str, DurableFunction] = {}
        self._modules: dict[str, ModuleType] = {}
        #: What is called instead of these nodes' handlers and types, by workflow and node.
        self.stand_ins: dict[tuple[str, str], StandIn] = {}
        #: What is called instead of steps of durable functions, by their names.
        self.step_stand_ins: Mapping[str, StepStandIn] = {}
        #: Whether steps are tried again at once: a play skips all waits.
        self.skips_delays = False
        #: Whether handlers that ask for it run in processes of their own. Not in a play: its stubs
        #: and its time are of one process.
        self.isolates = True

    def add(self, task: AnyTask) -> None:
        """Register a task under its name. One of the same name from the same module is replaced;
        ConfigError names both places if it is from another."""
        known = self._tasks.get(task.name)
        if known is not None and not known.is_same(task):
            raise ConfigError(
                f"there are two handlers {task.name!r}, at {known.place} and at {task.place}: "
                'rename one of them, for example with @minuet.task(name="…")'
            )
        self._tasks[task.name] = task

    def __len__(self) -> int:
        """How many handlers and types are registered; grows whenever a name is added."""
        own = len(self._tasks) + len(self._types) + len(self._functions)
        return own + (len(self._parent) if self._parent is not None else 0)

    def names(self) -> list[str]:
        """All registered names."""
        inherited = self._parent.names() if self._parent is not None else []
        return sorted({*self._tasks, *inherited})

    def add_function(self, found: DurableFunction) -> None:
        """Register a durable function. One of the same name from the same file is replaced;
        ConfigError names both places if it is from another."""
        known = self._functions.get(found.name)
        if known is not None and _file_of(known.place) != _file_of(found.place):
            raise ConfigError(
                f"there are two durable functions {found.name!r}, at {known.place} and at "
                f'{found.place}: rename one of them, for example with @minuet.workflow(name="…")'
            )
        self._functions[found.name] = found

    def find_function(self, name: str) -> DurableFunction:
        """The durable function of this name; HandlerError if there is none."""
        found = self.functions_by_name().get(name)
        if found is None:
            raise HandlerError(
                f"there is no durable function {name!r}{hint_of(name, self.functions_by_name())}; "
                "write @minuet.workflow above it and name its module with --handlers"
            )
        return found

    def functions_by_name(self) -> dict[str, DurableFunction]:
        """All durable functions that are registered."""
        inherited = self._parent.functions_by_name() if self._parent is not None else {}
        return {**inherited, **self._functions}

    def add_type(self, found: NodeType) -> None:
        """Register a node type. One of the same name from the same file is replaced; ConfigError
        names both places if it is from another."""
        known = self._types.get(found.name)
        if known is not None and _file_of(known.place) != _file_of(found.place):
            raise ConfigError(
                f"there are two node types {found.name!r}, at {known.place} and at {found.place}: "
                "rename one of them"
            )
        self._types[found.name] = found

    def find_type(self, name: str) -> NodeType | None:
        """The node type that was registered under this name."""
        found = self._types.get(name)
        if found is None and self._parent is not None:
            found = self._parent.find_type(name)
        return found

    def types(self) -> dict[str, NodeType]:
        """All node types that were registered, by name."""
        inherited = self._parent.types() if self._parent is not None else {}
        return {**inherited, **self._types}

    def are_given(self) -> bool:
        """Whether there are handlers or node types beside those that come with Minuet."""
        found = map(self._registered, self.names())
        given = bool(self.functions()) or any(one is not None and not one.is_ours for one in found)
        return given or bool(self.types()) or bool(self.functions_by_name())

    def functions(self) -> list[str]:
        """What documents may name as `module:function`."""
        return sorted(
            f"{name}:{attribute}"
            for name, module in self._modules.items()
            for attribute in _nameable(module)
        )

    def allow(self, module: ModuleType) -> None:
        """Let documents name functions of this module as `module:function`."""
        name = document_name(module)
        known = self._modules.get(name, module)
        if known.__dict__.get("__file__") != module.__dict__.get("__file__"):
            raise ConfigError(
                f"there are two modules {name!r} with handlers, {known.__file__} and "
                f"{module.__file__}: rename one of them"
            )
        self._modules[name] = module
        for value in vars(module).values():
            if isinstance(value, Task):
                self.add(value)
            elif isinstance(value, DurableFunction):
                self.add_function(value)

    def replace(self, module: ModuleType) -> None:
        """Allow a module that was imported again, in the place of what it was before."""
        name = document_name(module)
        for function in [known for known in self._tasks if known.startswith(f"{name}:")]:
            del self._tasks[function]
        self.allow(module)

    def load(self, module_or_file: str) -> None:
        """Import a module, or a Python file, and allow its functions."""
        self.allow(load_module(module_or_file))

    def find(self, name: str) -> AnyTask:
        """The handler of this name; HandlerError says how to get it when there is none."""
        task = self._registered(name)
        if task is None and ":" in name:
            task = self._tasks[name] = self._find_in_module(name)
        if task is None:
            raise HandlerError(
                self._unregistered(name)
                or f"there is no handler {name!r}{hint_of(name, self.names())}; register it with "
                "@minuet.task and name its module with --handlers"
            )
        return task

    def _unregistered(self, name: str) -> str | None:
        """The message about a function of this name that exists but is not registered."""
        for module_name, module in self._modules.items():
            found = vars(module).get(name)
            if inspect.isfunction(found) and name in _nameable(module):
                return (
                    f"there is no handler {name!r}, but a function at {Task(found).place}: write "
                    f"@minuet.task above it, or name it as '{module_name}:{name}'"
                )
        return None

    def _registered(self, name: str) -> AnyTask | None:
        handlers: Handlers | None = self
        while handlers is not None:
            task = handlers._tasks.get(name)
            if task is not None:
                return task
            handlers = handlers._parent
        return None

    def _find_in_module(self, name: str) -> AnyTask:
        module_name, _, attribute = name.partition(":")
        module = self._modules.get(module_name)
        if module is None:
            raise HandlerError(
                f"handler {name!r} is in a module that this worker was not given: "
                f"start it with --handlers {module_name}"
            )
        if attribute not in _nameable(module):
            raise HandlerError(
                f"module {module_name!r} {_why_not(module, attribute)}"
                f"{hint_of(attribute, _nameable(module))}"
            )
        found = vars(module)[attribute]
        return found if isinstance(found, Task) else Task(found, name=name)


def _nameable(module: ModuleType) -> list[str]:
    """The handlers of a module that a document may name: those that are registered, and public
    functions that it defines under their own name."""
    return [
        name
        for name, value in vars(module).items()
        if isinstance(value, Task)
        or (
            inspect.isfunction(value)
            and value.__module__ == module.__name__
            and value.__qualname__ == name
            and not name.startswith("_")
        )
    ]


def _why_not(module: ModuleType, name: str) -> str:
    """Why a document cannot name this of a module."""
    if callable(vars(module).get(name)):
        return (
            f"has {name!r}, but it is not a public function that the module defines: a document "
            "cannot name it unless @minuet.task registers it"
        )
    return f"has no function {name!r}"


#: Where `@task` registers.
REGISTERED = Handlers()


@overload
def task(function: Callable[Parameters, Result], /) -> Task[Parameters, Result]: ...


@overload
def task(
    *,
    name: str | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    soft_timeout: float | None = None,
    effects: Effects | None = None,
    overlap: bool = False,
    isolation: Isolation = "none",
    max_memory_mb: int | None = None,
) -> Callable[[Callable[Parameters, Result]], Task[Parameters, Result]]: ...


def task(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    retries: int | None = None,
    timeout: float | None = None,
    soft_timeout: float | None = None,
    effects: Effects | None = None,
    overlap: bool = False,
    isolation: Isolation = "none",
    max_memory_mb: int | None = None,
) -> AnyTask | Callable[[Function], AnyTask]:
    """Make a function a handler, registered under its name.

    `retries` are attempts beyond the first, whatever the function raises (but NonRetryable);
    `timeout` is seconds per attempt; after `soft_timeout` seconds, `ctx.out_of_time` tells the
    handler to come to an end. What the document says wins over them.
    `effects` says what running it twice would do: "none" (it changes nothing), "idempotent"
    (nothing more than once), "once" (harm).
    A sync handler that times out cannot be stopped; its next attempt in the same process waits
    until its thread has ended, unless `overlap` is true. With `isolation="process"` each attempt
    runs in a process of its own, which can be killed; `max_memory_mb` limits its memory.
    """

    def register(function: Function) -> AnyTask:
        made = Task(
            function,
            name=name,
            retries=retries,
            timeout=timeout,
            soft_timeout=soft_timeout,
            effects=effects,
            overlap=overlap,
            isolation=isolation,
            max_memory_mb=max_memory_mb,
        )
        REGISTERED.add(made)
        return made

    return register(function) if function is not None else register


@task(name="input", effects="none")
def input_handler(ctx: Context, **config: Any) -> Any:
    """Return the run's input, or the config when the node has one."""
    return config or ctx.input


@task(name="output", effects="none")
def output_handler(ctx: Context, **config: Any) -> Any:
    """Return the config when the node has one, or the inputs, by dependency."""
    return config or dict(ctx.inputs)
