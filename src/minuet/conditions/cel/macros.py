"""Calls that are macros, recognised by name and number of arguments as in the specification."""

from __future__ import annotations

from minuet.conditions.cel.errors import TextError
from minuet.conditions.cel.tree import Bind, Call, Has, Loop, Name, Select, Tree

#: Macros over lists and maps. For each number of arguments: the number of names, and has filter.
_LOOPS: dict[str, dict[int, tuple[int, bool]]] = {
    "all": {2: (1, False), 3: (2, False)},
    "exists": {2: (1, False), 3: (2, False)},
    "exists_one": {2: (1, False), 3: (2, False)},
    "existsOne": {2: (1, False), 3: (2, False)},
    "map": {2: (1, False), 3: (1, True)},
    "filter": {2: (1, False)},
    "transformList": {3: (2, False), 4: (2, True)},
    "transformMap": {3: (2, False), 4: (2, True)},
}

_BINDS = ("optMap", "optFlatMap")

#: The names of all macros.
MACROS = frozenset({*_LOOPS, *_BINDS, "has", "cel.bind"})


def expand(call: Call) -> Tree:
    """The macro that a call is, or the call itself."""
    receiver, arguments = call.receiver, call.arguments
    if receiver is None:
        return _has(call) if call.function == "has" and len(arguments) == 1 else call
    if call.function in _LOOPS:
        form = _LOOPS[call.function].get(len(arguments))
        return call if form is None else _loop(call, receiver, *form)
    if call.function in _BINDS and len(arguments) == 2:
        return _bind(call, call.function, receiver, arguments[0], arguments[1])
    is_cel = isinstance(receiver, Name) and receiver.name == "cel"
    if is_cel and call.function == "bind" and len(arguments) == 3:
        return _bind(call, "bind", arguments[1], arguments[0], arguments[2])
    return call


def _has(call: Call) -> Tree:
    argument = call.arguments[0]
    if not isinstance(argument, Select):
        raise TextError("has() needs a field: has(output.name)", argument.start)
    return Has(
        operand=argument.operand,
        field=argument.field,
        optional=argument.optional,
        at=argument.at,
        start=call.start,
        end=call.end,
    )


def _loop(call: Call, over: Tree, count: int, filtered: bool) -> Tree:
    variables = tuple(_variable(call, argument) for argument in call.arguments[:count])
    if len(set(variables)) < count:
        raise TextError(f"{call.function}() needs two different names", call.at)
    macro = "exists_one" if call.function == "existsOne" else call.function
    return Loop(
        macro=macro,
        over=over,
        variables=variables,
        filter=call.arguments[count] if filtered else None,
        body=call.arguments[-1],
        at=call.at,
        start=call.start,
        end=call.end,
    )


def _bind(call: Call, macro: str, value: Tree, variable: Tree, body: Tree) -> Tree:
    return Bind(
        macro=macro,
        variable=_variable(call, variable),
        value=value,
        body=body,
        at=call.at,
        start=call.start,
        end=call.end,
    )


def _variable(call: Call, argument: Tree) -> str:
    if not isinstance(argument, Name) or argument.absolute:
        raise TextError(f"{call.function}() needs a name for its value here", argument.start)
    return argument.name
