"""`{{ … }}` in a document: typed, safe, strict and bounded.

A template is any JSON value. Its strings may contain Jinja expressions. A string that consists of
one expression becomes the expression's value, of any type; text around it makes a string. Rendered
values are never rendered again, so data cannot become an expression. Names and fields that do not
exist are errors, never an empty string. There are no statements, calls or methods: see
`expression`, which is loaded only when an expression is more than a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec

from minuet.errors import TemplateError
from minuet.templates.lookup import (
    LIMITS,
    VARIABLES,
    Expression,
    Limits,
    Problem,
    Scope,
    compile_path,
    parse_path,
    text_of,
)
from minuet.types import Json

__all__ = ["LIMITS", "VARIABLES", "Limits", "Template", "compile_template"]

_Render: TypeAlias = Callable[[Scope], Json]

#: What the items of a foreach are called, and whether there is a variable `output`.
_Names: TypeAlias = tuple[str, bool]

_OPENING = re.compile(r"\{\{|\{%|\{#")

#: What matters for finding the end of an expression: strings, stray quotes, and braces.
_INSIDE = re.compile(
    r""" "(?:\\.|[^"\\])*+" | '(?:\\.|[^'\\])*+' | ["'] | \}\} | [{}] """, re.X | re.S
)


class Template:
    """A compiled template. Immutable, and safe to share between threads."""

    __slots__ = ("_render", "is_constant", "references", "secrets", "source", "uses")

    def __init__(
        self,
        source: Json,
        render: _Render | None,
        references: set[str],
        uses: set[str],
        secrets: set[str],
    ) -> None:
        #: The value as written.
        self.source = source
        #: The ids of the nodes whose outputs it reads.
        self.references = frozenset(references)
        #: The variables that it reads (`VARIABLES`).
        self.uses = frozenset(uses)
        #: The names of the secrets that it reads.
        self.secrets = frozenset(secrets)
        #: Whether it has no expressions at all.
        self.is_constant = render is None
        self._render = render

    def render(self, outputs: Mapping[str, Json], variables: Mapping[str, Json]) -> Json:
        """The value with its expressions replaced.

        `outputs` maps node ids to outputs. The result shares parts with the template and with
        the data: do not modify it.
        """
        if self._render is None:
            return self.source
        return self._render(Scope(outputs, variables))


def compile_template(value: Json, *, item: str = "item", knows_output: bool = False) -> Template:
    """Compile any JSON value. The keys of objects are not templates.

    `item` is another name of the variable `item`: what the author calls the items of a foreach.
    `knows_output`: it is rendered when its node has an output, which is the variable `output`.
    """
    references: set[str] = set()
    uses: set[str] = set()
    secrets: set[str] = set()
    render = _compile_value(value, references, uses, secrets, 0, (item, knows_output))
    return Template(value, render, references, uses, secrets)


def _compile_value(
    value: Json, references: set[str], uses: set[str], secrets: set[str], depth: int, names: _Names
) -> _Render | None:
    """How to render the value. None: it has no expressions."""
    if isinstance(value, str):
        text = _compile_text(value, *names)
        if text is None:
            return None
        references |= text.references
        uses |= text.uses
        secrets |= text.secrets
        return text.render
    if not isinstance(value, (dict, list)):
        return None
    if depth >= LIMITS.depth:
        raise TemplateError(f"the value is nested deeper than {LIMITS.depth} levels")
    renders: dict[str | int, _Render] = {}
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        render = _compile_value(part, references, uses, secrets, depth + 1, names)
        if render is not None:
            renders[key] = render
    return _render_container(value, renders) if renders else None


def _render_container(value: Json, renders: Mapping[str | int, _Render]) -> _Render:
    entries = tuple(renders.items())

    def render(scope: Scope) -> Json:
        result = value.copy()
        for key, render_item in entries:
            result[key] = render_item(scope)
        return result

    return render


class _Text(msgspec.Struct, frozen=True):
    """A string with expressions."""

    render: Callable[[Scope], Json]
    references: frozenset[str]
    uses: frozenset[str]
    secrets: frozenset[str]


