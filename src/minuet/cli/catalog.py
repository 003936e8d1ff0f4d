"""`minuet node-types`: what a node can be."""

from __future__ import annotations

from argparse import Namespace

import msgspec

from minuet import outcomes
from minuet.app import shapes
from minuet.cli.output import print_json, print_table
from minuet.errors import ConfigError
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.spec import NodeType


def node_types(arguments: Namespace) -> int:
    """List the node types that can run, or show one."""
    if arguments.name is not None:
        found = _find(arguments.name)
        if arguments.output == "json":
            print_json(shapes.node_type(found))
        else:
            print(to_text(found))
        return outcomes.COMPLETED
    usable = [found for found in NODE_TYPES.values() if found.kind != "later"]
    if arguments.output == "json":
        print_json([shapes.node_type(found) for found in usable])
    else:
        print_table(("type", "does"), [(found.name, found.summary) for found in usable])
    return outcomes.COMPLETED


def to_text(found: NodeType) -> str:
    """A node type for people."""
    parts = [f"{found.name}: {found.summary}"]
    if found.description:
        parts.append(found.description)
    parts.append(f"output: {found.output}")
    for title, value in (("config", found.config_schema), ("example", found.example)):
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        parts.append(f"{title}:\n{text}")
    return "\n\n".join(parts)


def _find(name: str) -> NodeType:
    found = NODE_TYPES.get(name)
    if found is None:
        import difflib

        close = difflib.get_close_matches(name, NODE_TYPES, n=1)
        hint = f": did you mean {close[0]!r}?" if close else "; minuet node-types lists them"
        raise ConfigError(f"there is no node type {name!r}{hint}")
    if found.kind == "later":
        raise ConfigError(f"node type {name!r} comes in a later version")
    return found
