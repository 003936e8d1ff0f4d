"""`execute_pipeline`: a tool with which an agent gets and works on tables, step by step.

Each step works on what the one before it has made. The result is kept as a blob of the run, and
the model gets its reference and a few rows: so it can handle tables that it could not read.
Nothing here changes the workflow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec

from minuet.conditions import compile_condition
from minuet.errors import ConditionError
from minuet.nodes.context import Context
from minuet.nodes.io import http
from minuet.types import Json

STEPS_MAX = 20
ROWS_MAX = 10_000

#: Rows that the model is shown, and the largest body that a step reads.
SAMPLE_ROWS = 5
BODY_BYTES_MAX = 4 * 1024 * 1024

Row: TypeAlias = dict[str, Json]


class PipelineError(ValueError):
    """A step that cannot be done."""


async def execute_pipeline(
    ctx: Context, pipeline: list[dict[str, Any]], data: Any = None, session_id: str = ""
) -> Any:
    """Run steps, each on the result of the one before; returns {result_ref, preview}.

    `data` is what the first step works on: rows, or a `result_ref` of an earlier call. Steps:
    {"step": "http_request", "url", "params", "headers"}: the JSON that a service answers;
    {"step": "table_sort", "field", "order": "asc" or "desc"};
    {"step": "table_filter", "condition"}: CEL in which `output` is the row, "output.price < 300",
    or {"field", "op": one of == != < <= > >= contains, "value"};
    {"step": "table_select", "fields": [names]};
    {"step": "top_k", "k"};
    {"step": "groupby", "by": name or names, "aggregate": {new field: [count, sum, avg, min or max,
    field]}};
    {"step": "join", "with": rows or a result_ref, "on": name, "how": "inner" or "left"};
    {"step": "parse_date", "field", "format": of strptime, or none for ISO 8601}.
    """
    import asyncio

    if not 0 < len(pipeline) <= STEPS_MAX:
        raise PipelineError(f"a pipeline has 1 to {STEPS_MAX} steps, not {len(pipeline)}")
    value = await _load(ctx, data)
    for number, written in enumerate(pipeline, 1):
        given = dict(written)
        name = given.pop("step", None)
        try:
            if name == "http_request":
                value = await _fetch(ctx, **given)
            elif name in _STEPS:
                if "with" in given:
                    given["with_"] = await _load(ctx, given.pop("with"))
                # Long tables must not hold up the worker.
                value = await asyncio.to_thread(_STEPS[name], _rows(value), **given)
            else:
                known = ", ".join(("http_request", *_STEPS))
                raise PipelineError(f"there is no such step; the steps are: {known}")
        except (PipelineError, TypeError, ConditionError) as error:
            raise PipelineError(f"step {number} ({name}): {error}") from None
    stored = await ctx.blob(msgspec.json.encode(value))
    return {"result_ref": stored["cas_ref"], "preview": _preview(value)}


async def _load(ctx: Context, data: Any) -> Json:
    """Rows, or those behind a reference."""
    if not isinstance(data, str):
        return data
    return msgspec.json.decode(await ctx.open(data).read())


async def _fetch(ctx: Context, url: str, **given: Any) -> Json:
    # Addresses are often written without the scheme.
    config = {"url": url if "://" in url else f"https://{url}", **given}
    answer: Any = await http.request(config, ctx, bytes_max=BODY_BYTES_MAX)
    return answer["body"]


def _rows(value: Json) -> list[Row]:
    """A table: a list of objects."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise PipelineError("it needs a list of objects as its data")
    if len(value) > ROWS_MAX:
        raise PipelineError(f"at most {ROWS_MAX:,} rows are worked on, not {len(value):,}")
    return value


def _preview(value: Json) -> Json:
    if not isinstance(value, list):
        return {"type": "value", "sample": value}
    return {"type": "dataset", "row_count": len(value), "sample": value[:SAMPLE_ROWS]}


# ── steps ───────────────────────────────────────────────────────────────────────────────


def _table_sort(rows: list[Row], field: str, order: str = "asc") -> list[Row]:
    if order not in ("asc", "desc"):
        raise PipelineError(f"order is asc or desc, not {order!r}")
    there = [row for row in rows if row.get(field) is not None]
    # Rows without the field come last in either order.
    rest = [row for row in rows if row.get(field) is None]
    return sorted(there, key=lambda row: _rank(row[field]), reverse=order == "desc") + rest


