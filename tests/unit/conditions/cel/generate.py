"""Random expressions and data, mostly sensible: each is made for the type that is wanted.

Not made is what the other implementation gets wrong (a substring up to the end, `%s` of a double,
which loses digits) or leaves open (the order of a map's keys, the text of infinity).
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

TYPES = ("bool", "int", "double", "string", "list", "map", "bytes", "uint", "duration", "timestamp")
PLAIN = TYPES[:6]

WORDS = ("", "a", "b", "ab", "aab", "A b", "ü€", "10", "-3", "1.5", "true", "x.y", "a,b,,c", " a ")
KEYS = ("a", "b", "c", "d")
INTS = (0, 1, 2, 3, 7, -1, -5, 100, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
DOUBLES = (0.0, 1.0, 1.5, -2.5, 0.1, 3.0, 1e10, 1e300, -0.0, 12345678.25)
PATTERN_PARTS = (
    *(
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        r"\d",
        r"\w",
        r"\s",
        "^",
        "$",
        r"\b",
        "(a|b)",
        "(ab)",
        "x",
        "-",
    ),
    *("[[:alpha:]]", "(?i)A", r"\.", "ü", r"\x61", "(?:a)", "[a-c,]", r"\B", r"\pL", "(?s).", "€"),
)


class Generator:
    """Makes cases out of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bound: list[tuple[str, str]] = []

    def case(self) -> tuple[str, dict[str, Any]]:
        """An expression and its variables."""
        data = {name: self.data(3) for name in "xyz"}
        # Fields of these names have the type that is asked for, mostly.
        data["x"] = {f"{kind[0]}{n}": self.value(kind) for kind in PLAIN for n in range(3)}
        return self.of(self.random.choice(TYPES), 4), data

    def data(self, depth: int) -> Any:
        kinds = PLAIN if depth else PLAIN[:4]
        return self.value(self.random.choice((*kinds, "null")), depth)

    def value(self, kind: str, depth: int = 2) -> Any:
        chance = self.random
        match kind:
            case "bool":
                return chance.random() < 0.5
            case "int":
                return chance.choice(INTS)
            case "double":
                return chance.choice(DOUBLES)
            case "string":
                return chance.choice(WORDS)
            case "list":
                return [self.data(depth - 1) for _ in range(chance.randrange(4))] if depth else []
            case "map":
                names = chance.sample(KEYS, chance.randrange(4)) if depth else []
                return {name: self.data(depth - 1) for name in names}
        return None

    def of(self, kind: str, depth: int) -> str:
        """An expression that should have this type."""
        # A little nonsense: everything must be ready for it.
        if self.random.random() < 0.04:
            kind = self.random.choice(TYPES)
        if depth <= 0 or self.random.random() < 0.15:
            return self.atom(kind)
        makers = [*getattr(self, f"{kind}s")()]
        makers += {"bool": [self.quantifier], "list": [self.comprehension]}.get(kind, [])
        return str(self.random.choice(makers)(depth))

    def atom(self, kind: str) -> str:
        chance = self.random
        names = [name for name, known in self.bound if known in (kind, "any")]
        if names and chance.random() < 0.5:
            return chance.choice(names)
        if kind in PLAIN and chance.random() < 0.5:
            return f"x.{kind[0]}{chance.randrange(3)}"
        match kind:
            case "uint":
                return f"dyn({chance.choice([0, 1, 2, 7, 2**63, 2**64 - 1])}u)"
            case "bytes":
                return f"dyn(b{json.dumps(chance.choice(WORDS[:6]))})"
            case "duration":
                return f"duration('{chance.choice(['0', '1s', '-90m', '1.5h', '36h', '250ms'])}')"
            case "timestamp":
                when = chance.choice(["1970-01-01T00:00:00Z", "2024-02-29T23:59:59.5+01:00"])
                return f"timestamp('{when}')"
            case "list" if chance.random() < 0.5:
                return f"[{', '.join(self.atom(chance.choice(PLAIN[:4])) for _ in range(3))}]"
            case "double":
                return f"dyn({self.value('double')!r})"
        text = json.dumps(self.value(kind), ensure_ascii=False)
        return f"dyn({text.replace('-9223372036854775808', '(-9223372036854775807 - 1)')})"

    def any(self, depth: int) -> str:
        return self.of(self.random.choice(TYPES), depth)

    def _forms(self, *forms: str) -> list[Any]:
        """Makers of texts in which a type stands for an expression of it."""
        return [lambda depth, form=form: self._fill(form, depth) for form in forms]

    def _fill(self, form: str, depth: int) -> str:
        words = form.split("<")
        text = words[0]
        for word in words[1:]:
            kind, rest = word.split(">", 1) if ">" in word else (None, word)
            if kind in (*TYPES, "any", "number", "pattern", "key"):
                text += self._hole(str(kind), depth - 1) + rest
            else:
                text += "<" + word
        return text

    def _hole(self, kind: str, depth: int) -> str:
        if kind == "any":
            return self.any(depth)
        if kind == "number":
            return self.of(self.random.choice(("int", "double", "uint")), depth)
        if kind == "pattern":
            return f"'{self.pattern()}'"
        if kind == "key":
            return self.random.choice(KEYS)
        return self.of(kind, depth)

    def pattern(self) -> str:
        parts = []
        for _ in range(self.random.randrange(1, 5)):
            part = self.random.choice(PATTERN_PARTS)
            mark = self.random.choice(("", "", "*", "+", "?", "{2}", "{1,2}", "|"))
            parts.append(part + mark)
        return "".join(parts).replace("\\", "\\\\")

    def bools(self) -> list[Any]:
        return self._forms(
            *("<bool> && <bool>", "<bool> || <bool>", "!(<bool>)", "<any> == <any>"),
            *("<any> != <any>", "(<number>) < (<number>)", "(<string>) <= (<string>)"),
            *("(<number>) >= (<number>)", "(<timestamp>) > (<timestamp>)", "(<any>) in (<list>)"),
            *(
                "(<string>) in (<map>)",
                "has(x.<key>)",
                "has(y.<key>)",
                "(<string>).contains(<string>)",
            ),
            *("(<string>).startsWith(<string>)", "(<string>).endsWith(<string>)"),
            *("(<string>).matches(<pattern>)", "(<bool>) ? (<bool>) : (<bool>)", "bool(<string>)"),
            *("y.?<key>.hasValue()", "math.isNaN(<double>)", "(<list>) == (<list>)"),
            *("(<map>) == (<map>)", "(<int>) == (<double>)", "(<uint>) == (<int>)"),
            *("(<bytes>) < (<bytes>)", "(<duration>) <= (<duration>)", "(<bool>) < (<bool>)"),
        )

    def ints(self) -> list[Any]:
        return self._forms(
            *("(<int>) + (<int>)", "(<int>) - (<int>)", "(<int>) * (<int>)", "(<int>) / (<int>)"),
            *("(<int>) % (<int>)", "-(<int>)", "size(<string>)", "size(<list>)", "(<map>).size()"),
            *("int(<double>)", "int(<string>)", "int(<uint>)", "(<bool>) ? (<int>) : (<int>)"),
            *(
                "(<string>).indexOf(<string>)",
                "(<string>).lastIndexOf(<string>)",
                "(<list>)[<int>]",
            ),
            *("math.abs(<int>)", "math.sign(<int>)", "(<timestamp>).getHours()", "size(<bytes>)"),
            *("(<timestamp>).getDayOfYear()", "(<timestamp>).getMonth('+02:30')"),
            *("(<duration>).getMinutes()", "int(<timestamp>)", "math.greatest(<int>, <int>)"),
            *("y.?<key>.orValue(<int>)", "math.bitAnd(<int>, <int>)", "math.bitNot(<int>)"),
        )

    def doubles(self) -> list[Any]:
        return self._forms(
            *("(<double>) + (<double>)", "(<double>) - (<double>)", "(<double>) * (<double>)"),
            *("(<double>) / (<double>)", "-(<double>)", "double(<int>)", "double(<uint>)"),
            *("math.round(<double>)", "math.ceil(<double>)", "math.floor(<double>)"),
            *("math.trunc(<double>)", "math.abs(<double>)", "math.least(<double>, <number>)"),
            *("double(<string>)", "math.sign(<double>)", "math.greatest(<number>, <number>)"),
        )

    def strings(self) -> list[Any]:
        return self._forms(
            *("(<string>) + (<string>)", "string(<int>)", "string(<bool>)", "string(<uint>)"),
            *("(<string>).lowerAscii()", "(<string>).upperAscii()", "(<string>).trim()"),
            *("(<string>).substring(<int>)", "(<string>).substring(0, 0)"),
            *("(<string>).charAt(<int>)", "(<string>).replace(<string>, <string>)"),
            *("(<string>).replace(<string>, <string>, <int>)", "(<list>).join('-')"),
            *("(<string>).split(<string>).join('|')", "(<string>).reverse()", "(<list>)[<int>]"),
            *("(<map>).<key>", "(<map>)[<string>]", "(<bool>) ? (<string>) : (<string>)"),
            *("string(x.d0)", "string(<bytes>)", "string(<duration>)", "string(<timestamp>)"),
            *(
                "'%s %d %.2f|%x'.format([<string>, <int>, <double>, <int>])",
                "'%s|%b'.format([<int>, <bool>])",
            ),
            *("y.<key>", "z[<int>]", "y[?<string>].orValue(<string>)"),
        )

    def lists(self) -> list[Any]:
        return self._forms(
            *("[<any>, <any>]", "(<list>) + (<list>)", "(<string>).split(<string>)", "[]"),
            *("(<string>).split(<string>, <int>)", "[?y.?<key>, ?optional.of(<any>)]", "[<any>]"),
        )

    def maps(self) -> list[Any]:
        return self._forms(
            *("{'a': <any>, 'b': <any>}", "{<string>: <any>}", "{?'a': y.?<key>}", "{'a': y.?b}"),
            *("{<int>: <any>, <int>: <any>}", "{<bool>: <any>, <string>: <any>}"),
        )

    def bytess(self) -> list[Any]:
        return self._forms("bytes(<string>)", "(<bytes>) + (<bytes>)")

    def uints(self) -> list[Any]:
        return self._forms(
            *("(<uint>) + (<uint>)", "(<uint>) - (<uint>)", "(<uint>) * (<uint>)"),
            *("(<uint>) / (<uint>)", "(<uint>) % (<uint>)", "uint(<int>)", "uint(<double>)"),
        )

    def durations(self) -> list[Any]:
        return self._forms(
            *("(<duration>) + (<duration>)", "(<duration>) - (<duration>)"),
            *("(<timestamp>) - (<timestamp>)",),
        )

    def timestamps(self) -> list[Any]:
        return self._forms(
            "(<timestamp>) + (<duration>)", "(<timestamp>) - (<duration>)", "timestamp(<int>)"
        )

    def _loop(self, depth: int, macro: str, kind: str, *, maps: bool = False) -> str:
        over = self.of("map" if maps and self.random.random() < 0.3 else "list", depth - 1)
        name = f"v{len(self.bound)}"
        self.bound.append((name, "any"))
        body = self.of(kind, depth - 1)
        self.bound.pop()
        return f"({over}).{macro}({name}, {body})"

    def quantifier(self, depth: int) -> str:
        macro = self.random.choice(("all", "exists", "exists_one"))
        return self._loop(depth, macro, "bool", maps=True)

    def comprehension(self, depth: int) -> str:
        if self.random.random() < 0.5:
            return self._loop(depth, "filter", "bool")
        return self._loop(depth, "map", self.random.choice(TYPES))
