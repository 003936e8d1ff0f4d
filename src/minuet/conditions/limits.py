"""Limits on the size and work of a condition: the defaults, with reasons."""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Upper bounds on conditions and on the data that they read."""

    #: Characters of one expression. Nobody reads more, and compiling stays below milliseconds.
    source_chars: int = 4096
    #: Levels, and operators in a row, of one expression. Evaluation needs a stack that deep.
    expression_depth: int = 100
    #: Nesting of data that is compared or returned.
    data_depth: int = 100
    #: In one evaluation: parts evaluated by loops, items compared or returned, characters
    #: read by regular expressions. At most a second.
    steps: int = 1_000_000
    #: Bytes that one evaluation may scan, compare, copy or build.
    work_bytes: int = 64 * 1024 * 1024
    #: Characters and states of one regular expression.
    pattern_size: int = 1000
    #: How many compiled expressions are cached.
    cached: int = 4096
    #: How many values an explanation shows, and how many characters of each.
    operands: int = 20
    operand_chars: int = 200


LIMITS = Limits()
