"""The other implementation of CEL, in a process of its own: it may crash, and ours must not.

Reads lines of JSON, `[expression, variables]`, and answers each with a line: `["value", …]`,
`["error", …]`, or `["refused", …]` for what its type checker does not take.
"""

from __future__ import annotations

import base64
import datetime
import json
import sys
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_math, ext_optional, ext_strings

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MICROSECOND = datetime.timedelta(microseconds=1)


def plain(value: Any) -> Any:
    """A value as JSON can carry it."""
    if isinstance(value, datetime.datetime):
        return ["timestamp", (value - EPOCH) // MICROSECOND]
    if isinstance(value, datetime.timedelta):
        return ["duration", value // MICROSECOND]
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", base64.b64encode(value).decode()]
    if isinstance(value, list):
        return ["list", [plain(item) for item in value]]
    if isinstance(value, dict):
        entries = [[plain(key), plain(item)] for key, item in value.items()]
        return ["map", sorted(entries, key=repr)]
    if isinstance(value, float):
        return ["double", repr(value)]
    return ["plain", value]


def answer(environment: Any, expression: str, variables: dict[str, Any]) -> list[Any]:
    try:
        program = environment.compile(expression)
    except RuntimeError as error:
        return ["refused", str(error)]
    try:
        result = program.eval(data=variables)
        if result.type().name() == "ERROR":
            return ["error", str(result.plain_value())]
        return ["value", plain(result.plain_value())]
    except (RuntimeError, TypeError, ValueError) as error:
        return ["error", str(error)]


def main() -> None:
    environment = cel.NewEnv(
        variables=dict.fromkeys("xyz", cel.Type.DYN),
        extensions=[ext_math.ExtMath(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    )
    for line in sys.stdin:
        expression, variables = json.loads(line)
        sys.stdout.write(json.dumps(answer(environment, expression, variables)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