@lru_cache(maxsize=LIMITS.cached)
def _compile_text(text: str, item: str, knows_output: bool) -> _Text | None:
    if _OPENING.search(text) is None:
        return None
    if len(text) > LIMITS.source_chars:
        raise TemplateError(
            f"the text has {len(text)} characters, {LIMITS.source_chars} are allowed with "
            f"expressions in it",
            source=text[:60] + "…",
        )
    try:
        parts = _split(text)
        compiled = [
            p if isinstance(p, str) else _compile_expression(p[0], item, knows_output)
            for p in parts
        ]
    except Problem as problem:
        raise TemplateError(str(problem), source=text) from None
    except Exception as error:
        raise TemplateError(f"it fails with {type(error).__name__}", source=text) from error
    expressions = [part for part in compiled if isinstance(part, Expression)]
    if len(compiled) == 1:
        render = expressions[0].evaluate
    else:
        render = _join([p if isinstance(p, str) else p.evaluate for p in compiled])
    return _Text(
        _with_source(render, text),
        frozenset(name for e in expressions for name in e.references),
        frozenset(name for e in expressions for name in e.uses),
        frozenset(name for e in expressions for name in e.secrets),
    )


def _split(text: str) -> list[str | tuple[str]]:
    """Literal text, and the text of each expression as a tuple of one."""
    parts: list[str | tuple[str]] = []
    at = 0
    while opening := _OPENING.search(text, at):
        if opening[0] != "{{":
            raise Problem(
                f"only {{{{ … }}}} is available; plain {opening[0]!r} is written "
                f'{{{{ "{opening[0]}" }}}}'
            )
        if opening.start() > at:
            parts.append(text[at : opening.start()])
        end = _find_end(text, opening.end())
        expression = text[opening.end() : end]
        if expression[:1] in ("-", "+") or expression[-1:] in ("-", "+"):
            raise Problem("whitespace control is not available: leave a space after '{{'")
        parts.append((expression.strip(),))
        at = end + 2
    if at < len(text):
        parts.append(text[at:])
    if len(parts) > LIMITS.parts:
        raise Problem(f"there are more than {LIMITS.parts} parts in one text")
    return parts


def _find_end(text: str, at: int) -> int:
    depth = 0
    while token := _INSIDE.search(text, at):
        at = token.end()
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
        elif token[0] in ("'", '"'):
            # To continue would read the rest of the text again for each quote in it.
            raise Problem(f"a text that begins with {token[0]} has no end")
        elif token[0] == "}}":
            if depth <= 0:
                return token.start()
            # The first of the two closes an object inside the expression.
            depth -= 1
            at -= 1
    raise Problem("'{{' without '}}'")


def _compile_expression(text: str, item: str, knows_output: bool) -> Expression:
    if len(text) > LIMITS.expression_chars:
        raise Problem(
            f"an expression has {len(text)} characters, {LIMITS.expression_chars} are allowed"
        )
    path = parse_path(text)
    if path is not None:
        return compile_path(path, item, knows_output=knows_output)
    from minuet.templates import expression

    return expression.compile_expression(text, item, knows_output=knows_output)


def _join(parts: list[str | Callable[[Scope], Json]]) -> Callable[[Scope], str]:
    def render(scope: Scope) -> str:
        texts = [p if isinstance(p, str) else text_of(scope, p(scope)) for p in parts]
        if sum(map(len, texts)) > LIMITS.text_chars:
            raise Problem(f"the text would be longer than {LIMITS.text_chars} characters")
        return "".join(texts)

    return render


def _with_source(render: Callable[[Scope], Json], text: str) -> Callable[[Scope], Json]:
    def checked(scope: Scope) -> Json:
        try:
            return render(scope)
        except Problem as problem:
            raise TemplateError(str(problem), source=text) from None
        except RecursionError:
            raise TemplateError("the data is nested too deeply", source=text) from None
        except Exception as error:
            # An error in a document or its data must not look like a fault of the worker.
            raise TemplateError(f"it fails with {type(error).__name__}", source=text) from error

    return checked
