"""The same workflow in YAML and in Python: the same document, and the same runs on SQLite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.model import dump_document, read_document

# ── tasks ───────────────────────────────────────────────────────────────────────────────────


@minuet.task
def pw_reserve(kind: str) -> dict[str, str]:
    return {"kind": kind, "id": f"{kind}-1"}


@minuet.task
def pw_charge(amount: int) -> dict[str, int]:
    if amount > 100:
        raise minuet.NonRetryable("card declined")
    return {"charged": amount}


@minuet.task
def pw_cancel(reservation: dict[str, str]) -> str:
    return f"cancelled {reservation['id']}"


@minuet.task
def pw_extract(source: str) -> list[int]:
    return [int(part) for part in source.split(",")]


@minuet.task
async def pw_load(rows: list[int], ctx: minuet.Context) -> dict[str, Any]:
    return {"rows": len(rows), "sum": sum(rows), "attempt": ctx.attempt}


@minuet.task
def pw_unreliable(name: str, ctx: minuet.Context) -> dict[str, Any]:
    if ctx.attempt < 3:
        raise TimeoutError(f"{name} is slow")
    return {"name": name, "attempt": ctx.attempt}


@minuet.task
def pw_poll(job: str, round: int) -> dict[str, Any]:
    return {"job": job, "done": round >= 2, "progress": round * 50}


# ── each in YAML and in Python ──────────────────────────────────────────────────────────────

SAGA = """
name: saga
input: {type: object, required: [amount]}
nodes:
  - {id: flight, handler: pw_reserve, config: {kind: flight}}
  - {id: hotel, handler: pw_reserve, config: {kind: hotel}}
  - id: charge
    handler: pw_charge
    config: {amount: "{{ input.amount }}"}
    dependencies: [flight, hotel]
    on_error: [undo_hotel]
  - id: undo_hotel
    handler: pw_cancel
    config: {reservation: "{{ hotel.output }}"}
  - id: undo_flight
    handler: pw_cancel
    config: {reservation: "{{ flight.output }}"}
    dependencies: [undo_hotel]
  - id: confirm
    type: transform
    config: {value: "booked {{ flight.output.id }} and {{ hotel.output.id }}"}
    dependencies: [charge]
"""


def saga() -> minuet.Workflow:
    schema = {"type": "object", "required": ["amount"]}
    with minuet.Workflow("saga", input=schema) as w:
        flight = pw_reserve.named("flight")(kind="flight")
        hotel = pw_reserve.named("hotel")(kind="hotel")
        charge = pw_charge.named("charge")(amount=w.input.amount)
        flight.then(charge)
        hotel.then(charge)
        undo_hotel = pw_cancel.named("undo_hotel")(reservation=hotel.output)
        undo_flight = pw_cancel.named("undo_flight")(reservation=flight.output)
        undo_hotel.then(undo_flight)
        charge.on_error(undo_hotel)
        booked = "booked {{ flight.output.id }} and {{ hotel.output.id }}"
        charge.then(minuet.transform("confirm", booked))
    return w


ETL = """
name: etl
nodes:
  - {id: extract, handler: pw_extract, config: {source: "{{ input.source }}"}}
  - id: check
    type: decision
    dependencies: [extract]
    branch:
      rules:
        - {when: "size(output.extract) > 3", next_nodes: [sample]}
      default: [all]
  - id: sample
    type: transform
    config: {value: "{{ extract.output[:3] }}"}
  - id: all
    type: transform
    config: {value: "{{ extract.output }}"}
  - id: load
    handler: pw_load
    config: {rows: "{{ sample.output | default(extract.output) }}"}
    dependencies: [sample, all]
    retry: {max_attempts: 2}
output: {sum: "{{ load.output.sum }}", rows: "{{ load.output.rows }}"}
"""


def etl() -> minuet.Workflow:
    with minuet.Workflow("etl") as w:
        extract = pw_extract.named("extract")(source=w.input.source)
        check = minuet.decision("check")
        extract.then(check)
        sample = minuet.transform("sample", extract.output[:3])
        whole = minuet.transform("all", extract.output)
        check.branch((check.output.extract.len_() > 3, sample), default=whole)
        load = pw_load.named("load")(rows="{{ sample.output | default(extract.output) }}").retry(2)
        whole.then(load)
        w.set(output={"sum": load.output.sum, "rows": load.output.rows})
    return w


RETRY = """
name: nested-retry
defaults: {retry: {max_attempts: 3, backoff_ms: 1, jitter: false}}
nodes:
  - id: first
    handler: pw_unreliable
    config: {name: first}
    retry: {max_attempts: 4, backoff_ms: 1, jitter: false, retry_on: [TimeoutError]}
  - id: second
    handler: pw_unreliable
    config: {name: "{{ first.output.name }}-second"}
    dependencies: [first]
    loop: {while: "iteration < 1", max_iterations: 2}
  - id: never
    handler: pw_unreliable
    config: {name: never}
    dependencies: [second]
    retry: {max_attempts: 1}
    on_error: continue
  - id: end
    type: transform
    config: {value: "{{ never.output.error.type }}"}
    dependencies: [never]
