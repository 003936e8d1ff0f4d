"""The hidden nodes of a foreach, and what an item sees.

The list is rendered once. A short one travels with every item; a longer one is cut into chunks,
which are stored as blobs of the run. A worker loads the chunk that it needs and keeps it, decoded,
for the next items.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from minuet.bridge.values import encode
from minuet.kernel.foreach import Listed, check_list, gather
from minuet.kernel.settle import AttemptFailed, Items, Outcome, Succeeded, list_items
from minuet.plan.plan import Node
from minuet.types import Json
from minuet.worker.assignment import Assignment
from minuet.worker.rendering import render_config

#: The largest list that travels with its items, and the least size of a chunk.
LISTED_BYTES_MAX = 8 * 1024
CHUNK_BYTES = 64 * 1024

#: How many chunks a list has at most, or about that: their names travel with every item.
CHUNKS_MAX = 64

#: Chunks that a worker keeps.
KEPT_MAX = 32


class Chunks:
    """Decoded chunks by reference; the least recently used goes first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, list[Json]] = OrderedDict()

    def find(self, ref: str) -> list[Json] | None:
        """A chunk that is at hand."""
        found = self._kept.get(ref)
        if found is not None:
            self._kept.move_to_end(ref)
        return found

    def keep(self, ref: str, data: bytes | bytearray) -> list[Json]:
        """Decode a chunk and have it at hand."""
        found = self._kept[ref] = msgspec.json.decode(data, type=list[Json])
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return found


def run_hidden(assignment: Assignment, node: Node) -> Outcome:
    """Render the list of a foreach, or gather what its items gave."""
    each, bytes_max = node.foreach, assignment.facts.max_output_bytes
    assert each is not None
    if each.role == "items":
        assignment.output, value = encode(
            render_config(assignment, node)["items"], bytes_max=bytes_max
        )
        problem = check_list(each, value)
        if problem is not None:
            return problem
        assert assignment.loaded is not None
        items = assignment.items = list_items(node, len(value))
        if len(assignment.output) <= LISTED_BYTES_MAX:
            listed = Listed(items.count, items.window, items=value)
            assignment.output = msgspec.json.encode(listed)
        return Succeeded(value)
    if assignment.listed(each.node) is None:
        return AttemptFailed(assignment.list_error(each.node))
    outcome = gather(each, assignment.arrived(each.node))
    if isinstance(outcome, Succeeded):
        assignment.output, value = encode(outcome.output, bytes_max=bytes_max)
        return Succeeded(value)
    return outcome


def is_long_list(assignment: Assignment) -> bool:
    """Whether the outcome is a list that must be stored in chunks before it is settled."""
    node = assignment.node
    if node is None or node.foreach is None or node.foreach.role != "items":
        return False
    # A list; the output of this node is an object that has the items or names their chunks.
    return assignment.output.startswith(b"[")


def cut(items: list[Json], size: int) -> list[tuple[int, bytes]]:
    """A list as chunks: the number of the first item in each, and the chunk as JSON."""
    least = max(CHUNK_BYTES, size // CHUNKS_MAX)
    encode_item = msgspec.json.Encoder().encode
    chunks: list[tuple[int, bytes]] = []
    first, parts, length = 0, list[bytes](), 0
    for number, item in enumerate(items):
        data = encode_item(item)
        parts.append(data)
        length += len(data) + 1
        if length >= least or number == len(items) - 1:
            chunks.append((first, b"[" + b",".join(parts) + b"]"))
            first, parts, length = number + 1, [], 0
    return chunks


def list_output(items: Items, chunks: list[tuple[int, str]]) -> bytes:
    """The output of the hidden node whose list is stored in chunks."""
    return msgspec.json.encode(Listed(items.count, items.window, chunks=chunks))
