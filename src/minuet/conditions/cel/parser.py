"""Tokens to a tree: a Pratt parser, so that nesting costs two stack frames per level.

Depth is bounded here, which bounds the recursion of everything that walks a tree.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from minuet.conditions.cel.errors import TextError
from minuet.conditions.cel.lexer import RESERVED, Token, tokenize
from minuet.conditions.cel.macros import expand
from minuet.conditions.cel.operators import DECIMAL
from minuet.conditions.cel.tree import (
    Binary,
    Call,
    Constant,
    Index,
    ListLiteral,
    Logic,
    MapLiteral,
    Message,
    Name,
    Select,
    Ternary,
    Tree,
    Unary,
    children,
    qualified_name,
)
from minuet.conditions.cel.values import INT_MAX

#: How strongly each operator binds. Operators of one row are left-associative.
_STRENGTH = {
    "?": 1,
    "||": 2,
    "&&": 3,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
}


def parse(source: str, depth: int, *, decimal: bool = False) -> Tree:
    """The tree of an expression, at most `depth` levels deep.

    `decimal`: arithmetic is that of decimal numbers, whatever numbers it meets.
    """
    parser = _Parser(tokenize(source), depth, decimal=decimal)
    tree = parser.expression(1, 0)
    token = parser.peek()
    if token.kind != "end":
        raise TextError(f"unexpected {token.text!r}", token.start)
    _check_height(tree, depth)
    return tree


def _check_height(tree: Tree, depth: int) -> None:
    """Operators in a row make a deep tree without any nesting in the text."""
    level: list[Tree] = [tree]
    for _ in range(depth):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return
    raise _too_deep(level[0].start, depth)


def _too_deep(at: int, depth: int) -> TextError:
    return TextError(
        f"it is nested too deeply, or has more than {depth} operators or dots in a row", at
    )


class _Parser:
    """One pass over the tokens."""

    def __init__(self, tokens: list[Token], depth: int, *, decimal: bool) -> None:
        self.tokens = tokens
        self.place = 0
        self.depth = depth
        self.operators = DECIMAL if decimal else {}

    def peek(self) -> Token:
        return self.tokens[self.place]

    def take(self) -> Token:
        token = self.tokens[self.place]
        self.place += 1
        return token

    def skip(self, symbol: str) -> bool:
        """Consume this symbol if it comes next. Returns whether it did."""
        token = self.tokens[self.place]
        if token.kind == "symbol" and token.text == symbol:
            self.place += 1
            return True
        return False

    def expect(self, symbol: str) -> Token:
        token = self.take()
        if token.kind != "symbol" or token.text != symbol:
            raise TextError(f"expected {symbol!r}, not {_shown(token)}", token.start)
        return token

    def expression(self, strength: int, level: int) -> Tree:
        """Parse operators that bind at least as strongly."""
        if level >= self.depth:
            raise _too_deep(self.peek().start, self.depth)
        left = self.operand(level)
        while True:
            token = self.tokens[self.place]
            if token.kind == "end":
                return left
            own = _STRENGTH.get(token.text, 0)
            if own < strength or token.kind not in ("symbol", "name"):
                return left
            self.place += 1
            if own == 1:
                return self.ternary(left, token, level)
            if own <= 3:
                left = self.logic(left, token, own, level)
                continue
            right = self.expression(own + 1, level + 1)
            left = Binary(
                operator=self.operators.get(token.text, token.text),
                left=left,
                right=right,
                at=token.start,
                start=left.start,
                end=right.end,
            )

    def ternary(self, condition: Tree, token: Token, level: int) -> Tree:
        yes = self.expression(2, level + 1)
        self.expect(":")
        no = self.expression(1, level + 1)
        return Ternary(
            condition=condition,
            yes=yes,
            no=no,
            at=token.start,
            start=condition.start,
            end=no.end,
        )

    def logic(self, left: Tree, token: Token, own: int, level: int) -> Tree:
        """All parts of one `&&` or `||`, as one node."""
        parts = [left, self.expression(own + 1, level + 1)]
        while self.skip(token.text):
            parts.append(self.expression(own + 1, level + 1))
        operator: Any = token.text
        return Logic(
            operator=operator,
            parts=tuple(parts),
            at=token.start,
            start=left.start,
            end=parts[-1].end,
        )

    def operand(self, level: int) -> Tree:
        """A value with the signs before it and the fields, indexes and calls after it."""
        signs: list[Token] = []
        while (token := self.peek()).kind == "symbol" and token.text in ("!", "-"):
            signs.append(self.take())
        if len({sign.text for sign in signs}) > 1:
            raise TextError("'!' and '-' do not mix: use parentheses", signs[0].start)
        if level + len(signs) >= self.depth:
            raise _too_deep(self.peek().start, self.depth)
        token = self.peek()
        negative = bool(signs) and signs[-1].text == "-" and type(token.value) in (int, float)
        if negative:
            # The sign belongs to the number: the smallest integer has no positive counterpart.
            sign = signs.pop()
            self.place += 1
            value = -token.value
            tree: Tree = Constant(value=value, at=sign.start, start=sign.start, end=token.end)
        else:
            tree = self.primary(level)
        tree = self.suffixes(tree, level)
        for sign in reversed(signs):
            tree = Unary(
                operator=sign.text, operand=tree, at=sign.start, start=sign.start, end=tree.end
            )
        return tree

    def primary(self, level: int) -> Tree:
        token = self.take()
        at, end = token.start, token.end
        if token.kind == "value":
            if type(token.value) is int and token.value > INT_MAX:
                raise TextError("the number does not fit into 64 bits", at)
            return Constant(value=token.value, at=at, start=at, end=end)
        if token.kind == "name" and token.text != "in":
            return self.name(token, at, level)
        if token.kind == "symbol":
            match token.text:
                case "(":
                    tree = self.expression(1, level + 1)
                    closing = self.expect(")")
                    return replace(tree, start=at, end=closing.end)
                case "[":
                    return self.list_literal(at, level)
                case "{":
                    return self.map_literal(at, level)
                case ".":
                    following = self.take()
                    if following.kind == "name":
                        return self.name(following, at, level, absolute=True)
        raise TextError(f"expected an expression, not {_shown(token)}", at)

    def name(self, token: Token, start: int, level: int, *, absolute: bool = False) -> Tree:
        if self.skip("("):
            return self.call(token, None, start, level)
        if token.text in RESERVED:
            raise TextError(f"{token.text!r} is a reserved word", token.start)
        return Name(name=token.text, absolute=absolute, at=token.start, start=start, end=token.end)

    def suffixes(self, tree: Tree, level: int) -> Tree:
        """Fields, indexes and methods."""
        while True:
            token = self.peek()
            if token.kind != "symbol" or token.text not in (".", "[", "{"):
                return tree
            if token.text == ".":
                tree = self.dot(tree, self.take(), level)
            elif token.text == "[":
                self.place += 1
                optional = self.skip("?")
                key = self.expression(1, level + 1)
                end = self.expect("]").end
                tree = Index(
                    operand=tree,
                    key=key,
                    optional=optional,
                    at=token.start,
                    start=tree.start,
                    end=end,
                )
            else:
                name = qualified_name(tree)
                if name is None:
                    return tree
                self.place += 1
                tree = self.message(tree, name[0], level)

    def dot(self, tree: Tree, token: Token, level: int) -> Tree:
        optional = self.skip("?")
        field = self.take()
        # A name such as `in` or `true` may be a field.
        named = field.kind in ("name", "quoted") or field.text in ("true", "false", "null")
        if not named:
            raise TextError(f"expected the name of a field, not {_shown(field)}", field.start)
        if field.kind == "name" and not optional and self.skip("("):
            return self.call(field, tree, tree.start, level)
        return Select(
            operand=tree,
            field=field.text,
            optional=optional,
            at=token.start,
            start=tree.start,
            end=field.end,
        )

    def call(self, token: Token, receiver: Tree | None, start: int, level: int) -> Tree:
        arguments: list[Tree] = []
        while not self.skip(")"):
            if arguments:
                self.expect(",")
            arguments.append(self.expression(1, level + 1))
        end = self.tokens[self.place - 1].end
        return expand(
            Call(
                function=token.text,
                receiver=receiver,
                arguments=tuple(arguments),
                at=token.start,
                start=start,
                end=end,
            )
        )

    def list_literal(self, start: int, level: int) -> Tree:
        items: list[Tree] = []
        optional = set()
        while not self.skip("]"):
            if items:
                self.expect(",")
                if self.skip("]"):
                    break
            if self.skip("?"):
                optional.add(len(items))
            items.append(self.expression(1, level + 1))
        end = self.tokens[self.place - 1].end
        return ListLiteral(
            items=tuple(items), optional=frozenset(optional), at=start, start=start, end=end
        )

    def map_literal(self, start: int, level: int) -> Tree:
        entries: list[tuple[Tree, Tree]] = []
        optional = set()
        while not self.skip("}"):
            if entries:
                self.expect(",")
                if self.skip("}"):
                    break
            if self.skip("?"):
                optional.add(len(entries))
            key = self.expression(1, level + 1)
            self.expect(":")
            entries.append((key, self.expression(1, level + 1)))
        end = self.tokens[self.place - 1].end
        return MapLiteral(
            entries=tuple(entries), optional=frozenset(optional), at=start, start=start, end=end
        )

    def message(self, tree: Tree, name: str, level: int) -> Tree:
        first = True
        while not self.skip("}"):
            if not first:
                self.expect(",")
                if self.skip("}"):
                    break
            first = False
            self.skip("?")
            field = self.take()
            if field.kind not in ("name", "quoted"):
                raise TextError(f"expected the name of a field, not {_shown(field)}", field.start)
            self.expect(":")
            self.expression(1, level + 1)
        end = self.tokens[self.place - 1].end
        return Message(name=name, at=tree.start, start=tree.start, end=end)


def _shown(token: Token) -> str:
    return "the end" if token.kind == "end" else repr(token.text[:40])
