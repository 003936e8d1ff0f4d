"""Plans that a worker has at hand, loaded once each and found by digest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from minuet.bridge.translate import Translator
from minuet.errors import StoreUnusableError
from minuet.kernel.program import Program
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.spec import NodeType
from minuet.plan.digest import decode_plan
from minuet.plan.plan import UNDO_CHILD_TYPE, UNDO_TYPE, Node, author_of
from minuet.store.base import Store
from minuet.store.large import get_content
from minuet.templates import Template, compile_template
from minuet.types import Json

if TYPE_CHECKING:
    from minuet.plan.plan import Plan

#: Plans kept; the least recently used goes first.
PROGRAMS_MAX = 256


def item_name(node: Node) -> str:
    """What a node's templates call the item of its foreach."""
    return "item" if node.foreach is None else node.foreach.alias


class Config:
    """A node's config: templates, beside entries that stay unchanged."""

    def __init__(
        self,
        config: dict[str, Json],
        verbatim: tuple[str, ...],
        item: str = "item",
        *,
        knows_output: bool = False,
    ) -> None:
        self._verbatim = {name: config[name] for name in verbatim if name in config}
        rest = {name: value for name, value in config.items() if name not in self._verbatim}
        self._template: Template = compile_template(rest, item=item, knows_output=knows_output)
        self.is_constant = self._template.is_constant
        #: The names of the secrets that it reads.
        self.secrets = self._template.secrets
        #: If it is constant and has entries: it as JSON, of which each instance gets a copy.
        self._constant = b""
        if self.is_constant and config:
            self._constant = msgspec.json.encode(self.render({}, {}))

    def render(self, outputs: Mapping[str, Json], variables: Mapping[str, Json]) -> Json:
        """The config for one node instance."""
        rendered = self._template.render(outputs, variables)
        return {**rendered, **self._verbatim} if self._verbatim else rendered

    def copy_constant(self) -> dict[str, Json]:
        """A config that is the same for all instances, to keep and to change."""
        return msgspec.json.decode(self._constant) if self._constant else {}


def is_hidden(node: Node) -> bool:
    """Whether a node is a part of a foreach that the worker does without the node's type."""
    return node.foreach is not None and node.foreach.role != "item"


class Facts:
    """What holds for every token of a node: it follows from the node and its plan."""

    __slots__ = (
        "author",
        "decides",
        "is_hidden",
        "is_inline",
        "is_item",
        "is_plain",
        "max_output_bytes",
        "node",
        "node_type",
        "undoes",
    )

    def __init__(self, node: Node | None, max_output_bytes: int | None) -> None:
        self.node = node
        each = None if node is None else node.foreach
        #: Whether its output decides where to go on.
        self.decides = node is not None and (
            node.branch is not None or node.loop is not None or each is not None
        )
        #: Whether it is an item of a foreach, or undoes one.
        self.is_item = each is not None and each.role == "item"
        self.is_hidden = node is not None and is_hidden(node)
        #: The node whose instances it undoes; "": it undoes none.
        self.undoes = "" if node is None else node.undoes
        #: The node that its author wrote.
        self.author = "" if node is None else author_of(node.id)
        #: None: the type is a user's, or not known.
        self.node_type: NodeType | None = None if node is None else NODE_TYPES.get(node.type)
        #: Whether it reaches nothing outside: it awaits nothing.
        self.is_inline = self.is_hidden or (
            self.node_type is not None and self.node_type.run is not None
        )
        #: Whether it does nothing but what its type or its handler does, once for each token.
        self.is_plain = (
            node is not None
            and each is None
            and not self.is_inline
            and not node.undoes
            and node.type not in (UNDO_TYPE, UNDO_CHILD_TYPE)
            and node.config_ref is None
        )
        own = None if node is None else node.max_output_bytes
        limits = [most for most in (own, max_output_bytes) if most is not None]
        #: How large its output may be; None: the document does not limit it.
        self.max_output_bytes: int | None = min(limits, default=None)


#: Of a token whose plan is not at hand.
NO_FACTS = Facts(None, None)


class Loaded:
    """A program, its translator, and its nodes' facts and configs, each prepared when first
    used."""

    def __init__(self, plan: Plan, digest: str) -> None:
        self.program = Program(plan, digest)
        self.translator = Translator(self.program)
        self._facts: dict[str, Facts] = {}
        self._configs: dict[str, Config] = {}
        #: When its plan was last known to be in the store.
        self.stored_ms = 0

    def facts(self, name: str) -> Facts:
        """What holds for the tokens of a node, even if the plan does not have it."""
        found = self._facts.get(name)
        if found is None:
            node = self.program.nodes.get(name)
            found = self._facts[name] = Facts(node, self.program.plan.max_output_bytes)
        return found

    def config(self, node: Node) -> Config:
        """The node's config, which must be at hand."""
        found = self._configs.get(node.id)
        return found if found is not None else self.keep_config(node, {})

    def needs_config(self, node: Node) -> bool:
        """Whether the node's config is a blob that has not been loaded yet."""
        return node.config_ref is not None and node.id not in self._configs

    def keep_config(self, node: Node, loaded: Json) -> Config:
        """Prepare a config, with what was loaded from its blob; the node's own entries win."""
        made = self._configs[node.id] = config_of(node, {**loaded, **(node.config or {})})
        return made


def config_of(node: Node, config: dict[str, Json]) -> Config:
    """A config of a node, prepared."""
    node_type = NODE_TYPES.get(node.type)
    verbatim = node_type.expression_fields if node_type is not None else ()
    return Config(config, verbatim, item_name(node), knows_output=bool(node.undoes))


class Programs:
    """Programs by digest."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loaded: OrderedDict[str, Loaded] = OrderedDict()

    def get(self, digest: str) -> Loaded | None:
        """A program that is at hand."""
        found = self._loaded.get(digest)
        if found is not None:
            self._loaded.move_to_end(digest)
        return found

    def keep(self, digest: str, plan: Plan) -> Loaded:
        """Have a plan at hand."""
        found = self.get(digest)
        if found is None:
            found = self._loaded[digest] = Loaded(plan, digest)
            if len(self._loaded) > PROGRAMS_MAX:
                self._loaded.popitem(last=False)
        return found

    async def load(self, digest: str, *, run: str | None = None, tenant: str) -> Loaded:
        """The program of a run, or of a deployed workflow, if necessary from the store."""
        found = self.get(digest)
        if found is not None:
            return found
        data = await get_content(self._store, digest, run=run, tenant=tenant)
        if data is None:
            raise StoreUnusableError(f"the plan {digest} is missing in the store")
        return self.keep(digest, decode_plan(bytes(data)))
