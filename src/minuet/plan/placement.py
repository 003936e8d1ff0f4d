"""Which workers may run a node: placement constraints, encoded in the name of its queue.

A node with constraints has its own queue, and the queue's name contains the constraints. So a
worker that sees the name decides once whether it may serve the queue. Nothing is matched when
tokens are taken, and a take costs the same no matter how many workers there are.

    @{"queue":"task:train","workflow":"ml","node":"train","limit":1,"capabilities":{"gpu":1}}

Numbers are minimums, lists are subsets, anything else must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from minuet.model import workflow as model
from minuet.model.diagnostics import quote
from minuet.plan.problems import Problems

#: Prefix of the name of a queue with constraints. No name in a document begins with it.
MARK = "@"

#: The longest text of a node's constraints, because queue names are in indexes.
BYTES_MAX = 1_000

#: How often a node runs at once on one worker by default.
LIMIT_DEFAULT = 1


class Placement(msgspec.Struct, frozen=True, omit_defaults=True):
    """The constraints of a node, and the node's name."""

    #: The queue without constraints, which follows from the node's type and handler.
    queue: str
    workflow: str
    node: str
    #: How many instances may run at once on one worker.
    limit: int = LIMIT_DEFAULT
    executors: tuple[str, ...] = ()
    capabilities: dict[str, Any] = {}
    allowed: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


class Offer(msgspec.Struct, frozen=True):
    """What a worker offers."""

    worker: str
    name: str
    executors: frozenset[str] = frozenset()
    capabilities: Mapping[str, Any] = {}


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Placement).decode


def place(workflow: str, node: model.Node, queue: str) -> str:
    """The queue of a node's tokens: the given one or, with constraints, its own."""
    wanted = node.placement
    if wanted is None:
        return queue
    placement = Placement(
        queue,
        workflow,
        node.id,
        limit=wanted.max_parallel_per_node or LIMIT_DEFAULT,
        # The order of names has no meaning and must not make a different queue.
        executors=tuple(sorted(set(wanted.requires_executors))),
        capabilities=wanted.requires_capabilities,
        allowed=tuple(sorted(set(wanted.allowed_nodes))),
        forbidden=tuple(sorted(set(wanted.forbidden_nodes))),
    )
    return MARK + _encode(placement).decode()


def check_placements(workflow: model.Workflow, problems: Problems) -> None:
    """Refuse constraints that no worker can meet, and those that are too long for a name."""
    for place_, node in enumerate(workflow.nodes):
        wanted = node.placement
        if wanted is None:
            continue
        path = ("nodes", place_, "placement_constraints")
        allowed = set(wanted.allowed_nodes)
        if allowed and allowed <= set(wanted.forbidden_nodes):
            problems.error(
                "placement-impossible",
                f"every worker that may run node {quote(node.id)} is also forbidden",
                path,
                hint="take a name out of 'forbidden_nodes'",
            )
        if len(_encode(wanted)) > BYTES_MAX:
            problems.error(
                "placement-too-long",
                f"the placement constraints of node {quote(node.id)} have more than "
                f"{BYTES_MAX} bytes",
                path,
                hint="give the workers a label and require that, instead of many names",
            )


def read_placement(queue: str) -> Placement | None:
    """The constraints in a queue's name. None: it has none that are known."""
    if not queue.startswith(MARK):
        return None
    try:
        return _decode(queue[len(MARK) :])
    except msgspec.MsgspecError:
        return None


def base_queue(queue: str) -> str:
    """The queue without its constraints."""
    placement = read_placement(queue)
    return queue if placement is None else placement.queue


def unmet(placement: Placement, offer: Offer) -> list[str]:
    """What a worker lacks, in words. Empty: it may serve the queue."""
    lacking = []
    if placement.executors and not offer.executors.intersection(placement.executors):
        lacking.append(_executors_text(placement))
    for name, value in placement.capabilities.items():
        if name not in offer.capabilities or not _is_enough(offer.capabilities[name], value):
            lacking.append(_capability_text(name, value))
    called = {offer.worker, offer.name}
    if placement.allowed and not called.intersection(placement.allowed):
        lacking.append(_allowed_text(placement))
    if called.intersection(placement.forbidden):
        lacking.append(_forbidden_text(placement))
    return lacking


def _is_enough(offered: Any, wanted: Any) -> bool:
    if isinstance(wanted, bool) or isinstance(offered, bool):
        return wanted is offered
    if isinstance(wanted, int | float):
        return isinstance(offered, int | float) and offered >= wanted
    if isinstance(wanted, list):
        return isinstance(offered, list) and all(value in offered for value in wanted)
    return bool(offered == wanted)


def describe_needs(placement: Placement) -> str:
    """The constraints in words: what a worker must offer."""
    needs = [_executors_text(placement)] if placement.executors else []
    needs += [_capability_text(name, value) for name, value in placement.capabilities.items()]
    needs += [_allowed_text(placement)] if placement.allowed else []
    needs += [_forbidden_text(placement)] if placement.forbidden else []
    return ", ".join(needs)


def _executors_text(placement: Placement) -> str:
    return f"executor {_either(placement.executors)}"


def _capability_text(name: str, value: Any) -> str:
    if isinstance(value, list):
        return f"{name} with {', '.join(_text(part) for part in value)}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{name} {'≥' if is_number else '='} {_text(value)}"


def _allowed_text(placement: Placement) -> str:
    return f"to be worker {_either(placement.allowed)}"


def _forbidden_text(placement: Placement) -> str:
    return f"not to be worker {_either(placement.forbidden)}"


def _either(names: Iterable[str]) -> str:
    return " or ".join(names)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
