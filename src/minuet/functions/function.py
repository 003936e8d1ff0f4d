"""`@minuet.workflow`: a durable function, which is a workflow of one node."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, overload

from minuet.errors import ConfigError, FunctionError, HandlerError
from minuet.model import Document, DocumentSource, read_mapping
from minuet.nodes.binding import Misfit, find_misfits
from minuet.nodes.flowing import DurableFunction
from minuet.nodes.handler import REGISTERED, place_of
from minuet.nodes.values import Decode, annotations_of, decoders, properties_of, result_decoder

if TYPE_CHECKING:
    from minuet.functions.flow import Flow

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
Body = Callable[..., Coroutine[Any, Any, Any]]


class Function(DurableFunction, DocumentSource[Any, Result], Generic[Parameters, Result]):
    """An async function whose progress is kept: it goes on after a crash, and after a wait.

    Everything that takes a workflow takes a function. Its input is an object with the function's
    arguments, and its output is what the function returns.
    """

    def __init__(
        self,
        function: Callable[..., Coroutine[Any, Any, Result]],
        *,
        name: str | None = None,
        deadline: float | None = None,
        secrets: tuple[str, ...] = (),
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or function.__name__
        #: Seconds that a run may take.
        self.deadline = deadline
        #: The secrets that its tasks may read.
        self.secrets = tuple(secrets)
        if not inspect.iscoroutinefunction(function):
            raise ConfigError(
                f"{self.place}: @minuet.workflow takes an async function, and {self.name} is not: "
                "write async def"
            )
        parameters = list(inspect.signature(self.function).parameters.values())
        wrong = [p.name for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if not parameters or wrong or parameters[0].kind is parameters[0].KEYWORD_ONLY:
            raise ConfigError(
                f"{self.place}: {self.name} must take ctx first, and then arguments with names: "
                f"async def {self.name}(ctx: minuet.Flow, order_id: int)"
            )
        own = parameters[1:]
        self._names = [p.name for p in own]
        self._positional = [p.name for p in own if p.kind is not p.KEYWORD_ONLY]
        self._required = [p.name for p in own if p.default is p.empty]

    # When they are first needed: annotations may name what the module defines below the function.

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        annotations = annotations_of(self.function)
        return {name: annotations[name] for name in self._names if name in annotations}

    @functools.cached_property
    def _decoders(self) -> dict[str, Decode]:
        return decoders(self._hints)

    @functools.cached_property
    def decode_result(self) -> Decode:
        """Rebuilds what it returns."""
        return result_decoder(self.function)

    @property
    def place(self) -> str:
        """Where it is defined: file and line."""
        return place_of(self.function)

    def __call__(self, *_: Parameters.args, **__: Parameters.kwargs) -> NoReturn:
        raise FunctionError(
            f"{self.name} is a durable function and cannot be called directly: use "
            f"minuet.run({self.name}, {{…}}), await app.start({self.name}, {{…}}), or inside "
            f"another one await ctx.start({self.name}, …)"
        )

    def name_input(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as the input of a run; TypeError when they do not fit."""
        if len(args) > len(self._positional):
            raise TypeError(
                f"{self.name}() takes {len(self._positional)} arguments after ctx, and "
                f"{len(args)} are given"
            )
        named = dict(zip(self._positional, args, strict=False))
        twice = named.keys() & kwargs.keys()
        if twice:
            raise TypeError(f"{self.name}() got several values for {', '.join(sorted(twice))}")
        named.update(kwargs)
        for misfit in self.misfits(named):
            raise TypeError(misfit.message)
        return named

    def misfits(self, names: Collection[str], *, complete: bool = True) -> list[Misfit]:
        """What is wrong with a config of these names; none are the run's input instead."""
        if not names:
            return []
        who = f"function {self.name!r}"
        required = self._required if complete else []
        return list(find_misfits(who, names, self._names, required))

    def bind(self, config: Mapping[str, Any], input: Any) -> dict[str, Any]:
        """The arguments: of a node's config or, if it has none, of the run's input."""
        given: Any = config
        if not config and self._names:
            given = {} if input is None else input
            if not isinstance(given, dict):
                raise HandlerError(
                    f"function {self.name!r} takes an object with its arguments, not "
                    f"{type(given).__name__}: {{{', '.join(f'{n}: …' for n in self._names)}}}"
                )
        who = f"function {self.name!r}"
        for misfit in find_misfits(who, given, self._names, self._required):
            raise HandlerError(misfit.message)
        arguments = dict(given)
        for name, decode in self._decoders.items():
            if name in arguments:
                arguments[name] = decode(arguments[name], f"{who}, argument {name!r}")
        return arguments

    def to_dict(self) -> dict[str, Any]:
        """Its document."""
        node: dict[str, Any] = {"id": self.name, "type": "flow", "handler": self.name}
        if self.secrets:
            node["secrets"] = list(self.secrets)
        # Its steps have retries of their own; what it raises is final.
        node["retry"] = {"max_attempts": 1}
        document: dict[str, Any] = {"name": self.name}
        description = inspect.getdoc(self.function)
        if description:
            document["description"] = description.splitlines()[0]
        document["input"] = {
            "type": "object" if self._required else ["object", "null"],
            **properties_of({name: self._hints.get(name, Any) for name in self._names}),
            "required": self._required,
            "additionalProperties": False,
        }
        if self.deadline is not None:
            document["limits"] = {"deadline_s": self.deadline}
        document["nodes"] = [node]
        return document

    @functools.cached_property
    def output_type(self) -> Any:
        """What it is annotated to return."""
        return annotations_of(self.function).get("return", Any)

    def read(self) -> Document:
        return read_mapping(self.to_dict(), source=self.place)


@overload
def workflow(
    function: Callable[Concatenate[Flow, Parameters], Coroutine[Any, Any, Result]], /
) -> Function[Parameters, Result]: ...


@overload
def workflow(
    *,
    name: str | None = None,
    deadline: float | None = None,
    secrets: tuple[str, ...] | list[str] = (),
) -> Callable[
    [Callable[Concatenate[Flow, Parameters], Coroutine[Any, Any, Result]]],
    Function[Parameters, Result],
]: ...


def workflow(
    function: Body | None = None,
    /,
    *,
    name: str | None = None,
    deadline: float | None = None,
    secrets: tuple[str, ...] | list[str] = (),
) -> Any:
    """Make an async function durable, registered under its name.

        @minuet.workflow
        async def order(ctx: minuet.Flow, order_id: int) -> dict:
            parcel = await ship(await fetch(order_id))
            await ctx.sleep(days=1)
            return {"parcel": parcel}

    Awaiting a task inside it is a step, whose result is kept. `deadline` is the number of seconds
    that a run may take; `secrets` are those that its tasks may read.
    """

    def register(function: Body) -> Function[Any, Any]:
        made: Function[Any, Any] = Function(
            function, name=name, deadline=deadline, secrets=tuple(secrets)
        )
        REGISTERED.add_function(made)
        return made

    return register(function) if function is not None else register
