"""Random expressions, compared with another implementation of CEL."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from minuet.conditions import LIMITS
from minuet.conditions.cel.errors import CelError
from minuet.conditions.cel.executable import Executable
from minuet.conditions.cel.meter import Meter
from minuet.conditions.cel.parser import parse
from minuet.conditions.cel.values import Duration, Map, Optional, Timestamp, UInt

from .generate import Generator

#: Cases of one run; more find more.
CASES = int(os.environ.get("MINUET_TEST_CEL_CASES", "1500"))
#: The other implementation loses a reference to None with each null, so it starts afresh.
CASES_OF_A_PROCESS = 300

#: Where we differ on purpose: what we answer, what it answers, and why.
DIFFERENCES: dict[tuple[str, str], str] = {
    (r"\.\d*0Z", r"\.\d*Z"): "fractions of a second have 3, 6 or 9 digits everywhere",
    ("format.* cannot write double as %d", "value"): "a double is not a whole number",
    (r"there is no int\(bool\)", "value"): "a boolean is not a number",
    ("value.*optional", "Unable to convert"): "an optional is a value inside an expression",
}


def plain(value: Any) -> Any:
    """A value of ours in the form of the peer's answers."""
    match value:
        case Timestamp():
            return ["timestamp", value.nanoseconds // 1000]
        case Duration():
            return ["duration", value.nanoseconds // 1000]
        case bytes():
            return ["bytes", base64.b64encode(value).decode()]
        case list():
            return ["list", [plain(item) for item in value]]
        case dict() | Map():
            entries = [[plain(key), plain(item)] for key, item in value.items()]
            return ["map", sorted(entries, key=repr)]
        case float():
            return ["double", repr(value)]
        case UInt():
            return ["plain", value.value]
        case Optional():
            return ["optional", plain(value.value)]
    return ["plain", value]


def ours(expression: str, variables: dict[str, Any]) -> list[Any]:
    try:
        program = Executable(parse(expression, LIMITS.expression_depth), tuple("xyz"))
        return ["value", plain(program.run(variables, Meter(LIMITS)))]
    except CelError as error:
        return ["error", error.describe(expression)]


class Peer:
    """The other implementation. When it crashes, it is started again."""

    def __init__(self) -> None:
        self.asked = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("peer.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def ask(self, expression: str, variables: dict[str, Any]) -> list[Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([expression, variables]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        self.asked += 1
        if not line or self.asked % CASES_OF_A_PROCESS == 0:
            self._stop()
            self.process = self._start()
        return list(json.loads(line)) if line else ["crashed"]


def is_known(expression: str, mine: list[Any], theirs: list[Any]) -> bool:
    return any(
        re.search(one, f"{mine}") and re.search(other, f"{theirs}") for one, other in DIFFERENCES
    )


@pytest.mark.slow
def test_random_expressions_mean_what_they_mean_elsewhere() -> None:
    pytest.importorskip("cel_expr_python", reason="needs another implementation of CEL")
    generator, outcomes, problems = Generator(seed=1), Counter[str](), []
    with Peer() as peer:
        for _ in range(CASES):
            expression, variables = generator.case()
            mine, theirs = ours(expression, variables), peer.ask(expression, variables)
            if theirs[0] in ("crashed", "refused"):
                outcome = theirs[0]
            elif mine[0] == theirs[0] == "error" or mine == theirs:
                outcome = mine[0]
            elif is_known(expression, mine, theirs):
                outcome = "known"
            else:
                outcome = "different"
                problems.append(f"{expression}\n  {variables}\n  {mine}\n  {theirs}")
            outcomes[outcome] += 1

    assert not problems, f"{len(problems)} of {outcomes}:\n" + "\n".join(problems[:20])
    # It compares something: few cases are refused by its type checker or crash it.
    assert outcomes["value"] > CASES / 3, outcomes
    assert outcomes["crashed"] + outcomes["refused"] + outcomes["known"] < CASES / 4, outcomes
