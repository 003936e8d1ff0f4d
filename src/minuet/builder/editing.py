"""Change the text of a YAML document, and keep what has not changed, with its comments."""

from __future__ import annotations

from typing import Any, NamedTuple

from minuet.model import write_yaml
from minuet.model.text import parse
from minuet.types import Json


class _Edit(NamedTuple):
    """Lines to be replaced, from `start` up to but without `end`."""

    start: int
    end: int
    text: str


def edit_text(text: str, data: dict[str, Json]) -> str | None:
    """The text with as few changes as make it say `data`. None if it has to be written again."""
    if not text:
        return None
    known = parse(text).value
    if known == data:
        return text
    edited = _edit(text, known, data)
    if edited is None:
        return None
    # Anchors, odd indentation and the like: what is not certain is not done.
    found = parse(edited)
    return edited if not found.problems.count and found.value == data else None


def _edit(text: str, known: Json, data: dict[str, Json]) -> str | None:
    import yaml

    root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    edits = _edit_object(root, known, data)
    if edits is None:
        return None
    lines = text.split("\n")
    if lines[-1]:
        lines.append("")
    edits.sort(key=lambda edit: edit.start)
    # From the end, so that the numbers of lines before stay right; of two at one place, the later.
    for edit in reversed(edits):
        lines[edit.start : edit.end] = edit.text.rstrip("\n").split("\n")
    return "\n".join(lines)


def _edit_object(mark: Any, known: Json, wanted: dict[str, Json]) -> list[_Edit] | None:
    """The edits of an object in block style. None: it has another form."""
    if not isinstance(known, dict) or mark.flow_style or known.keys() - wanted.keys():
        return None
    column = mark.start_mark.column
    edits: list[_Edit] = []
    for key, value in mark.value:
        name = key.value
        if known[name] == wanted[name]:
            continue
        items = _edit_items(value, known[name], wanted[name]) if name == "nodes" else None
        if items is not None:
            edits += items
        elif key.start_mark.line == mark.start_mark.line and column and mark.start_mark.line:
            # It may share its line with the dash of a list.
            return None
        else:
            text = write_yaml({name: wanted[name]}, indent=column)
            edits.append(_Edit(key.start_mark.line, _last_line(value) + 1, text))
    more = {name: value for name, value in wanted.items() if name not in known}
    if more:
        end = _last_line(mark) + 1
        edits.append(_Edit(end, end, write_yaml(more, indent=column)))
    return edits


def _edit_items(mark: Any, known: Json, wanted: Json) -> list[_Edit] | None:
    """The edits of a list of nodes in block style, to which nodes were added at the end."""
    if not isinstance(known, list) or not known or mark.flow_style:
        return None
    column = mark.start_mark.column
    edits: list[_Edit] = []
    for item, before, after in zip(mark.value, known, wanted, strict=False):
        if before != after:
            fields = _edit_object(item, before, after)
            whole = _Edit(
                item.start_mark.line, _last_line(item) + 1, write_yaml([after], indent=column)
            )
            edits += fields if fields is not None else [whole]
    if len(wanted) > len(known):
        end = _last_line(mark) + 1
        edits.append(_Edit(end, end, write_yaml(wanted[len(known) :], indent=column)))
    return edits


def _last_line(mark: Any) -> int:
    """The last line of a value, without the comments and blank lines after it."""
    if isinstance(mark.value, list) and not mark.flow_style and mark.value:
        last = mark.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    line: int = mark.end_mark.line
    # A block of text ends where the next line begins.
    is_block = isinstance(mark.value, str) and mark.style in ("|", ">")
    return line - 1 if is_block else line
