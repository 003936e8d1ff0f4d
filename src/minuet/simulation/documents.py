"""Random workflow documents with all constructs.

Documents are nested blocks, each with one entry and one exit, so that most of them compile. Random
extra edges and odd limits make some of them invalid; those are drawn again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from minuet.app.compiling import CompiledWorkflow, compile_source
from minuet.errors import DocumentError
from minuet.simulation.coverage import Coverage

#: Handlers and how often they are drawn (`simulation.handlers` has them).
HANDLERS = {
    "steady": 8,
    "fickle": 3,
    "stepwise": 2,
    "threaded": 2,
    "slow": 3,
    "flaky": 3,
    "broken": 1,
    "crashing": 1,
    "poison": 0.3,
    "large": 0.3,
}

#: Names of signals. Two are enough, and several nodes wait for the same one.
SIGNALS = ("s0", "s1")

#: How many documents are drawn to find one that compiles.
_TRIES = 50


class Maker:
    """Makes one document."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.chance = chance
        self.left = size
        self.nodes: dict[str, dict[str, Any]] = {}
        self.constructs: set[str] = set()
        self._depth = 0

    def maybe(self, likelihood: float) -> bool:
        return self.chance.random() < likelihood

    # ── nodes ───────────────────────────────────────────────────────────────────────────

    def node(self, *dependencies: str, plain: bool = False, **fields: Any) -> str:
        """Add a node. A plain one always has an output to decide by."""
        name = f"n{len(self.nodes)}"
        self.left -= 1
        made: dict[str, Any] = {"id": name, "dependencies": list(dependencies)}
        kind = self.chance.choices(
            ("task", "noop", "transform", "expression", "wait"), (60, 9, 8, 6, 11)
        )[0]
        if plain or kind == "task":
            self._task(made, plain=plain)
        elif kind == "noop":
            made["type"] = "noop"
        elif kind == "wait":
            self.constructs.add("wait")
            made |= {"type": "wait", "config": {"seconds": self.chance.choice((0, 0.2, 1.5, 4))}}
        elif kind == "expression":
            made |= {"type": "transform", "config": {"expression": '{"v": input.n, "odd": false}'}}
        else:
            value = {"v": "{{ input.n }}", "odd": self.maybe(0.5), "round": "{{ iteration }}"}
            made |= {"type": "transform", "config": {"value": value}}
        self.nodes[name] = {**made, **fields}
        return name

    def _task(self, made: dict[str, Any], *, plain: bool) -> None:
        names = ("steady", "fickle", "threaded") if plain else tuple(HANDLERS)
        made["handler"] = self.chance.choices(names, [HANDLERS[name] for name in names])[0]
        if self.maybe(0.3):
            made["config"] = {"x": "{{ input.n }}"}
        if self.maybe(0.5):
            made["retry"] = {
                "max_attempts": self.chance.randint(1, 4),
                "backoff_ms": self.chance.choice((1, 50, 400)),
                "jitter": self.maybe(0.5),
            }
        else:
            made["retry"] = {"backoff_ms": 100}
        if self.maybe(0.12):
            made["timeout_seconds"] = self.chance.choice((0.05, 0.5, 3))
        if self.maybe(0.15):
            self.constructs.add("continue")
            made["on_error"] = "continue"
        if self.maybe(0.2):
            self.constructs.add("concurrency")
            key = self.chance.choice(("k", "k", "{{ input.key }}", "{{ run.id }}"))
            made["concurrency"] = {"key": key, "limit": self.chance.choice((1, 1, 2))}

    def link(self, source: str, target: str) -> None:
        """Let one node wait for another."""
        self.nodes[target]["dependencies"].append(source)

    def join(self, *sources: str) -> str:
        """Add a node that waits for all of these, for one or for some."""
        kind = self.chance.choice(("all", "all", "any", "some"))
        fields: dict[str, Any] = {}
        if kind == "any":
            fields["join"] = "any"
            self.constructs.add("any")
        elif kind == "some":
            fields["join"] = self.chance.randint(1, len(sources))
            self.constructs.add("some")
        if fields and self.maybe(0.4):
            fields["join_rest"] = "cancel"
            self.constructs.add("cancel")
        return self.node(*sources, **fields)

    # ── blocks ──────────────────────────────────────────────────────────────────────────

    def block(self, depth: int) -> tuple[str, str]:
        """Add a block. Returns its first and last node."""
        if depth <= 0 or self.left <= 2:
            name = self.node()
            return name, name
        kind = self.chance.choice(
            (self._chain, self._parallel, self._parallel, self._branch, self._caught, self._loop)
        )
        return kind(depth - 1)

    def _chain(self, depth: int) -> tuple[str, str]:
        first, last = self.block(depth)
        second, end = self.block(depth)
        self.link(last, second)
        return first, end

    def _parallel(self, depth: int) -> tuple[str, str]:
        split = self.node()
        ends = []
        for _ in range(self.chance.choice((2, 2, 3, 5))):
            first, last = self.block(depth)
            self.link(split, first)
            ends.append(last)
        if self.maybe(0.2):
            ends.append(split)
        return split, self.join(*ends)

    def _branch(self, depth: int) -> tuple[str, str]:
        self.constructs.add("branch")
        if self.maybe(0.2):
            before = self.node(plain=True)
            split = self.node(before)
            self.nodes[split] = {"id": split, "type": "decision", "dependencies": [before]}
            entry, condition = before, f"output.{before}.odd"
        else:
            entry = split = self.node(plain=True)
            condition = self.chance.choice(("output.odd", "output.v > 500", "output.nothing > 1"))
        firsts, ends = [], []
        for _ in range(self.chance.randint(1, 3)):
            first, last = self.block(depth)
            firsts.append(first)
            ends.append(last)
        if self.maybe(0.4):
            ends.append(split)
        join = self.join(*ends)
        targets = [*firsts, join] if split in ends else firsts
        rules = []
        for target in targets[1:]:
            chosen = [target] if self.maybe(0.7) else [target, targets[0]]
            rules.append({"when": condition, "next_nodes": chosen})
        default = [targets[0]] if self.maybe(0.7) or not rules else []
        self.nodes[split]["branch"] = {"rules": rules, "default": default}
        self.nodes[split].pop("on_error", None)
        return entry, join

    def _caught(self, depth: int) -> tuple[str, str]:
        self.constructs.add("path")
        risky = self.node(plain=True)
        self.nodes[risky]["handler"] = self.chance.choice(("broken", "flaky"))
        first, last = self.block(depth)
        self.nodes[risky]["on_error"] = [first]
        return risky, self.join(risky, last)

    def _loop(self, depth: int) -> tuple[str, str]:
        self.constructs.add("nested loop" if self._depth else "loop")
        self._depth += 1
        first, last = self.block(depth)
        self._depth -= 1
        if {"loop", "branch"} & self.nodes[last].keys() or self.maybe(0.5):
            last = self.node(last, plain=True)
        loop: dict[str, Any] = {
            "while": self.chance.choice(("iteration < 1", "iteration < 2", "output.odd")),
            "max_iterations": self.chance.randint(1, 4),
        }
        if last != first:
            loop["loop_back_to"] = first
        self.nodes[last]["loop"] = loop
        if self.maybe(0.5):
            return first, last
        late = self.node()
        loop["timeout_path"] = [late]
        end = self.join(last, late)
        if self.maybe(0.3):
            rule = {"when": "output.odd", "next_nodes": [end]}
            self.nodes[last]["branch"] = {"rules": [rule], "default": [end]}
        return first, end

    # ── the whole ───────────────────────────────────────────────────────────────────────

    def document(self, name: str) -> dict[str, Any]:
        """Make a document: parallel blocks, perhaps joined, perhaps in sequence."""
        ends = [self.block(3)[1] for _ in range(self.chance.choice((1, 1, 2)))]
        if self.maybe(0.2):
            self.constructs.add("each")
            each = self.node(*ends, *self._extra_end(ends), join="each")
            if self.left > 0:
                first, _ = self.block(1)
                self.link(each, first)
        elif len(ends) > 1 and self.maybe(0.7):
            self.join(*ends)
        self._extra_edges()
        self._reads()
        self._foreach()
        self._signals()
        document: dict[str, Any] = {"name": name, "nodes": list(self.nodes.values())}
        self._limits(document)
        if self.maybe(0.2):
            self.constructs.add("output")
            document["output"] = {"n": "{{ input.n }}", "run": "{{ run.id }}"}
        if self.maybe(0.3):
            document["dlq_policy"] = "all"
        return document

    def _extra_end(self, ends: list[str]) -> list[str]:
        return [] if len(ends) > 1 else [self.node()]

    def _extra_edges(self) -> None:
        """Add edges between any two nodes, from older to newer. Some make the document invalid."""
        names = list(self.nodes)
        for _ in range(self.chance.choice((0, 0, 0, 1, 2))):
            one, other = sorted(self.chance.choices(range(len(names)), k=2))
            if one != other and names[one] not in self.nodes[names[other]]["dependencies"]:
                self.link(names[one], names[other])

    def _reads(self) -> None:
        """Let some tasks read earlier nodes that may not have ended.

        Joins do not wait for all.

        Drawn from a separate stream, so that other draws do not depend on it.
        """
        chance = random.Random(str(self.nodes))
        before: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            direct = [source for source in node["dependencies"] if source in before]
            before[name] = sorted({*direct, *(far for one in direct for far in before[one])})
            far = [source for source in before[name] if source not in direct]
            if "handler" in node and far and chance.random() < 0.5:
                self.constructs.add("read")
                some = chance.sample(far, min(3, len(far)))
                node["config"] = {"x": [f"{{{{ {one}.output.v | default(0) }}}}" for one in some]}

    def _foreach(self) -> None:
        """Let some nodes run once per item.

        Drawn from a separate stream, so that other draws do not depend on it.
        """
        chance = random.Random(f"foreach {self.nodes}")
        if chance.random() >= 0.4:
            return
        usual = [node for node in self.nodes.values() if node.get("type") != "decision"]
        for node in chance.sample(usual, min(len(usual), chance.choice((1, 1, 2)))):
            self.constructs.add("foreach in a loop" if "loop" in node else "foreach")
            count = chance.choice((0, 1, 3, 3, 6, 12))
            items: Any = [{"number": number} for number in range(count)]
            if chance.random() < 0.1:
                # As long as to be kept in chunks.
                items = [{"number": number, "text": "x" * 3_000} for number in range(9)]
            elif chance.random() < 0.3:
                items = "{{ [input.n, iteration, 3] }}"
            foreach: dict[str, Any] = {"items": items}
            if chance.random() < 0.6:
                foreach["max_parallel"] = chance.randint(1, 4)
            if chance.random() < 0.3:
                foreach["need"] = chance.randint(1, 3)
                self.constructs.add("quorum")
            if chance.random() < 0.5:
                foreach["on_item_error"] = "continue"
            node["foreach"] = foreach
            if "handler" in node and chance.random() < 0.5:
                node["config"] = {"x": "{{ item }}"}
                if chance.random() < 0.4:
                    node["handler"] = chance.choice(("broken", "flaky"))

    def _signals(self) -> None:
        """Let some nodes wait for a signal, which have waited for a time or done nothing. Drawn
        from a separate stream."""
        chance = random.Random(f"signals {self.nodes}")
        for node in self.nodes.values():
            if node.get("type") not in ("wait", "noop") or chance.random() < 0.6:
                continue
            self.constructs.add("signal")
            timeout_s = chance.choice((0, 0.5, 2, 6))
            config = {"signal": chance.choice(SIGNALS), "timeout_seconds": timeout_s}
            node |= {"type": "wait", "config": config}
            if chance.random() < 0.7:
                node["on_error"] = "continue"

    def _limits(self, document: dict[str, Any]) -> None:
        limits: dict[str, Any] = {}
        if self.maybe(0.12):
            self.constructs.add("deadline")
            limits["deadline_s"] = self.chance.choice((1, 5, 20))
        if self.maybe(0.04):
            limits["max_hops"] = self.chance.randint(3, 8)
        if self.maybe(0.04):
            limits["max_fanout"] = 2
        if self.maybe(0.05):
            limits["max_iterations"] = 3
        if self.maybe(0.1):
            limits["max_output_bytes"] = 100
        if limits:
            document["limits"] = limits


