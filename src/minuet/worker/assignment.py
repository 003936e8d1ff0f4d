"""One token in a worker's hands, from the grant to the item that is handed in."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from minuet.bridge.granted import Granted
from minuet.bridge.programs import NO_FACTS, Facts
from minuet.errors import DamagedRowError
from minuet.kernel.settle import Items, Outcome, Succeeded, UndoList
from minuet.plan.plan import Node, author_of
from minuet.types import UNDO, Json, Scope

if TYPE_CHECKING:
    from minuet.bridge.programs import Config, Loaded
    from minuet.kernel.foreach import Listed
    from minuet.nodes.context import Context
    from minuet.store.exchange import Item


class Assignment(Granted, eq=False):
    """A granted token, and what the worker knows about it while it works on it."""

    loaded: Loaded | None = None
    node: Node | None = None
    facts: Facts = NO_FACTS
    context: Context | None = None
    #: Whether it has got a slot since it was granted.
    has_got_slot: bool = False
    #: The config that somebody has set in place of the node's own.
    config: Config | None = None
    #: If the node is an item of a foreach: the items of its chunk, filled before use.
    chunk: list[Json] | None = None
    #: If the node is the list of a foreach: its items, once it is rendered.
    items: Items | None = None
    _list: Listed | None = None
    #: When and how nodes ran, by name; filled before conditions that read it are evaluated.
    metadata: dict[str, Json] = msgspec.field(default_factory=dict)
    #: The values of secrets that its config was rendered with.
    revealed: tuple[str, ...] = ()
    #: The handler as a task, or as a future of the thread it runs in.
    task: asyncio.Task[Item | None] | None = None
    thread: asyncio.Future[Any] | None = None
    #: What came of it, kept until the store has accepted it.
    outcome: Outcome | None = None
    output: bytes = b"null"
    #: A result that cannot be settled at once: its output must be stored as a blob first
    #: (`output` is that output), or its conditions need time.
    unsettled: Succeeded | None = None
    #: The lease is lost: what the handler returns is dropped.
    abandoned: bool = False
    #: The worker drains: the token is given back, not failed.
    releasing: bool = False

    def __str__(self) -> str:
        return f"node {self.key[1]} of run {self.key[0]}"

    def use(self, loaded: Loaded) -> None:
        """Work on this plan, the run's present one."""
        self.loaded = loaded
        self.facts = loaded.facts(self.grant.node)
        self.node = self.facts.node

    @property
    def must_run(self) -> bool:
        """Whether its outcome is not known before its node has run."""
        grant = self.grant
        return not (self.node is None or grant.skip or grant.cursor or grant.expiry)

    @property
    def holds_slot(self) -> bool:
        """Whether it holds the slot that its node needs."""
        return self.has_got_slot or bool(self.grant.slot)

    @property
    def undone_scope(self) -> Scope:
        """The scope of the node instance that it is about: its own, or of the one that it
        undoes."""
        return self.scope[:-1] if self.facts.undoes else self.scope

    def undone_output(self) -> Json:
        """The output of the instance that it undoes."""
        for output in self.grant.reads:
            if output.node == self.facts.undoes:
                return self._output(output)
        raise DamagedRowError(self.key[0], f"node {self.key[1]}: the output to undo", "")

    def undo_list(self) -> UndoList | None:
        """What is being undone; None: it cannot be read."""
        data = self.output if self.key[1] == UNDO else None
        for output in self.grant.reads:
            if output.node == UNDO:
                data = output.data
        try:
            return None if data is None else msgspec.json.decode(data, type=UndoList)
        except msgspec.DecodeError:
            return None

    # ── as an item of a foreach ─────────────────────────────────────────────────────────

    def item_list(self) -> Listed | None:
        """The list that the item comes from; None: it cannot be read, or the node is no item."""
        if self._list is None and self.facts.is_item:
            assert self.node is not None
            assert self.node.foreach is not None
            self._list = self.listed(self.node.foreach.node)
        return self._list

    def missing_chunk(self) -> str | None:
        """The blob with the item, if it must be loaded first."""
        if self.chunk is not None or not self.facts.is_item:
            return None
        found = self.item_list()
        chunk = None if found is None else found.chunk_of(self.undone_scope[-1])
        return None if chunk is None else chunk[1]

    def item(self) -> Json:
        """The item. Its chunk is at hand."""
        found, number = self.item_list(), self.undone_scope[-1]
        if found is None:
            raise DamagedRowError(self.key[0], f"node {self.key[1]}: the list of the foreach", "")
        chunk = found.chunk_of(number)
        if chunk is None:
            return found.items[number]
        assert self.chunk is not None
        return self.chunk[number - chunk[0]]

    def inputs(self) -> dict[str, Json]:
        if self.facts.undoes:
            return {author_of(self.facts.undoes): self.undone_output()}
        # The outputs of all dependencies would travel with every item. Those that it names do.
        return self.reads() if self.facts.is_item else super().inputs()

    @property
    def is_kept(self) -> bool:
        """Whether its output is as the store has it already: if it is a blob, that is there."""
        return bool(self.grant.cursor or self.grant.given)

    @property
    def is_ended(self) -> bool:
        """Whether the worker has ended it before its handler did."""
        return self.abandoned or self.releasing

    def abandon(self, *, is_lost: bool = False) -> None:
        """Stop the handler and drop what it returns: the token is no longer ours. If it is lost,
        another worker may have it by now."""
        self.abandoned = True
        if is_lost and self.context is not None:
            self.context.is_lost = True
        self._interrupt()

    def give_back(self) -> None:
        """Stop the handler and release the token."""
        self.releasing = True
        self._interrupt()

    def _interrupt(self) -> None:
        if self.context is not None:
            self.context.cancel()
        if self.task is not None:
            self.task.cancel()
