"""The registry of node types: what users register, kept in the store for everybody to see.

A worker announces its registered types when it begins. So a server that has none of their code can
list them, with their schemas. Each version of a type is a cell of the store; the same version
announced again replaces what is said of it, and keeps the time of the first.

    node_types/TENANT/NAME/VERSION
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from minuet.bridge.pages import read_cells
from minuet.nodes.spec import NodeType, NodeTypeInfo
from minuet.store.base import Store
from minuet.store.records import CellChange

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NodeTypeInfo).decode


async def announce(store: Store, tenant: str, types: Iterable[NodeType], now_ms: int) -> None:
    """Say what can be said of these types."""
    known = {cell.name: cell.data async for cell in read_cells(store, _folder(tenant))}
    changes = []
    for found in types:
        name = f"{_folder(tenant)}{quote(found.name, safe='')}/{quote(found.version, safe='')}"
        before = known.get(name)
        created_ms = _decode(before).created_ms if before is not None else now_ms
        data = _encode(_info(found, created_ms))
        if data != before:
            changes.append(CellChange(name, data, is_checked=True, expected=before))
    # If another worker announces them at the same moment, one of the two has done it.
    if changes:
        await store.write_cells(changes)


async def list_announced(store: Store, tenant: str) -> list[NodeTypeInfo]:
    """The types that workers of this tenant have announced, by name; of several versions, the one
    that was announced last."""
    found: dict[str, NodeTypeInfo] = {}
    async for cell in read_cells(store, _folder(tenant)):
        one = _decode(cell.data)
        other = found.get(one.name)
        if other is None or (other.created_ms or 0) <= (one.created_ms or 0):
            found[one.name] = one
    return list(found.values())


def _info(found: NodeType, created_ms: int | None) -> NodeTypeInfo:
    fields = {name: getattr(found, name) for name in NodeTypeInfo.__struct_fields__}
    return NodeTypeInfo(**(fields | {"created_ms": created_ms}))


def _folder(tenant: str) -> str:
    return f"node_types/{quote(tenant, safe='')}/"
