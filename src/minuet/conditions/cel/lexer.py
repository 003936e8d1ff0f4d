"""Text to tokens."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from minuet.conditions.cel.errors import TextError
from minuet.conditions.cel.values import INT_MAX, UINT_MAX, UInt


class Token(msgspec.Struct, frozen=True):
    """One word of the text."""

    #: "name", "quoted" (a field in backquotes), "value" (a literal), "symbol" or "end".
    kind: str
    text: str
    start: int
    end: int
    value: Any = None


_TOKEN = re.compile(
    r"""
    (?P<space>(?:[\t\n\f\r ]+|//[^\n]*)+)
  | (?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:'{3}|"{3}|'|"))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<double>[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
  | (?P<hex>0x[0-9a-fA-F]+[uU]?)
  | (?P<int>[0-9]+[uU]?)
  | (?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
  | (?P<symbol>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}])
    """,
    re.VERBOSE,
)

_CONSTANTS = {"true": True, "false": False, "null": None}

#: Reserved: neither a variable nor a bound name may have such a name. A field may.
RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"}
    | {"package", "namespace", "return", "var", "void", "while"}
)

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_SIMPLE |= {mark: ord(mark) for mark in "\\?\"'`"}

_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-3][0-7]{2})|[xX](?P<byte>[0-9a-fA-F]{2})|u(?P<four>[0-9a-fA-F]{4})"
    r"|U(?P<eight>[0-9a-fA-F]{8})|(?P<simple>.))",
    re.DOTALL,
)


def _body(quote: str, *, is_raw: bool) -> re.Pattern[str]:
    """The text between the quotes, including the closing quote."""
    any_ = r"." if len(quote) == 3 else rf"[^{quote}\n\r]"
    part = any_ if is_raw else rf"(?:\\.|(?!\\){any_})"
    return re.compile(rf"({part}*?){quote}", re.DOTALL)


_BODIES = {
    (quote, is_raw): _body(quote, is_raw=is_raw)
    for quote in ("'", '"', "'''", '"""')
    for is_raw in (False, True)
}

#: Characters right after a number that make it invalid.
_GLUED = re.compile(r"[A-Za-z0-9_]")


def tokenize(source: str) -> list[Token]:
    """Split the text into tokens. The last token is the end."""
    tokens: list[Token] = []
    at, length, find = 0, len(source), _TOKEN.match
    while at < length:
        found = find(source, at)
        if found is None:
            raise TextError(f"unexpected character {source[at]!r}", at)
        kind, end = found.lastgroup, found.end()
        if kind != "space":
            text = found[0]
            if kind == "symbol" or (kind == "name" and text not in _CONSTANTS):
                tokens.append(Token(kind, text, at, end))
            else:
                token = _value(source, str(kind), text, at, end)
                end = token.end
                tokens.append(token)
        at = end
    tokens.append(Token("end", "", length, length))
    return tokens


def _value(source: str, kind: str, text: str, at: int, end: int) -> Token:
    """A literal, or a name in backquotes."""
    if kind == "name":
        return Token("value", text, at, end, _CONSTANTS[text])
    if kind == "text":
        value, end = _literal(source, text, at, end)
        return Token("value", source[at:end], at, end, value)
    if kind == "quoted":
        return Token(kind, text[1:-1], at, end)
    if _GLUED.match(source, end):
        raise TextError(f"unexpected character {source[end]!r} after a number", end)
    # `-9223372036854775808` is one number: the parser adds the sign.
    return Token("value", text, at, end, _number(kind, text, at))


def _number(kind: str, text: str, at: int) -> Any:
    if kind == "double":
        return float(text)
    unsigned = text[-1] in "uU"
    digits = text.rstrip("uU")
    if len(digits) > 24:
        raise TextError("the number does not fit into 64 bits", at)
    number = int(digits, 16 if kind == "hex" else 10)
    # One more than the largest is allowed here, because a minus may precede it.
    if number > (UINT_MAX if unsigned else INT_MAX + 1):
        raise TextError("the number does not fit into 64 bits", at)
    return UInt(number) if unsigned else number


def _literal(source: str, opening: str, at: int, begin: int) -> tuple[str | bytes, int]:
    """The value of a string or bytes literal, and where it ends."""
    quote = opening.lstrip("rRbB")
    prefix = opening[: -len(quote)].lower()
    is_raw, is_bytes = "r" in prefix, "b" in prefix
    found = _BODIES[quote, is_raw].match(source, begin)
    if found is None:
        raise TextError("the text is not closed", at)
    body = found[1]
    if is_raw or "\\" not in body:
        return (body.encode() if is_bytes else body), found.end()
    if not is_bytes:
        return _ESCAPE.sub(lambda e: chr(_code(e, begin)), body), found.end()
    data, last = bytearray(), 0
    for escape in _ESCAPE.finditer(body):
        data += body[last : escape.start()].encode()
        data.append(_code(escape, begin, is_bytes=True))
        last = escape.end()
    return bytes(data + body[last:].encode()), found.end()


def _code(escape: re.Match[str], begin: int, *, is_bytes: bool = False) -> int:
    """The character or byte of an escape."""
    simple, code = escape["simple"], -1
    if simple in _SIMPLE:
        return _SIMPLE[simple]
    if escape["octal"]:
        code = int(escape["octal"], 8)
    elif escape["byte"]:
        code = int(escape["byte"], 16)
    elif not is_bytes and (wide := escape["four"] or escape["eight"]):
        code = int(wide, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise TextError("the escape is not a Unicode character", begin + escape.start())
    if code < 0:
        raise TextError(
            f"unknown escape {escape[0][:2]}: write \\\\ for a backslash", begin + escape.start()
        )
    return code
