"""How much a condition may be and do. Constants with reasons; nothing here is configurable."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Upper bounds on conditions and on the data that they read."""

    #: Characters of one expression. Nobody reads more, and parsing stays below milliseconds.
    source_chars: int = 4096
    #: Nesting of the data. CEL converts it recursively and a deep value ends the process.
    data_depth: int = 100
    #: Bytes of the data that an expression reads; converting them takes about 10 ms.
    data_bytes: int = 4 * 1024 * 1024
    #: Bytes that one evaluation may compare, copy or build. CEL frees nothing before it ends.
    work_bytes: int = 64 * 1024 * 1024
    #: CEL's own budget of loop steps in one evaluation; it cannot be changed.
    iterations: int = 10_000
    #: Compiled expressions that are kept.
    cached: int = 4096
    #: Operands that an explanation shows, and the characters of each.
    operands: int = 20
    operand_chars: int = 200


LIMITS = Limits()
