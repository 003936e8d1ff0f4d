"""What the engine in a world is made of.

A world runs the real engine, `REAL`. To see whether the simulation would find a mistake, give
it other parts: a subclass with the mistake, or a context in which something is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import msgspec

from minuet.ids import Ids, SeededIds
from minuet.simulation.contents import SimOutsideStore
from minuet.simulation.model import ModelStore
from minuet.store.logged import LoggedStore
from minuet.store.rules.transition import Transition
from minuet.worker.worker import Worker


def seeded_ids(seed: int, model: ModelStore) -> Ids:
    """Ids that a seed decides, whatever the store has seen."""
    return SeededIds(seed)


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the engine that a world is built from."""

    transition: type[Transition] = Transition
    store: type[ModelStore] = ModelStore
    worker: type[Worker] = Worker
    #: The store of worlds whose kind of store is `logged`.
    logged: type[LoggedStore] = LoggedStore
    #: Around the store, in worlds with a blob store.
    outside: type[SimOutsideStore] = SimOutsideStore
    ids: Callable[[int, ModelStore], Ids] = seeded_ids
    #: Entered while the world runs.
    patch: Callable[[], AbstractContextManager[None]] = nullcontext


#: The real engine, without planted bugs.
REAL = Parts()
