"""How much work a JSON Schema makes, computed without validating anything.

A validator checks a value once for each path that leads to a subschema. References and
`anyOf`, `oneOf`, `allOf` can multiply these paths: thirty definitions that each name the next one
twice make a billion paths. This module counts them instead of walking them. `Looks` say how often
each subschema checks one value of the input; those of the values inside it are derived from them.

The alternatives of `anyOf` that a validator could leave out are counted too, so the count is an
upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

from minuet.types import Json, Path

#: The largest number of subschemas in one schema.
SUBSCHEMAS_MAX = 10_000

#: How many subschemas may check one value of the input. A validator needs about 30 ns for each.
LOOKS_MAX = 10_000

#: Steps from one subschema to the next by references and combinations, for the same value: a
#: validator calls itself for each.
DEPTH_MAX = 50

#: The deepest nesting of an input.
_LEVELS = 100

#: Keywords whose subschemas apply to the same value.
_HERE_ONE = ("not", "if", "then", "else")
_HERE_SEVERAL = ("allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

#: Keywords whose subschemas apply to the values inside it, at any name or position.
_INSIDE_ONE = ("items", "additionalItems", "contains", "propertyNames")
#: … except those that `properties` names.
_OTHERS = ("additionalProperties", "unevaluatedProperties")

#: To find what is left over, a validator checks everything that it combined once more.
_LOOKS_TWICE = ("unevaluatedProperties", "unevaluatedItems")

#: How often each subschema, by its number, checks one value.
Looks: TypeAlias = dict[int, int]


class SchemaTooComplexError(Exception):
    """The schema would take too long, or recurse too deeply, for any input."""

    def __init__(self, message: str, path: Path) -> None:
        self.path = path
        super().__init__(message)


class _Subschema:
    """One object of the schema, and the numbers of those that it leads to."""

    __slots__ = ("base", "by_name", "here", "inside", "others", "path", "twice", "value")

    def __init__(self, value: dict[str, Json], path: Path, base: str) -> None:
        self.value = value
        self.path = path
        self.base = base
        self.here: list[int] = []
        self.inside: list[int] = []
        self.others: list[int] = []
        self.by_name: dict[str | int, list[int]] = {}
        self.twice = any(word in value for word in _LOOKS_TWICE)


class _Found(NamedTuple):
    value: Json
    path: Path


class SchemaWork:
    """The subschemas of one schema, and how they multiply. Raises SchemaTooComplexError."""

    def __init__(self, schema: dict[str, Json]) -> None:
        self._all: list[_Subschema] = []
        self._numbers: dict[int, int] = {}
        #: The targets of references: resources and anchors by their address.
        self._addresses: dict[str, _Found] = {}
        #: The keyword that gives a subschema an address. The oldest draft used another one.
        self._id = "id" if "draft-04" in str(schema.get("$schema")) else "$id"
        self._index(_Found(schema, ()))
        self._number(_Found(schema, ()), "")
        for subschema in self._all:  # which grows meanwhile
            self._link(subschema)
        self._order = self._sorted()
        self._place = {number: place for place, number in enumerate(self._order)}
        self._check_each()
        #: How many subschemas check one value, at most. None: it depends on the input.
        self.looks_max = self._find_looks_max()
        #: Whether there are keywords for which a validator lists every problem below them.
        self.has_alternatives = any("anyOf" in s.value or "oneOf" in s.value for s in self._all)

    def count(self, value: Json, limit: int) -> int:
        """How often subschemas check values of this input, plus one for each value.

        Stops counting at `limit`, so that counting is bounded too.
        """
        total = 0
        waiting: list[tuple[Json, Looks]] = [(value, {0: 1})]
        while waiting:
            value, begun = waiting.pop()
            looks = self._spread(begun)
            total += sum(looks.values())
            items: Iterable[tuple[str | int, Json]] = ()
            if isinstance(value, dict):
                items = value.items()
            elif isinstance(value, list):
                items = enumerate(value)
            for name, item in items:
                if total > limit:
                    return total
                total += 1
                inside = self._enter(looks, name)
                if inside:
                    waiting.append((item, inside))
        return total

    # ── reading ─────────────────────────────────────────────────────────────────────────

    def _index(self, root: _Found) -> None:
        """Find everything that has an address, anywhere in the schema."""
        waiting = [(root, "")]
        self._addresses[""] = root
        while waiting:
            found, base = waiting.pop()
            if isinstance(found.value, list):
                waiting.extend((_step(found, n), base) for n in range(len(found.value)))
                continue
            if not isinstance(found.value, dict):
                continue
            name = found.value.get(self._id)
            if isinstance(name, str):
                address = urljoin(base, name)
                base = address if not name.startswith("#") else base
                self._addresses.setdefault(address.removesuffix("#"), found)
            for word in ("$anchor", "$dynamicAnchor"):
                anchor = found.value.get(word)
                if isinstance(anchor, str):
                    self._addresses.setdefault(f"{base}#{anchor}", found)
            waiting.extend((_step(found, key), base) for key in found.value)

    def _number(self, found: _Found, base: str) -> int | None:
        if not isinstance(found.value, dict):
            return None
        known = self._numbers.get(id(found.value))
        if known is not None:
            return known
        if len(self._all) >= SUBSCHEMAS_MAX:
            raise SchemaTooComplexError(f"it has more than {SUBSCHEMAS_MAX:,} subschemas", ())
        name = found.value.get(self._id)
        if isinstance(name, str) and not name.startswith("#"):
            base = urljoin(base, name)
        number = self._numbers[id(found.value)] = len(self._all)
        self._all.append(_Subschema(found.value, found.path, base))
        return number

    def _link(self, subschema: _Subschema) -> None:
        here = _Found(subschema.value, subschema.path)
        for word, value in subschema.value.items():
            found = _step(here, word)
            if word in _REFERENCES and isinstance(value, str):
                self._join(subschema, subschema.here, self._follow(subschema, word, value))
            elif word in _HERE_ONE:
                self._join(subschema, subschema.here, found)
            elif word in _HERE_SEVERAL:
                self._join(subschema, subschema.here, *_parts(found))
            elif word in ("properties", "prefixItems"):
                for part in _parts(found):
                    self._join(subschema, subschema.by_name.setdefault(part.path[-1], []), part)
            elif word == "patternProperties" or (word == "items" and isinstance(value, list)):
                self._join(subschema, subschema.inside, *_parts(found))
            elif word in _INSIDE_ONE:
                self._join(subschema, subschema.inside, found)
            elif word in (*_OTHERS, "unevaluatedItems"):
                self._join(subschema, subschema.others, found)

    def _join(self, subschema: _Subschema, numbers: list[int], *found: _Found) -> None:
        for part in found:
            number = self._number(part, subschema.base)
            if number is not None:
                numbers.append(number)

    def _follow(self, subschema: _Subschema, word: str, reference: str) -> _Found:
        address, fragment = urldefrag(urljoin(subschema.base, reference))
        target = self._addresses.get(address)
        if fragment and not fragment.startswith("/"):
            target = self._addresses.get(f"{address}#{fragment}")
        elif target is not None and fragment:
            for part in fragment[1:].split("/"):
                target = _descend(target, unquote(part).replace("~1", "/").replace("~0", "~"))
                if target is None:
                    break
        if target is None:
            raise SchemaTooComplexError(
                f"the reference {reference[:100]!r} leads nowhere inside the schema",
                (*subschema.path, word),
            )
        return target

    # ── counting ────────────────────────────────────────────────────────────────────────

    def _sorted(self) -> list[int]:
        """All numbers, each before those that it refers to for the same value."""
        order: list[int] = []
        state: dict[int, int] = {}
        for start in range(len(self._all)):
            waiting = [start]
            while waiting:
                number = waiting[-1]
                if state.get(number) is None:
                    state[number] = 1
                    for other in self._all[number].here:
                        if state.get(other) == 1:
                            raise SchemaTooComplexError(
                                "it refers to itself without descending into the value",
                                self._all[other].path,
                            )
                        if state.get(other) is None:
                            waiting.append(other)
                else:
                    waiting.pop()
                    if state[number] == 1:
                        state[number] = 2
                        order.append(number)
        order.reverse()
        return order

    def _check_each(self) -> None:
        """Refuse a subschema that is already too much for one value."""
        ways: dict[int, int] = {}
        depth: dict[int, int] = {}
        for number in reversed(self._order):
            subschema = self._all[number]
            weight = 2 if subschema.twice else 1
            ways[number] = 1 + weight * sum(ways[other] for other in subschema.here)
            depth[number] = 1 + max((depth[other] for other in subschema.here), default=0)
            if ways[number] > LOOKS_MAX:
                raise SchemaTooComplexError(
                    f"its references and alternatives make more than {LOOKS_MAX:,} checks of one "
                    "value",
                    subschema.path,
                )
            if depth[number] > DEPTH_MAX:
                raise SchemaTooComplexError(
                    f"it follows more than {DEPTH_MAX} references and combinations for one value",
                    subschema.path,
                )

    def _spread(self, begun: Looks) -> Looks:
        """Add the subschemas that check the same value because another one does."""
        if not any(self._all[number].here for number in begun):
            return begun
        looks = dict(begun)
        reached = set(begun)
        waiting = list(begun)
        while waiting:
            for other in self._all[waiting.pop()].here:
                if other not in reached:
                    reached.add(other)
                    waiting.append(other)
        for number in sorted(reached, key=self._place.__getitem__):
            subschema = self._all[number]
            times = looks[number] * (2 if subschema.twice else 1)
            for other in subschema.here:
                looks[other] = looks.get(other, 0) + times
        return looks

    def _enter(self, looks: Looks, name: str | int) -> Looks:
        """The subschemas that check the member of that name."""
        inside: Looks = {}
        for number, times in looks.items():
            subschema = self._all[number]
            named = subschema.by_name.get(name)
            for other in (*subschema.inside, *(subschema.others if named is None else named)):
                inside[other] = inside.get(other, 0) + times
        return inside

    def _find_looks_max(self) -> int | None:
        """Follow all names at once, level by level. Shared parts count for each name."""
        begun: Looks = {0: 1}
        found = 0
        seen: set[frozenset[tuple[int, int]]] = set()
        for _ in range(_LEVELS):
            looks = self._spread(begun)
            found = max(found, sum(looks.values()))
            if found > LOOKS_MAX:
                return None
            begun = self._enter_all(looks)
            state = frozenset(begun.items())
            if not begun or state in seen:
                break
            seen.add(state)
        return found

    def _enter_all(self, looks: Looks) -> Looks:
        """How often each subschema checks a member, at most."""
        shared: Looks = {}
        named: dict[str | int, Looks] = {}
        for number, times in looks.items():
            subschema = self._all[number]
            for other in (*subschema.inside, *subschema.others):
                shared[other] = shared.get(other, 0) + times
            for name, others in subschema.by_name.items():
                own = named.setdefault(name, {})
                for other in others:
                    own[other] = own.get(other, 0) + times
        most = dict(shared)
        for own in named.values():
            for other, times in own.items():
                most[other] = max(most.get(other, 0), times + shared.get(other, 0))
        return most


def _step(found: _Found, key: str | int) -> _Found:
    return _Found(found.value[key], (*found.path, key))


def _parts(found: _Found) -> Iterator[_Found]:
    """The members of a list or object. Empty for anything else."""
    if isinstance(found.value, dict):
        yield from (_step(found, key) for key in found.value)
    elif isinstance(found.value, list):
        yield from (_step(found, number) for number in range(len(found.value)))


def _descend(found: _Found, part: str) -> _Found | None:
    if isinstance(found.value, dict) and part in found.value:
        return _step(found, part)
    if isinstance(found.value, list) and part.isdecimal() and int(part) < len(found.value):
        return _step(found, int(part))
    return None
