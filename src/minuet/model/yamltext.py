"""YAML text to plain data, by the rules of YAML 1.2's core schema.

The parser's events are consumed one by one, without recursion. Only plain data is constructed:
no tags, no merge keys, no dates, and `yes`, `no`, `on` and `off` are strings. An alias shares the
value of its anchor, within a budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from minuet.model.diagnostics import Position, quote
from minuet.model.problem import BROKEN, Problem, Unparsable
from minuet.model.tree import DEPTH_MAX, Builder, Parts, is_deeper_than
from minuet.types import Json

#: How many values, and how many bytes of text, the aliases of a document may expand to in total:
#: generous for people, too little for a document that expands exponentially.
ALIASED_VALUES_MAX: Final = 100_000
ALIASED_BYTES_MAX: Final = 4 * 1024 * 1024


def scan(text: str, builder: Builder) -> None:
    """Read one YAML document into a builder. Raises Unparsable where the YAML is broken."""
    reader = _Reader(builder)
    for event in _events(text):
        reader.take(event)
    if builder.mark is None or builder.value is None:
        message = "the document is empty"
        raise Unparsable(Problem("empty-document", message, position=Position(1, 1)))


def _events(text: str) -> Iterator[Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    except yaml.MarkedYAMLError as error:
        place = _place(error.problem_mark or error.context_mark)
        raise Unparsable(_syntax_problem(str(error.problem), place)) from None
    finally:
        loader.dispose()


def _syntax_problem(found: str, place: Position) -> Problem:
    hint = next((hint for words, hint in _SYNTAX_HINTS if words in found), None)
    return Problem("syntax", f"this is not valid YAML: {found}", hint=hint, position=place)


_SYNTAX_HINTS: Final = (
    (
        "cannot start any token",
        "indent YAML with spaces, and put strings that begin like this in quotes",
    ),
    ("mapping values are not allowed", 'a string with ": " in it needs quotes'),
    ("did not find expected key", "the indentation does not fit the lines above"),
    ("did not find expected <block end>", "the indentation does not fit the lines above"),
    ("expected <block end>", "the indentation does not fit the lines above"),
    ("unexpected end of stream", "a quoted string is not closed"),
)


def _place(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


class _Reader:
    """Translates the parser's events into calls to a builder."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._anchors: dict[str, tuple[Json, Parts]] = {}
        #: The anchor of each open container, or None.
        self._open: list[str | None] = []
        self._aliased_values = 0
        self._aliased_bytes = 0
        self._documents = 0
        #: How many containers are open inside a refused key.
        self._ignored = 0

    def take(self, event: Any) -> None:
        """Consume one event."""
        name = type(event).__name__
        if self._ignored:
            self._ignored += _NESTING.get(name, 0)
            self._builder.check_depth(self._ignored, _place(event.start_mark))
        elif name in _NODE_EVENTS:
            self._take_node(name, event)
        elif name in ("MappingEndEvent", "SequenceEndEvent"):
            self._close()
        elif name == "DocumentStartEvent":
            self._count_document(_place(event.start_mark))

    def _count_document(self, place: Position) -> None:
        self._documents += 1
        if self._documents > 1:
            message = "the text has more than one YAML document"
            hint = "put each workflow into its own file"
            raise Unparsable(Problem("several-documents", message, hint=hint, position=place))

    def _take_node(self, name: str, event: Any) -> None:
        place = _place(event.start_mark)
        if self._builder.expects_key:
            self._key(name, event, place)
        elif name == "AliasEvent":
            self._alias(event.anchor, place)
        elif name == "ScalarEvent":
            self._builder.add(self._scalar(event, place), place)
        else:
            self._tagged(event, place)
            self._builder.open({} if name == "MappingStartEvent" else [], place)
            self._open.append(event.anchor)

    def _close(self) -> None:
        anchor = self._open.pop()
        value, parts = self._builder.close()
        if anchor is not None:
            self._anchors[anchor] = (value, parts)

    def _key(self, name: str, event: Any, place: Position) -> None:
        if name != "ScalarEvent":
            self._ignored = _NESTING.get(name, 0)
            hint = 'keys are strings; a template needs quotes: "{{ … }}"'
            key = self._builder.report(
                "bad-key", f"{_NOUNS[name]} cannot be a key", place, hint=hint
            )
        elif event.implicit[0] and event.value == "<<":
            hint = "repeat the fields, or put them under the document's defaults"
            key = self._builder.report(
                "yaml-merge", "merge keys are not supported", place, hint=hint
            )
        else:
            key = self._scalar_key(event, place)
        self._builder.key(key, place)

    def _scalar_key(self, event: Any, place: Position) -> Json:
        key = self._scalar(event, place)
        if key is BROKEN or isinstance(key, str):
            return key
        message = f"the key {quote(event.value)} is not a string"
        return self._builder.report("bad-key", message, place, hint="put it in quotes")

    def _tagged(self, event: Any, place: Position) -> Json:
        """Refuse an explicit tag: it would choose a class to construct, and none is constructed."""
        if event.tag is None:
            return None
        message = f"the tag {quote(event.tag)} is not supported"
        return self._builder.report("yaml-tag", message, place, hint="leave the tag out")

    def _alias(self, anchor: str, place: Position) -> None:
        if anchor not in self._anchors:
            message = f"the alias *{anchor[:40]} is used before or inside its anchor"
            hint = f"write &{anchor[:40]} at an earlier value"
            self._builder.add(self._builder.report("yaml-alias", message, place, hint=hint), place)
            return
        value, parts = self._anchors[anchor]
        self._count_aliased(value, place)
        if is_deeper_than(value, DEPTH_MAX - self._builder.depth):
            self._builder.check_depth(DEPTH_MAX + 1, place)
        self._builder.add(value, place, parts)

    def _count_aliased(self, value: Json, place: Position) -> None:
        """Count a value and everything in it, each time it is shared, within the budget."""
        waiting = [value]
        while waiting:
            part = waiting.pop()
            self._aliased_values += 1
            if isinstance(part, str):
                self._aliased_bytes += len(part.encode())
            elif isinstance(part, dict):
                self._aliased_bytes += sum(len(key.encode()) for key in part)
                waiting.extend(part.values())
            elif isinstance(part, list):
                waiting.extend(part)
            if self._aliased_values > ALIASED_VALUES_MAX:
                found = f"{ALIASED_VALUES_MAX:,} values"
            elif self._aliased_bytes > ALIASED_BYTES_MAX:
                found = f"{ALIASED_BYTES_MAX // 1024**2} MiB of text"
            else:
                continue
            message = f"the aliases up to here expand to more than {found}"
            hint = "keep large values as blobs, or pass them as the run's input"
            raise Unparsable(Problem("yaml-alias", message, hint=hint, position=place))

    def _scalar(self, event: Any, place: Position) -> Json:
        value = self._tagged(event, place) or self._resolve(event, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, None)
        return value

    def _resolve(self, event: Any, place: Position) -> Json:
        text: str = event.value
        if not event.implicit[0]:
            return self._builder.text(text, place) if event.style == '"' else text
        if text in _WORDS:
            return _WORDS[text]
        match = _NUMBER.fullmatch(text)
        return text if match is None else self._number(match, place)

    def _number(self, match: re.Match[str], place: Position) -> Json:
        text = match[0]
        if match["decimal"]:
            return self._builder.decimal(text, place)
        if match["whole"]:
            return self._builder.whole(text, place)
        if match["prefixed"]:
            return self._builder.whole(text, place, base=0)
        if match["zeros"]:
            message = (
                f"{quote(text)} begins with 0: some readers take it as octal, others as decimal"
            )
            hint = f'write {text.lstrip("+-0") or "0"}, or "{text}" for a string'
        else:
            message, hint = f"{text} is not a JSON number", "write null, or put it in quotes"
        return self._builder.report("bad-number", message, place, hint=hint)