"""


def retry() -> minuet.Workflow:
    policy = {"max_attempts": 3, "backoff_ms": 1, "jitter": False}
    with minuet.Workflow("nested-retry", defaults={"retry": policy}) as w:
        first = pw_unreliable.named("first")(name="first")
        first.retry(4, backoff_ms=1, jitter=False, retry_on=[TimeoutError])
        second = pw_unreliable.named("second")(name="{{ first.output.name }}-second")
        second.loop(while_=w.iteration < 1, max_iterations=2)
        never = pw_unreliable.named("never")(name="never").retry(1).on_error("continue")
        second.then(never)
        minuet.transform("end", never.output.error.type)
    return w


POLLING = """
name: polling
nodes:
  - id: pause
    type: wait
    config: {seconds: 0.001}
  - id: poll
    handler: pw_poll
    config: {job: "{{ input.job }}", round: "{{ iteration }}"}
    dependencies: [pause]
    loop:
      while: "!output.done"
      max_iterations: 5
      loop_back_to: pause
      timeout_path: [late]
  - {id: late, type: transform, config: {value: too late}}
  - id: report
    type: transform
    config: {value: {progress: "{{ poll.output.progress }}"}}
    dependencies: [poll]
"""


def polling() -> minuet.Workflow:
    with minuet.Workflow("polling") as w:
        pause = minuet.wait("pause", seconds=0.001)
        poll = pw_poll.named("poll")(job=w.input.job, round=w.iteration)
        pause.then(poll)
        late = minuet.transform("late", "too late")
        poll.loop(while_=~poll.output.done, max_iterations=5, back_to=pause, timeout=late)
        minuet.transform("report", {"progress": poll.output.progress})
    return w


CASES: dict[str, tuple[str, Callable[[], minuet.Workflow], list[tuple[Any, Any]]]] = {
    "saga": (
        SAGA,
        saga,
        [
            ({"amount": 10}, {"confirm": "booked flight-1 and hotel-1"}),
            ({"amount": 1000}, {"undo_flight": "cancelled flight-1"}),
        ],
    ),
    "etl": (
        ETL,
        etl,
        [
            ({"source": "1,2"}, {"sum": 3, "rows": 2}),
            ({"source": "1,2,3,4,5"}, {"sum": 6, "rows": 3}),
        ],
    ),
    "retry": (RETRY, retry, [({}, {"end": "TimeoutError"})]),
    "polling": (POLLING, polling, [({"job": "j"}, {"report": {"progress": 100}})]),
}


@pytest.mark.parametrize("case", CASES)
def test_yaml_and_python_make_the_same_document(case: str) -> None:
    text, make, _ = CASES[case]

    assert dump_document(make().read().workflow) == dump_document(read_document(text).workflow)


@pytest.mark.parametrize("case", CASES)
def test_what_python_writes_is_loaded_as_it_was(case: str) -> None:
    _, make, _ = CASES[case]

    assert minuet.Workflow.load(make().to_yaml()).to_dict() == make().to_dict()


@pytest.mark.parametrize("case", CASES)
def test_yaml_and_python_make_the_same_runs(case: str, tmp_path: Path) -> None:
    text, make, runs = CASES[case]
    (tmp_path / "w.yaml").write_text(text, "utf-8")
    for given, expected in runs:
        sources: list[Any] = [tmp_path / "w.yaml", make()]
        results = [
            minuet.run(source, given, store=f"sqlite:///{tmp_path}/{number}.db")
            for number, source in enumerate(sources)
        ]

        assert [result.output for result in results] == [expected, expected]
        first, second = (
            {name: (node.status, node.output, node.attempts) for name, node in result.nodes.items()}
            for result in results
        )
        assert first == second


async def test_whatever_takes_a_workflow_takes_one_written_in_python() -> None:
    workflow = polling()
    async with minuet.App("memory://") as app:
        assert app.workflows.compile(workflow).workflow.name == "polling"
        encoded = app.workflows.encode_input(workflow, {"job": "j"})
        first = await app.start(workflow, encoded)
        second, third = await app.start_many(workflow, [{"job": "k"}, {"job": "l"}])
        created = await app.runs.create(workflow)
        await app.runs.trigger(created, {"job": "m"})
        for run in (first, second, third, created):
            assert (await run.wait()).output == {"report": {"progress": 100}}
        assert (await app.run(workflow, {"job": "n"})).status == "COMPLETED"
    assert (await minuet.arun(workflow, {"job": "o"}, store="memory://")).status == "COMPLETED"


@minuet.task
def pw_price(line: dict[str, int], factor: int) -> int:
    return line["price"] * factor


async def test_a_task_is_called_for_each_item() -> None:
    with minuet.Workflow("lines") as lines:
        order = minuet.transform("order", lines.input.order)
        priced = pw_price.map(line=order.output.lines, factor=lines.input.factor, max_parallel=2)
        gate = minuet.noop("gate")
        end = minuet.transform("end", {"prices": priced.output, "first": priced.output[0]})
        order.branch((order.output.lines.len_() > 2, gate), default=end)
        gate.then(end)

    for prices in ([1, 2], [1, 2, 3]):
        given = {"order": {"lines": [{"price": price} for price in prices]}, "factor": 10}
        result = await minuet.arun(lines, given, store="memory://")
        assert result.output == {"end": {"prices": [10 * p for p in prices], "first": 10}}


async def test_a_child_that_is_written_in_python_runs() -> None:
    with minuet.Workflow("parent") as parent:
        loaded = minuet.child("loaded", workflow=etl(), input={"source": parent.input.source})
        minuet.transform("twice", loaded.output.sum * 2)

    result = await minuet.arun(parent, {"source": "1,2"}, store="memory://")

    assert result.output == {"twice": 6}


async def test_a_workflow_written_in_python_is_deployed_and_started_by_name() -> None:
    async with minuet.App("memory://") as app:
        deployed = await app.workflows.deploy(etl())
        run = await app.start("etl", {"source": "1,2"})

        assert deployed.version == 1
        assert (await run.wait()).output == {"sum": 3, "rows": 2}
