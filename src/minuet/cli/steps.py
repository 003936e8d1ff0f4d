"""Durable functions in words: their steps, and what they wait for."""

from __future__ import annotations

import textwrap

import msgspec

from minuet.app.results import NodeResult, StepView, WaitView, describe_waits
from minuet.approvals import APPROVAL_WAIT, approvers_in, deadline_of
from minuet.cli.output import (
    brief,
    clean,
    error_text,
    format_clock,
    format_duration,
    format_moment,
    print_table,
    table_width,
)
from minuet.types import Json

#: Of the arguments of a step, and of a result.
ARGUMENTS_LENGTH_MAX = 40
RESULT_LENGTH_MAX = 60


def wait_text(wait: WaitView | None) -> str:
    """What a node waits for; "" if it does not."""
    if wait is None:
        return ""
    if wait.kind == "flow":
        return describe_waits(wait.data, time=_moment, place=_short_place)
    until_ms = wait.until_ms
    if wait.kind == APPROVAL_WAIT:
        until_ms = deadline_of(wait.data, until_ms)
    until = "" if until_ms is None else f" until {format_moment(until_ms)}"
    if wait.kind == APPROVAL_WAIT:
        return f"waits for a decision of {approvers_in(wait.data)}{until}"
    if wait.kind == "hold":
        return "held until somebody decides"
    return f"waits for {wait.kind}{f' {wait.key!r}' if wait.key else ''}{until}"


def _moment(at_ms: int) -> str:
    return format_moment(at_ms)[:19]


def _short_place(place: str) -> str:
    """File and line, without the folder."""
    return place.replace("\\", "/").rpartition("/")[2]


def print_steps(name: str, node: NodeResult, *, most: int | None = None) -> None:
    """Print the steps of a durable function, or the last of them; and what it waits for."""
    if node.steps:
        _print_table(name, node, most)
    if node.waiting_for is not None and node.waiting_for.kind == "flow":
        text = f"{name} {wait_text(node.waiting_for)}."
        width = table_width()
        lines = textwrap.wrap(text, width, break_on_hyphens=False) if width else [text]
        print("\n" + clean("\n".join(lines)))


def _print_table(name: str, node: NodeResult, most: int | None) -> None:
    shown = node.steps if most is None else node.steps[-most:]
    left_out = len(node.steps) - len(shown)
    print(f"\nsteps of {clean(name)}:" + (f" the last {len(shown)}" if left_out else ""))
    rows = [
        (
            call_text(step),
            step.status,
            str(step.attempts) if step.kind == "step" else "",
            format_clock(step.ended_ms if step.started_ms is None else step.started_ms)[:8],
            format_duration(_took_ms(step)),
            _result_text(step),
        )
        for step in shown
    ]
    titles = ("step", "status", "tries", "at", "took", "result or error")
    print_table(titles, rows, names=("step",))
    if left_out:
        print(f"… and {left_out} before them: minuet runs show RUN {clean(name)}")


def step_text(step: StepView) -> str:
    """A step in one line: `charge(amount=5): "paid"`."""
    took = format_duration(_took_ms(step))
    tries = f"{step.attempts} attempts" if step.attempts > 1 else ""
    result = _result_text(step)
    if step.error is not None:
        result = f"failed: {result}"
    details = ", ".join(filter(None, (took, tries)))
    text = f"{call_text(step)}: {result}" if result else call_text(step)
    return f"{text} ({details})" if details else text


def call_text(step: StepView) -> str:
    """What was asked for: `charge(amount=5)`, `charge #2(amount=6)`, `signal paid`."""
    if step.kind not in ("step", "child"):
        return clean(step.name)
    return clean(f"{step.name}({brief(_arguments(step), ARGUMENTS_LENGTH_MAX)})")


def _arguments(step: StepView) -> str:
    given = step.input
    if step.kind == "child":
        return "" if given is None else _json(given)
    if not isinstance(given, dict):
        return "…"
    positional: list[Json] = []
    if given.keys() == {"args", "kwargs"}:
        # Of `ctx.step`.
        positional, given = given["args"], given["kwargs"]
    return ", ".join([*map(_json, positional), *(f"{k}={_json(v)}" for k, v in given.items())])


def _json(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _result_text(step: StepView) -> str:
    if step.error is not None:
        return brief(error_text(step.error), RESULT_LENGTH_MAX)
    if step.kind in ("timer", "version"):
        return ""
    if step.blob is not None:
        return f"large: {step.blob}"
    return brief(_json(step.output), RESULT_LENGTH_MAX)


def _took_ms(step: StepView) -> int | None:
    return None if step.started_ms is None else step.ended_ms - step.started_ms
