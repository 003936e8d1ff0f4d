"""A condition written in Python, decided by another process.

    {"type": "python_sandbox", "code": "def evaluate(output, context):\\n    return …"}

The code defines `evaluate(output, context)`: the node's output, and for each node before it an
object with its `output`. `nodes` may list those that it reads. The code has no files, no
network, no imports, no clock and no randomness, and limits on time, processor and memory. The
process that runs it (`process`) holds an interpreter that has none of these, so there is nothing
to break out into.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from minuet.conditions import METADATA, NO_BLOBS, Blobs
from minuet.conditions.blob import missing_blob, read_reference
from minuet.conditions.cel.show import shortened
from minuet.conditions.explanation import begin_explanation
from minuet.conditions.form import read_form
from minuet.conditions.limits import LIMITS, Limits
from minuet.conditions.sandbox.process import Bounds, run_sandboxed
from minuet.errors import ConditionError
from minuet.types import Json

#: What code may use, unless the condition says otherwise; and the most that it may say.
TIMEOUT_MS, TIMEOUT_MS_MAX = 1_000, 60_000
MEMORY_MB, MEMORY_MB_MAX = 50, 1_024

#: Characters of the code.
CODE_CHARS_MAX = 64 * 1024

_FIELDS = ("code", "code_ref", "timeout_ms", "max_memory_mb", "nodes")


def compile_condition(
    source: dict[str, Any], limits: Limits = LIMITS, blobs: Blobs = NO_BLOBS
) -> PythonSandbox:
    """Compile `{"type": "python_sandbox", "code" | "code_ref": …}`."""
    form = read_form(source, optional=_FIELDS)
    bounds = Bounds(
        _number(form, "timeout_ms", TIMEOUT_MS, TIMEOUT_MS_MAX),
        _number(form, "max_memory_mb", MEMORY_MB, MEMORY_MB_MAX),
    )
    nodes = form.get("nodes")
    if nodes is not None and not (
        isinstance(nodes, list) and all(isinstance(one, str) for one in nodes)
    ):
        raise ConditionError("'nodes' is a list of the earlier nodes that the code reads")
    if ("code" in form) == ("code_ref" in form):
        raise ConditionError("a python_sandbox condition needs 'code' or a 'code_ref'")
    if "code" in form:
        if not isinstance(form["code"], str):
            raise ConditionError("'code' is Python text")
        code: str | None = form["code"]
        ref = ""
    else:
        ref = read_reference("code_ref", form["code_ref"])
        code = _decode(blobs[ref]) if ref in blobs else None
    if code is not None:
        _check_code(code)
    return PythonSandbox(code, ref, nodes, bounds, limits)


def _number(form: dict[str, Any], name: str, default: int, most: int) -> int:
    value = form.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ConditionError(f"{name!r} is a whole number from 1 to {most:,}")
    return int(value)


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ConditionError("the code is not text in UTF-8") from None


def _check_code(code: str) -> None:
    """Say at once what could never run."""
    if len(code) > CODE_CHARS_MAX:
        raise ConditionError(f"the code has {len(code):,} characters, at most {CODE_CHARS_MAX:,}")
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ConditionError(f"the code is not valid Python: {message}{where}") from None
    except (RecursionError, MemoryError):
        raise ConditionError("the code is nested too deeply") from None
    for part in ast.walk(tree):
        if isinstance(part, ast.Import | ast.ImportFrom):
            raise ConditionError(f"sandboxed code cannot import anything (line {part.lineno})")
        if isinstance(part, ast.Yield | ast.YieldFrom | ast.AsyncFunctionDef):
            raise ConditionError(
                f"sandboxed code has no generators and nothing asynchronous (line {part.lineno}): "
                "build a list instead"
            )
    functions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    found = functions.get("evaluate")
    if found is None or len(found.args.posonlyargs) + len(found.args.args) != 2:
        raise ConditionError("the code must define evaluate(output, context)")


class PythonSandbox:
    """A compiled python_sandbox condition."""

    __slots__ = (
        "_bounds",
        "_code",
        "_limits",
        "_ref",
        "blobs",
        "reads_all",
        "reads_metadata",
        "references",
        "source",
    )
    is_slow = True

    def __init__(
        self,
        code: str | None,
        ref: str,
        nodes: list[str] | None,
        bounds: Bounds,
        limits: Limits,
    ) -> None:
        self._code = code
        self._ref = ref
        self._bounds = bounds
        self._limits = limits
        self.reads_all = nodes is None
        self.reads_metadata = code is not None and METADATA in code
        self.references = frozenset(nodes or ())
        self.blobs = frozenset({ref} if ref else ())
        self.source = f"evaluate(output, context) of {ref or 'its code'}"

    def evaluate(self, variables: Mapping[str, Json]) -> bool:
        """Decide."""
        if self._code is None:
            raise missing_blob(self._ref, self.source)
        context = self._context(variables)
        output = variables.get("output")
        value = run_sandboxed(self._code, output, context, self._bounds, self.source)
        if value is True or value is False:
            return bool(value)
        raise ConditionError(
            f"evaluate(output, context) returned {type(value).__name__}, a condition needs True or "
            "False",
            source=self.source,
        )

    def explain(self, variables: Mapping[str, Json]) -> dict[str, Any]:
        """Decide and say why."""
        told = begin_explanation(self, "python_sandbox", variables)
        context = self._context(variables)
        operands = {"output": shortened(variables.get("output"), self._limits)}
        for name in sorted(context)[: self._limits.operands]:
            operands[f"ctx.{name}"] = shortened(context[name], self._limits)
        missing = [f"ctx.{name}" for name in sorted(self.references - context.keys())]
        return {**told, "operands": operands, "missing": missing, "parts": []}

    def _context(self, variables: Mapping[str, Json]) -> dict[str, Json]:
        """What the code may read: what else is at hand depends on other conditions."""
        context: dict[str, Json] = variables.get("ctx") or {}
        if self.reads_all:
            return dict(context)
        return {name: context[name] for name in self.references if name in context}