def _rank(value: Json) -> tuple[int, Any]:
    """A place in an order of all values: numbers, then texts, then the rest by its JSON."""
    if isinstance(value, bool | int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, msgspec.json.encode(value).decode())


def _table_filter(rows: list[Row], condition: Any) -> list[Row]:
    if isinstance(condition, dict):
        return [row for row in rows if _compare(row, **condition)]
    if not isinstance(condition, str):
        raise PipelineError("a condition is CEL text, or {field, op, value}")
    compiled = compile_condition(condition)
    kept: list[Row] = []
    for row in rows:
        if compiled.evaluate({"output": row, "input": None, "ctx": {}}):
            kept.append(row)
    return kept


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": lambda one, other: other in one,
}


def _compare(row: Row, field: str, op: str, value: Json) -> bool:
    if op not in _OPERATORS:
        raise PipelineError(f"op is one of {' '.join(_OPERATORS)}, not {op!r}")
    # A row without the field, or with a value that cannot be compared, does not match.
    try:
        return field in row and bool(_OPERATORS[op](row[field], value))
    except TypeError:
        return False


def _table_select(rows: list[Row], fields: list[str]) -> list[Row]:
    return [{name: row.get(name) for name in fields} for row in rows]


def _top_k(rows: list[Row], k: int) -> list[Row]:
    if not isinstance(k, int) or k < 0:
        raise PipelineError(f"k is a whole number from 0 on, not {k!r:.50}")
    return rows[:k]


_AGGREGATES: dict[str, Callable[[list[Any]], Json]] = {
    "count": len,
    "sum": sum,
    "avg": lambda values: sum(values) / len(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
}


def _groupby(
    rows: list[Row], by: str | list[str], aggregate: dict[str, list[str]] | None = None
) -> list[Row]:
    names = [by] if isinstance(by, str) else by
    groups: dict[str, list[Row]] = {}
    for row in rows:
        key = msgspec.json.encode([row.get(name) for name in names]).decode()
        groups.setdefault(key, []).append(row)
    wanted = {"count": ["count"]} if aggregate is None else aggregate
    return [
        {
            **{name: group[0].get(name) for name in names},
            **{name: _aggregate(group, *what) for name, what in wanted.items()},
        }
        for group in groups.values()
    ]


def _aggregate(group: list[Row], what: str, field: str | None = None) -> Json:
    if what not in _AGGREGATES:
        raise PipelineError(f"an aggregate is one of {', '.join(_AGGREGATES)}, not {what!r}")
    if field is None:
        return _AGGREGATES["count"](group) if what == "count" else None
    return _AGGREGATES[what]([row[field] for row in group if row.get(field) is not None])


def _join(rows: list[Row], with_: Json, on: str, how: str = "inner") -> list[Row]:
    if how not in ("inner", "left"):
        raise PipelineError(f"how is inner or left, not {how!r}")
    others: dict[str, list[Row]] = {}
    for other in _rows(with_):
        others.setdefault(msgspec.json.encode(other.get(on)).decode(), []).append(other)
    joined: list[Row] = []
    for row in rows:
        found = others.get(msgspec.json.encode(row.get(on)).decode(), [])
        joined += [{**other, **row} for other in found]
        if not found and how == "left":
            joined.append(row)
        if len(joined) > ROWS_MAX:
            raise PipelineError(f"a join makes at most {ROWS_MAX:,} rows")
    return joined


def _parse_date(rows: list[Row], field: str, format: str | None = None) -> list[Row]:
    return [{**row, field: _date(row.get(field), format)} for row in rows]


def _date(value: Json, format: str | None) -> Json:
    """A date as ISO 8601, in UTC if it says no other time; null if it is none."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.strptime(value, format) if format else datetime.fromisoformat(value)
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).isoformat()


_STEPS: dict[str, Callable[..., Json]] = {
    "table_sort": _table_sort,
    "table_filter": _table_filter,
    "table_select": _table_select,
    "top_k": _top_k,
    "groupby": _groupby,
    "join": _join,
    "parse_date": _parse_date,
}
