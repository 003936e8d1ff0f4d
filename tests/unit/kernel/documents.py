"""Random workflow documents that compile: blocks in blocks, with one way in and one way out."""

from __future__ import annotations

import random
from typing import Any


class Maker:
    """Makes the nodes of one document."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.chance = chance
        self.left = size
        self.nodes: dict[str, dict[str, Any]] = {}

    def node(self, *dependencies: str, **fields: Any) -> str:
        """Add a node."""
        name = f"n{len(self.nodes)}"
        self.left -= 1
        self.nodes[name] = {"id": name, "dependencies": list(dependencies), **fields}
        return name

    def link(self, source: str, target: str) -> None:
        """Let one node wait for another."""
        self.nodes[target]["dependencies"].append(source)

    def block(self, depth: int) -> tuple[str, str]:
        """Add a block; say how it begins and ends."""
        kinds = ["node"]
        if depth and self.left > 2:
            kinds = ["node", "sequence", "parallel", "branch", "caught", "loop", "loop"]
        kind = self.chance.choice(kinds)
        return getattr(self, f"_{kind}")(depth - 1)  # type: ignore[no-any-return]

    def _node(self, depth: int) -> tuple[str, str]:
        name = self.node()
        if self.chance.random() < 0.2:
            self.nodes[name]["on_error"] = "continue"
        return name, name

    def _sequence(self, depth: int) -> tuple[str, str]:
        first, last = self.block(depth)
        second, end = self.block(depth)
        self.link(last, second)
        return first, end

    def _join(self, *sources: str) -> str:
        """A node that waits for all of these, for one or for some."""
        kind = self.chance.choice(("all", "all", "any", "some"))
        fields: dict[str, Any] = {}
        if kind == "any":
            fields["join"] = "any"
        elif kind == "some":
            fields["join"] = self.chance.randint(1, len(sources))
        if fields and self.chance.random() < 0.4:
            fields["join_rest"] = "cancel"
        return self.node(*sources, **fields)

    def _parallel(self, depth: int) -> tuple[str, str]:
        split = self.node()
        ends = []
        for _ in range(self.chance.randint(2, 3)):
            first, last = self.block(depth)
            self.link(split, first)
            ends.append(last)
        if self.chance.random() < 0.3:
            ends.append(split)
        return split, self._join(*ends)

    def _branch(self, depth: int) -> tuple[str, str]:
        split = self.node()
        firsts, ends = [], []
        for _ in range(self.chance.randint(1, 3)):
            first, last = self.block(depth)
            firsts.append(first)
            ends.append(last)
        if self.chance.random() < 0.4:
            ends.append(split)  # a way around all of them, which only the branch may choose
        join = self._join(*ends)
        targets = [*firsts, join] if split in ends else firsts
        rules = [{"condition": "output.nothing > 1", "next_nodes": [targets[0]]}]
        for number, target in enumerate(targets[1:]):
            chosen = [target] if self.chance.random() < 0.7 else [target, targets[0]]
            rules.append({"condition": f"output.pick == {number}", "next_nodes": chosen})
        default = [targets[0]] if self.chance.random() < 0.7 else []
        self.nodes[split]["branch"] = {"rules": rules, "default": default}
        return split, join

    def _caught(self, depth: int) -> tuple[str, str]:
        risky = self.node()
        first, last = self.block(depth)
        self.nodes[risky]["on_error"] = [first]
        if self.chance.random() < 0.3:
            return risky, last  # nothing follows when all goes well
        return risky, self._join(risky, last)

    def _loop(self, depth: int) -> tuple[str, str]:
        first, last = self.block(depth)
        if "loop" in self.nodes[last] or "branch" in self.nodes[last] or self.chance.random() < 0.5:
            last = self.node(last)
        loop: dict[str, Any] = {
            "condition": "output.again" if self.chance.random() < 0.8 else "iteration < 2",
            "max_iterations": self.chance.randint(1, 4),
        }
        if last != first:
            loop["loop_back_to"] = first
        self.nodes[last]["loop"] = loop
        if self.chance.random() < 0.5:
            return first, last
        late = self.node()
        loop["timeout_path"] = [late]
        end = self._join(last, late)
        if self.chance.random() < 0.4:
            self.nodes[last]["branch"] = {
                "rules": [{"condition": "output.pick == 0", "next_nodes": [end]}],
                "default": [end] if self.chance.random() < 0.5 else [],
            }
        return first, end

    def document(self) -> dict[str, Any]:
        """Add blocks beside each other, some of them below an `each` join."""
        ends = [self.block(3)[1] for _ in range(self.chance.randint(1, 2))]
        if self.chance.random() < 0.4:
            each = self.node(*ends, join="each")
            first, _ = self.block(2)
            self.link(each, first)
        elif self.chance.random() < 0.5:
            self._join(*ends)
        nodes = list(self.nodes.values())
        return {"name": "random", "nodes": [{"type": "noop", **node} for node in nodes]}

    def extra_edges(self, count: int) -> list[tuple[str, str]]:
        """Edges between any two nodes, from the older to the newer; not all of them will do."""
        names = list(self.nodes)
        numbers = [self.chance.randrange(len(names)) for _ in range(2 * count)]
        pairs = [sorted(pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
        return [
            (names[one], names[other])
            for one, other in pairs
            if one != other and names[one] not in self.nodes[names[other]]["dependencies"]
        ]
