"""The layers of the package: which part may import which, and what the source imports.

The table of packages in ARCHITECTURE.md is made from this, and from the packages' docstrings.
Imports inside functions and under TYPE_CHECKING count too: a layer that needs the types of a
higher one depends on it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

BASE = {"errors", "types", "moments"}
BELOW_WORKER = BASE | {
    *(
        "clock",
        "ids",
        "events",
        "scopes",
        "approvals",
        "schemas",
        "conditions",
        "templates",
        "model",
        "plan",
        "kernel",
    ),
    *("store", "telemetry", "bridge", "nodes", "functions"),
}
BELOW_APP = BELOW_WORKER | {"worker", "webhooks", "settings", "blobs"}
#: What programs and people touch reaches the store through the app only.
OUTSIDE = (BELOW_APP | {"app", "minuet", "outcomes"}) - {"store", "blobs"}

#: Which parts of the package each part may import, itself aside; the lowest part first. `minuet`
#: is the package's own namespace: it loads the public names lazily, so it may import anything.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "types": set(),
    "moments": set(),
    "clock": set(),
    "ids": set(),
    "events": BASE,
    "scopes": BASE,
    "approvals": BASE,
    "schemas": BASE,
    "conditions": BASE | {"schemas"},
    "templates": BASE,
    "model": BASE | {"conditions", "templates"},
    "plan": BASE | {"model", "conditions", "templates", "schemas"},
    "kernel": BASE | {"events", "scopes", "approvals", "plan", "conditions"},
    "blobs": BASE,
    "store": BASE | {"events", "scopes", "clock", "blobs"},
    "settings": BASE,
    "telemetry": BASE | {"clock", "store"},
    "outcomes": BASE,
    "nodes": BASE | {"approvals", "schemas", "templates", "conditions"},
    # The only part that knows the kernel's types and the store's.
    "bridge": BASE
    | {"clock", "events", "plan", "conditions", "templates", "kernel", "store", "nodes"},
    "functions": BASE | {"model", "nodes"},
    "builder": BASE | {"conditions", "templates", "model", "nodes", "bridge"},
    "webhooks": BASE
    | {"clock", "ids", "events", "approvals", "plan", "kernel", "store", "nodes", "bridge"},
    "worker": BELOW_WORKER,
    "app": BELOW_APP | {"outcomes"},
    "demo": OUTSIDE,
    # It puts the whole engine, its stores included, into a world of its own.
    "simulation": BELOW_APP | {"app"},
    # It puts a user's workflow into that world.
    "rehearsal": BELOW_APP | {"app", "simulation"},
    # It plays a user's workflow on the real engine; it knows nothing of the simulated world.
    "testing": BELOW_APP | {"app"},
    # Routes show what the app answers, as the terminal does.
    "api": {"minuet", "errors", "types", "outcomes", "plan", "app"},
    # The facade once more, in terms of HTTP: it names the types of what it answers.
    "client": BASE
    | {"app", "api", "approvals", "bridge", "events", "model", "nodes", "plan", "scopes", "worker"},
    # The terminal shows what the app answers: it knows neither the engine nor the store.
    "cli": (OUTSIDE | {"demo", "rehearsal", "testing", "api", "client"})
    - {"kernel", "bridge", "worker", "conditions"}
    - {"templates", "ids"},
    "__main__": {"cli"},
}

#: For a type in a signature only: an error that carries diagnostics names their class, and a task
#: that is called inside a workflow returns a node of it.
EXCEPTIONS = {
    ("minuet.errors", "minuet.model.diagnostics"),
    ("minuet.nodes.building", "minuet.builder.node"),
    ("minuet.nodes.handler", "minuet.builder.node"),
}


def forbidden_imports(
    name: str, nodes: Iterable[ast.AST], *, is_package: bool = False
) -> Iterator[tuple[int, str]]:
    """Give line and target of each import that the module's layer may not have."""
    part = part_of(name)
    if part == "minuet":
        return
    allowed = MAY_IMPORT.get(part, set()) | {part}
    for line, target in our_imports(name, nodes, is_package=is_package):
        if part_of_target(target) not in allowed and not is_exempt(name, target):
            yield line, target


def is_exempt(name: str, target: str) -> bool:
    return any(
        name == source and f"{target}.".startswith(f"{module}.") for source, module in EXCEPTIONS
    )


def our_imports(
    name: str, nodes: Iterable[ast.AST], *, is_package: bool
) -> Iterator[tuple[int, str]]:
    """Give line and full name of everything of ours that a module imports."""
    for line, target in every_import(name, nodes, is_package=is_package):
        if target.split(".")[0] == "minuet":
            yield line, target


def every_import(
    name: str, nodes: Iterable[ast.AST], *, is_package: bool
) -> Iterator[tuple[int, str]]:
    """Give line and full name of everything that a module imports."""
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
            for target in imported_names(name, node, is_package=is_package):
                yield node.lineno, target


def imported_names(name: str, node: ast.AST, *, is_package: bool) -> list[str]:
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=module, names=aliases, level=level):
            # A relative import counts its dots from the package that the module is in.
            parents = name.split(".") + ([""] if is_package else [])
            base = [*parents[:-level], *([module] if module else [])] if level else [module or ""]
            return [".".join([*base, alias.name]) for alias in aliases]
        case ast.Call(func=function, args=[ast.Constant(value=str(target)), *_]):
            return [target] if ast.unparse(function).endswith("import_module") else []
        case _:
            return []


def part_of(name: str) -> str:
    """The part that a module of ours is in: `kernel` for `minuet.kernel.scope`."""
    return name.split(".")[1] if "." in name else name


def part_of_target(name: str) -> str:
    """The part that an imported name of ours is in; a public name is in `minuet` itself."""
    part = part_of(name)
    is_public_name = name.count(".") == 1 and part not in MAY_IMPORT
    return "minuet" if is_public_name else part
