"""JSON Schemas as fields of an HTML form, for people who have opened a link.

Plain fields are enough for most forms. What they cannot show is a field of JSON; whether the data
fits the schema is decided by `app.approvals`, not here.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal[
    "text", "long", "number", "integer", "boolean", "choice", "date", "lines", "json"
]

#: The name of the field for data as a whole, as JSON.
WHOLE = "data"

#: A form with more fields is one of JSON.
FIELDS_MAX = 60
DEPTH_MAX = 3

_INPUT_TYPES: dict[Kind, str] = {"text": "text", "date": "date"}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a form."""

    #: Its name in what a browser sends.
    name: str
    #: Where its value belongs.
    path: tuple[str, ...]
    label: str
    kind: Kind
    needed: bool
    about: str = ""
    choices: tuple[Any, ...] = ()
    default: Any = None


def fields_of(schema: Mapping[str, Any]) -> list[Field] | None:
    """The fields for an object that fits a schema; None: it needs JSON as a whole."""
    found: list[Field] = []
    if not isinstance(schema.get("properties"), dict) or not _add(schema, (), (), found, True):
        return None
    return found if len(found) <= FIELDS_MAX else None


def _add(
    schema: Mapping[str, Any],
    path: tuple[str, ...],
    labels: tuple[str, ...],
    found: list[Field],
    needed: bool,
) -> bool:
    """Add the fields of an object; False: it is too deep."""
    required = schema.get("required", ())
    for name, member in schema["properties"].items():
        own = member if isinstance(member, dict) else {}
        label, is_needed = (*labels, _label(own, name)), needed and name in required
        if own.get("type") == "object" and isinstance(own.get("properties"), dict):
            deep = len(path) < DEPTH_MAX and _add(own, (*path, name), label, found, is_needed)
            if not deep:
                return False
            continue
        found.append(
            Field(
                name=f"field{len(found)}",
                path=(*path, name),
                label=" · ".join(label),
                kind=_kind(own),
                needed=is_needed,
                about=own["description"] if isinstance(own.get("description"), str) else "",
                choices=tuple(own["enum"]) if isinstance(own.get("enum"), list) else (),
                default=own.get("default"),
            )
        )
    return True


def _label(schema: Mapping[str, Any], name: str) -> str:
    title = schema.get("title")
    words = name.replace("_", " ").replace("-", " ").strip()
    return title if isinstance(title, str) else words[:1].upper() + words[1:]


def _kind(schema: Mapping[str, Any]) -> Kind:
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return "choice"
    match schema.get("type"):
        case "string" if schema.get("format") == "date":
            return "date"
        case "string":
            length = schema.get("maxLength")
            is_long = schema.get("format") == "textarea" or (
                isinstance(length, int) and length > 200
            )
            return "long" if is_long else "text"
        case "number":
            return "number"
        case "integer":
            return "integer"
        case "boolean":
            return "boolean"
        case "array" if isinstance(items := schema.get("items"), dict) and _kind(items) == "text":
            return "lines"
        case _:
            return "json"


# ── reading ─────────────────────────────────────────────────────────────────────────────────


def read_fields(fields: list[Field], given: Mapping[str, str]) -> dict[str, Any]:
    """The data that somebody has filled in. What cannot be read stays text: it does not fit."""
    data: dict[str, Any] = {}
    for field in fields:
        value = _read(field, given.get(field.name, ""))
        if value is None:
            continue
        inside = data
        for name in field.path[:-1]:
            inside = inside.setdefault(name, {})
        inside[field.path[-1]] = value
    return data


def _read(field: Field, text: str) -> Any:
    """The value of a field; None: it is empty."""
    if field.kind == "boolean":
        return bool(text)
    if not text.strip():
        return [] if field.kind == "lines" and field.needed else None
    match field.kind:
        case "choice":
            return next((one for one in field.choices if _choice(one) == text), text)
        case "number" | "integer":
            try:
                number = float(text)
            except ValueError:
                return text
            return int(number) if number.is_integer() and abs(number) < 2**53 else number
        case "lines":
            return [line.strip() for line in text.splitlines() if line.strip()]
        case "json":
            try:
                return msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                return text
    return text


def _choice(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# ── drawing ─────────────────────────────────────────────────────────────────────────────────


def draw_fields(
    fields: list[Field], given: Mapping[str, str] | None, problems: Mapping[str, str]
) -> str:
    """The fields as HTML, with what somebody has filled in, and what is wrong with it."""
    return "".join(_draw(field, given, problems.get(".".join(field.path), "")) for field in fields)


def _draw(field: Field, given: Mapping[str, str] | None, problem: str) -> str:
    text = _shown(field) if given is None else given.get(field.name, "")
    name, wrong = field.name, ' aria-invalid="true"' if problem else ""
    optional = "" if field.needed or field.kind == "boolean" else " <i>optional</i>"
    shared = f'id="{name}" name="{name}"{wrong}'
    match field.kind:
        case "boolean":
            checked = " checked" if text else ""
            body = (
                f'<label class="check"><input type="checkbox" value="yes" {shared}{checked}>'
                f"{_text(field.label)}</label>"
            )
            return f"<div>{body}{_notes(field, problem)}</div>"
        case "choice":
            options = "".join(
                f"<option{' selected' if one == text else ''}>{_text(one)}</option>"
                for one in map(_choice, field.choices)
            )
            body = f'<select {shared}><option value="">Choose…</option>{options}</select>'
        case "long" | "lines" | "json":
            kind = {"lines": "One in each line", "json": "JSON"}.get(field.kind, "")
            hint = f' placeholder="{kind}"' if kind else ""
            body = f'<textarea rows="3" {shared}{hint}>{_text(text)}</textarea>'
        case "number" | "integer":
            mode = "decimal" if field.kind == "number" else "numeric"
            body = f'<input inputmode="{mode}" autocomplete="off" {shared} value="{_text(text)}">'
        case _:
            kind = _INPUT_TYPES[field.kind]
            body = f'<input type="{kind}" autocomplete="off" {shared} value="{_text(text)}">'
    label = f'<label for="{name}">{_text(field.label)}{optional}</label>'
    return f"<div>{label}{body}{_notes(field, problem)}</div>"


def _notes(field: Field, problem: str) -> str:
    about = f"<small>{_text(field.about)}</small>" if field.about else ""
    wrong = f'<strong class="problem">{_text(problem)}</strong>' if problem else ""
    return about + wrong


def _shown(field: Field) -> str:
    """What a field begins with."""
    if field.default is None:
        return ""
    if field.kind == "boolean":
        return "yes" if field.default is True else ""
    if field.kind == "lines" and isinstance(field.default, list):
        return "\n".join(map(str, field.default))
    return _choice(field.default)


def _text(text: str) -> str:
    return html.escape(text, quote=True)