#: How deep child runs are nested.
LEVELS = 3


def add_children(document: dict[str, Any], levels: int = LEVELS) -> None:
    """Make child runs of some nodes, and of some nodes of those.

    Drawn from a separate stream, so that other draws do not depend on it.
    """
    chance = random.Random(f"{levels} {document['nodes']}")
    kept = ("id", "dependencies", "join", "join_rest")
    for node in document["nodes"]:
        if node.get("type") not in ("noop", "transform", "wait") or chance.random() < 0.3:
            continue
        if {"loop", "branch"} & node.keys():
            continue
        maker = Maker(chance, chance.choice((1, 2, 4)))
        inner = maker.document(f"{document['name']}-{node['id']}")
        if levels > 1 and chance.random() < 0.7:
            add_children(inner, levels - 1)
        made = {name: node[name] for name in kept if name in node}
        given = {"n": "{{ input.n }}", "key": "{{ input.key }}"}
        made |= {"type": "workflow", "config": {"workflow": inner, "input": given}}
        if chance.random() < 0.2:
            made["timeout_seconds"] = chance.choice((0.5, 5))
        if chance.random() < 0.3:
            made["retry"] = {"max_attempts": 2, "backoff_ms": 50}
        if chance.random() < 0.3:
            made["on_error"] = "continue"
        node.clear()
        node.update(made)


def limit_bytes(document: dict[str, Any]) -> None:
    """Limit the bytes of all outputs together. Drawn from a separate stream."""
    chance = random.Random(f"bytes {document['nodes']}")
    limits = document.get("limits", {})
    document["limits"] = {**limits, "max_bytes": chance.choice((40, 120, 200, 400, 100_000))}


def draw_workflow(
    chance: random.Random,
    size: int,
    name: str,
    coverage: Coverage,
    adjust: Callable[[dict[str, Any]], None] = lambda document: None,
) -> CompiledWorkflow:
    """Draw documents until one compiles. `adjust` changes each one first."""
    for _ in range(_TRIES):
        maker = Maker(chance, size)
        try:
            document = maker.document(name)
            adjust(document)
            compiled = compile_source(document)
        except DocumentError:
            coverage.hit("document refused")
            continue
        for construct in sorted(maker.constructs):
            coverage.hit(f"construct {construct}")
        return compiled
    return compile_source({"name": name, "nodes": [{"id": "n0", "handler": "steady"}]})
