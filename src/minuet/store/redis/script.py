"""Names in the scripts, and what takes their place before a server is given them.

Rows are arrays in scripts: a table with a field for each column would cost a server three times the
time. Scripts contain only names, never positions:

    token[T_STATE]                  a column of a row
    new_token{ node = n, … }        a new row; columns that are not named have their default
    pack_arrival{ live = true, … }  a packed row; columns that are not named are nil
    head_token{ node = n, … }       the columns that only this call needs, followed by stored ones
    T_FORMAT                        how the numbers and strings of a row are read
    T_NUMBERS_FORMAT, T_NUMBERS(token), T_STRINGS(token)
                                    the same, to write them: the strings are looked up in `sized`
    T_TAIL_KINDS                    the types of the columns of its tail
    F_TOKEN                         how the fields of a kind begin in a run's hash
    L_LIVE, LEASE_MS_MAX, …         sets of words, and limits of `records`

What a request carries (`messages.py`) is read into variables, or is an array:

    ITEM, ITEM_VALUES               the variables that hold an item's values, and how many they are
    item.lease                      one of them
    ITEM_AT_LEASE                   how many they are up to this one
    held[HELD_LEASE]                a value of an array
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from minuet.store import feed, records
from minuet.store.exchange import GOES_ON
from minuet.store.redis.columns import FIELDS, LAYOUTS, NEVER, RESULT_CODES, Layout
from minuet.store.redis.messages import ARRAYS, VALUES
from minuet.types import CLOSED, STATUSES, TERMINAL, UNDO

_LIMITS = tuple(name for name in vars(records) if name.endswith("_MAX"))
_TEXTS = ("CHILD_ENDED",)


def expand_names(text: str) -> str:
    """A script with numbers and literals in place of names."""
    return _NAME.sub(_written, "".join(_expand_constructors(_COMMENT.sub("\n", text))))


def _places(layout: Layout) -> dict[str, int]:
    """Where each column is in a script's array. A row that is packed as a whole is unpacked into
    its array, so what only one call needs comes last there, and first in the others."""
    if layout.has_struct:
        names = (*layout.of_call, *layout.stored)
    else:
        names = (*layout.stored, *layout.of_call)
    return {name: place for place, name in enumerate(names, 1)}


# ── names ───────────────────────────────────────────────────────────────────────────────────


def _quote(value: str) -> str:
    return f"'{value}'"


def _names() -> dict[str, str]:
    names = {f"F_{name.upper()}": _quote(letter) for name, letter in FIELDS.items()}
    names |= {name: str(getattr(records, name)) for name in _LIMITS}
    names |= {name: _quote(getattr(records, name).decode()) for name in _TEXTS}
    names["FEED_MAX"] = str(feed.FEED_MAX)
    codes = ", ".join(f"{word} = {_quote(code)}" for word, code in RESULT_CODES.items())
    names |= {"L_NEVER": str(NEVER), "L_CODES": f"{{ {codes} }}"}
    names |= {"L_TERMINAL": _set(TERMINAL), "L_LIVE": _set(records.LIVE_STATES)}
    names |= {"L_GOES_ON": _set(GOES_ON)}
    names |= {"L_CLOSED": _set(CLOSED), "L_UNDO": _quote(UNDO)}
    statuses = ", ".join(map(_quote, STATUSES))
    names |= {"L_STATUSES": f"{{ {statuses} }}"}
    names |= {"L_SIGNAL_WAIT": _quote(records.SIGNAL_WAIT)}
    names |= {"L_APPROVAL_WAIT": _quote(records.APPROVAL_WAIT)}
    names |= {"L_FLOW_WAIT": _quote(records.FLOW_WAIT)}
    names |= {"L_CHILD_SIGNAL": _quote(records.CHILD_SIGNAL)}
    names |= {"L_HOLD_WAIT": _quote(records.HOLD_WAIT)}
    names |= {"L_RESERVED_SIGNAL": _quote(records.RESERVED_SIGNAL)}
    names |= {"L_TIMED_OUT": _quote(records.TIMED_OUT.decode())}
    for layout in LAYOUTS.values():
        places = _places(layout)
        names |= {f"{layout.letter}_{name.upper()}": str(at) for name, at in places.items()}
        kinds = ", ".join(_quote(column.kind) for column in layout.tail)
        names[f"{layout.letter}_FORMAT"] = _quote(layout.format)
        names[f"{layout.letter}_NUMBERS_FORMAT"] = _quote(layout.numbers_format)
        names[f"{layout.letter}_TAIL_KINDS"] = f"{{ {kinds} }}"
        # The last column that is stored.
        names[f"{layout.letter}_LAST"] = str(places[layout.stored[-1]])
    for word, message in VALUES.items():
        variables = (f"{word}_{place}" for place in range(1, message.length + 1))
        names[word.upper()] = ", ".join(variables)
        names[f"{word.upper()}_VALUES"] = str(message.length)
        for name, place in message.places.items():
            names[f"{word}_at_{name}".upper()] = str(place)
    for word, places in ARRAYS.items():
        names |= {f"{word}_{name}".upper(): str(place) for name, place in places.items()}
    return names


def _set(words: Iterable[str]) -> str:
    return "{ " + ", ".join(f"{word} = true" for word in sorted(words)) + " }"


_NAMES = _names()
_BY_LETTER = {layout.letter: layout for layout in LAYOUTS.values()}

#: A comment that has a line of its own; the numbers of lines stay.
_COMMENT = re.compile(r"\n *--.*(?=\n)")

_WORDS = (
    *(f"{word.upper()}_[A-Z_]+" for word in ARRAYS),
    *(f"{word.upper()}(?:_VALUES|_AT_[A-Z_]+)?" for word in VALUES),
)
#: Parts of a row, a value of a request, or a name. All in one go, because this takes milliseconds.
_NAME = re.compile(
    r"\b(?:([A-Z])_(NUMBERS|STRINGS)\((\w+)\)"
    rf"|({'|'.join(VALUES)})\.(\w+)"
    rf"|(?:[A-Z]_[A-Z_]+|{'|'.join(_WORDS)}|{'|'.join((*_LIMITS, *_TEXTS, 'FEED_MAX'))})\b)"
)


def _written(found: re.Match[str]) -> str:
    letter, part, row, word, name = found.groups()
    if letter:
        return _parts_of_row(_BY_LETTER[letter], part, row)
    if word:
        return f"{word}_{VALUES[word].places[name]}"
    return _NAMES[found.group()]


def _parts_of_row(layout: Layout, part: str, row: str) -> str:
    columns = {
        name: f"{row}[{_NAMES[f'{layout.letter}_{name.upper()}']}]" for name in layout.stored
    }
    if part == "STRINGS":
        return " .. ".join(f"sized[{columns[name]}]" for name in layout.strings)
    never = f" or {NEVER}"
    return ", ".join(
        columns[name] + (never if name in layout.optional else "") for name in layout.numbers
    )


# ── constructors ────────────────────────────────────────────────────────────────────────────

_CONSTRUCTOR = re.compile(rf"\b(new|pack|head)_({'|'.join(LAYOUTS)})\s*\{{")


def _expand_constructors(text: str) -> Iterator[str]:
    at = 0
    for found in _CONSTRUCTOR.finditer(text):
        if found.start() < at:
            raise ValueError(f"a constructor within another: {found.group()}")
        yield text[at : found.start()]
        parts, at = _split(text, found.end())
        given = dict(_named(part) for part in parts)
        what, kind = found.groups()
        values = ", ".join(_values(LAYOUTS[kind], what, given))
        yield {"new": f"{{ {values} }}", "pack": f"pack({values})", "head": values}[what]
    yield text[at:]


_PIECE = re.compile(r"'(?:[^'\\]|\\.)*'|[^'(){}\[\],]+|.", re.DOTALL)


def _split(text: str, at: int) -> tuple[list[str], int]:
    """The parts between commas up to the brace that ends a constructor, and its position."""
    parts, depth = [""], 1
    for piece in _PIECE.finditer(text, at):
        word = piece.group()
        depth += (word in "({[") - (word in ")}]")
        if depth == 0:
            return [part for part in parts if part.strip()], piece.end()
        if word == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += word
    raise ValueError(f"a constructor does not end: {text[at : at + 80]}")


def _named(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return name.strip(), value.strip()


def _values(layout: Layout, what: str, given: dict[str, str]) -> list[str]:
    """The values of a row in their order, up to the last that is not nil."""
    names = list(_places(layout))
    if what == "head":
        names = list(layout.of_call)
    elif what == "pack":
        names = list(layout.stored)
    unknown = given.keys() - set(names)
    if unknown:
        raise ValueError(f"there is no column {', '.join(sorted(unknown))}")
    values = [given.get(name) or _default(layout, name) for name in names]
    while what == "new" and values[-1] == "nil":
        values.pop()
    return values


def _default(layout: Layout, name: str) -> str:
    if name in layout.of_call:
        return layout.of_call[name]
    if layout.has_struct and name == "tail":
        return "0"
    if layout.has_struct and name in {column.name for column in layout.tail}:
        return "nil"
    if name in layout.required:
        raise ValueError(f"a new row needs its {name}")
    value = layout.defaults.get(name, 0)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | str):
        return str(value) if isinstance(value, int) else _quote(value)
    return "nil"