def is_plain_string(text: str) -> bool:
    """Whether the text, written without quotes, would be read as a string."""
    return text not in _WORDS and _NUMBER.fullmatch(text) is None


_NODE_EVENTS: Final = ("ScalarEvent", "MappingStartEvent", "SequenceStartEvent", "AliasEvent")

_NESTING: Final = {
    "MappingStartEvent": 1,
    "SequenceStartEvent": 1,
    "MappingEndEvent": -1,
    "SequenceEndEvent": -1,
}

_NOUNS: Final = {
    "MappingStartEvent": "an object",
    "SequenceStartEvent": "a list",
    "AliasEvent": "an alias",
}

_WORDS: Final = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

_NUMBER: Final = re.compile(
    r"""
      (?P<whole>    [-+]? (?: 0 | [1-9][0-9]* ) )
    | (?P<zeros>    [-+]? 0[0-9]+ )
    | (?P<prefixed> 0o[0-7]+ | 0x[0-9a-fA-F]+ )
    | (?P<decimal>  [-+]? (?: \.[0-9]+ | [0-9]+(?:\.[0-9]*)? ) (?: [eE][-+]?[0-9]+ )? )
    | [-+]? \.(?:inf|Inf|INF) | \.(?:nan|NaN|NAN)
    """,
    re.VERBOSE,
)
