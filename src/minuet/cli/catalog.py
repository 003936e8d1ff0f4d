"""`minuet node-types`: what a node can be."""

from __future__ import annotations

from argparse import Namespace

import msgspec

from minuet import outcomes
from minuet.app import shapes
from minuet.app.handlers import all_types, make_handlers
from minuet.cli.output import print_json, print_table
from minuet.errors import ConfigError
from minuet.nodes.handler import REGISTERED, Handlers
from minuet.nodes.spec import NodeType
from minuet.types import Json


def node_types(arguments: Namespace) -> int:
    """List the node types that can run, or show one."""
    types = all_types(_handlers(arguments.handlers))
    if arguments.name is not None:
        found = _find(arguments.name, types)
        if arguments.output == "json":
            print_json(shapes.node_type(found))
        else:
            print(to_text(found))
        return outcomes.COMPLETED
    usable = [found for found in types.values() if found.kind != "later"]
    if arguments.output == "json":
        print_json([shapes.node_type(found) for found in usable])
    else:
        rows = [(found.name, found.version, found.summary) for found in usable]
        print_table(("type", "version", "does"), rows)
    return outcomes.COMPLETED


def _handlers(names: list[str]) -> Handlers:
    if not names:
        return REGISTERED
    # Imported here, because the list alone does not need it.
    from minuet.cli.handlers import load_handlers

    return make_handlers(load_handlers(names))


def to_text(found: NodeType) -> str:
    """A node type for people."""
    called = f" ({found.display_name})" if found.display_name else ""
    parts = [f"{found.name}{called}, version {found.version}: {found.summary}"]
    if found.description:
        parts.append(found.description)
    parts.append(f"output: {found.output}")
    parts.append(f"queue: {found.queue}")
    if found.timeout_seconds is not None:
        parts.append(f"timeout: {found.timeout_seconds:g} s")
    if found.capabilities:
        named = (f"{name}={_text(value)}" for name, value in found.capabilities.items())
        parts.append(f"capabilities: {', '.join(named)}")
    if found.place:
        parts.append(f"defined at: {found.place}")
    shown = (
        ("config", found.config_schema),
        ("output schema", found.output_schema),
        ("example", found.example),
    )
    for title, value in shown:
        if value:
            text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
            parts.append(f"{title}:\n{text}")
    return "\n\n".join(parts)


def _text(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _find(name: str, types: dict[str, NodeType]) -> NodeType:
    found = types.get(name)
    if found is None:
        import difflib

        close = difflib.get_close_matches(name, types, n=1)
        hint = f": did you mean {close[0]!r}?" if close else "; minuet node-types lists them"
        raise ConfigError(f"there is no node type {name!r}{hint}")
    if found.kind == "later":
        raise ConfigError(f"node type {name!r} comes in a later version")
    return found
