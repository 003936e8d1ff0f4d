"""`execute_pipeline`: what each step does with a table, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from minuet.nodes.io.pipelines import ROWS_MAX, PipelineError, execute_pipeline
from minuet.store.large import get_content
from minuet.testing import context

from ..models import one_after_another, says, wants
from ..scenario.harness import node, open_scene, workflow
from ..services import Service, open_service, reply

FLIGHTS = [
    {"airline": "United", "price": 410, "from": "NYC", "at": "2026-03-04"},
    {"airline": "Delta", "price": 299, "from": "NYC", "at": "2026-03-05T10:00:00+01:00"},
    {"airline": "JetBlue", "price": None, "from": "NYC", "at": "soon"},
    {"airline": "Delta", "price": 350, "from": "LAX", "at": None},
]


async def run(*pipeline: dict[str, Any], data: Any = FLIGHTS) -> Any:
    """What a pipeline makes of the flights."""
    ctx = context()
    found = await execute_pipeline(ctx, list(pipeline), data)
    return json.loads(ctx.blobs[found["result_ref"]])


def prices(rows: Any) -> list[Any]:
    return [row["price"] for row in rows]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with open_service() as made:
        yield made


@pytest.mark.shows("N-06", "N-16", "N-17")
async def test_the_three_cheapest_flights_of_the_original_document(service: Service) -> None:
    flights = [{"airline": f"A{number}", "price": 500 - number} for number in range(20)]
    pipeline = [
        {
            "step": "http_request",
            "url": f"{service.url}/search",
            "params": {"origin": "NYC", "dest": "LAX"},
        },
        {"step": "table_sort", "field": "price", "order": "asc"},
        {"step": "top_k", "k": 3},
    ]
    asked = {"session_id": "sess-123", "pipeline": pipeline}

    def answer(request: Any) -> Any:
        if request.method == "GET":
            return reply(flights)
        return model(request)

    model = one_after_another(wants(("execute_pipeline", asked)), says("A19"))
    service.answer = answer
    config = {"model": "m", "prompt": "p", "available_tools": ["execute_pipeline"]}
    agent = node("ag", type="agent", agent_config=config, config={"base_url": service.url})
    async with open_scene("memory://", egress_private=True) as s:
        run_id = await s.app.start(workflow(agent))
        plan = (await s.app.runs.get(run_id)).plan
        result = await s.end(run_id)
        (step,) = (await s.app.runs.instances(result.run_id, "ag"))["ag"].steps[1:2]
        stored = await get_content(s.store, step.output["result_ref"], run=run_id, tenant="default")
        assert (await s.app.runs.get(run_id)).plan == plan

    assert service.asked[1].target == "/search?origin=NYC&dest=LAX"
    assert step.output["result_ref"].startswith("cas://sha256:")
    assert stored is not None
    assert prices(json.loads(stored)) == [481, 482, 483]
    assert step.output["preview"]["row_count"] == 3
    shown = json.loads(service.asked[-1].json["messages"][-1]["content"])
    assert shown == step.output
    assert result.nodes["ag"].output["tool_calls"] == [{"tool": "execute_pipeline", "args": asked}]


@pytest.mark.shows("N-07")
async def test_rows_are_sorted_in_either_order_with_gaps_last() -> None:
    up = await run({"step": "table_sort", "field": "price"})
    down = await run({"step": "table_sort", "field": "price", "order": "desc"})

    assert (prices(up), prices(down)) == ([299, 350, 410, None], [410, 350, 299, None])


@pytest.mark.shows("N-08")
@pytest.mark.parametrize(
    "condition",
    [
        "output.price != null && output.price < 400",
        {"field": "price", "op": "<", "value": 400},
    ],
)
async def test_rows_are_kept_that_match(condition: Any) -> None:
    assert prices(await run({"step": "table_filter", "condition": condition})) == [299, 350]


@pytest.mark.shows("N-09", "N-10")
async def test_columns_and_first_rows() -> None:
    found = await run({"step": "table_select", "fields": ["price", "x"]}, {"step": "top_k", "k": 2})

    assert found == [{"price": 410, "x": None}, {"price": 299, "x": None}]


@pytest.mark.shows("N-11")
async def test_groups_are_counted_and_summed_up() -> None:
    counted = await run({"step": "groupby", "by": "airline"})
    aggregate = {"flights": ["count"], "cheapest": ["min", "price"], "mean": ["avg", "price"]}
    found = await run({"step": "groupby", "by": ["airline"], "aggregate": aggregate})

    assert counted[1] == {"airline": "Delta", "count": 2}
    assert found[1] == {"airline": "Delta", "flights": 2, "cheapest": 299, "mean": 324.5}
    assert found[2] == {"airline": "JetBlue", "flights": 1, "cheapest": None, "mean": None}


@pytest.mark.shows("N-12")
async def test_two_tables_are_joined() -> None:
    homes = [{"airline": "Delta", "home": "ATL"}, {"airline": "Delta", "home": "DTW"}]
    inner = await run({"step": "join", "with": homes, "on": "airline"})
    left = await run({"step": "join", "with": homes, "on": "airline", "how": "left"})

    assert [(row["price"], row["home"]) for row in inner] == [
        *((299, "ATL"), (299, "DTW")),
        *((350, "ATL"), (350, "DTW")),
    ]
    assert len(left) == 6


@pytest.mark.shows("N-15")
async def test_dates_are_read() -> None:
    found = await run({"step": "parse_date", "field": "at"})
    written = await run(
        {"step": "parse_date", "field": "d", "format": "%d.%m.%Y"}, data=[{"d": "04.03.2026"}]
    )

    assert [row["at"] for row in found] == [
        "2026-03-04T00:00:00+00:00",
        "2026-03-05T10:00:00+01:00",
        None,
        None,
    ]
    assert written == [{"d": "2026-03-04T00:00:00+00:00"}]


async def test_a_pipeline_goes_on_with_the_result_of_another() -> None:
    ctx = context()
    first = await execute_pipeline(ctx, [{"step": "top_k", "k": 3}], FLIGHTS)
    second = await execute_pipeline(
        ctx, [{"step": "join", "with": first["result_ref"], "on": "price"}], first["result_ref"]
    )

    assert second["preview"]["row_count"] == 3


@pytest.mark.parametrize(
    ("steps", "data", "message"),
    [
        ([{"step": "rm"}], [], r"step 1 \(rm\): there is no such step"),
        ([{}], [], r"step 1 \(None\)"),
        ([{"step": "top_k"}], [], r"step 1 \(top_k\)"),
        ([{"step": "top_k", "k": "x"}], [], "k is a whole number"),
        ([{"step": "top_k", "k": 1, "rows": []}], [], r"step 1 \(top_k\)"),
        ([{"step": "top_k", "k": 1}], {"a": 1}, "a list of objects"),
        ([{"step": "top_k", "k": 1}], [1], "a list of objects"),
        ([{"step": "top_k", "k": 1}], [{}] * (ROWS_MAX + 1), "at most 10,000 rows"),
        ([{"step": "table_sort", "field": "x", "order": "up"}], [], "asc or desc"),
        ([{"step": "table_filter", "condition": "output.("}], [{}], "step 1"),
        ([{"step": "table_filter", "condition": "output.nothing > 1"}], [{}], "step 1"),
        (
            [{"step": "table_filter", "condition": {"field": "x", "op": "~", "value": 1}}],
            [{}],
            "op",
        ),
        ([{"step": "groupby", "by": "x", "aggregate": {"y": ["rm", "x"]}}], [{}], "aggregate"),
        (
            [{"step": "groupby", "by": "x", "aggregate": {"y": ["sum", "x"]}}],
            [{"x": "a"}],
            "step 1",
        ),
        ([{"step": "join", "with": [{}] * 200, "on": "x"}], [{}] * 200, "at most 10,000 rows"),
        ([{"step": "top_k", "k": 1}] * 21, [], "1 to 20 steps"),
        ([], [], "1 to 20 steps"),
    ],
)
async def test_a_step_that_cannot_be_done_is_named(
    steps: list[dict[str, Any]], data: Any, message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        await execute_pipeline(context(), steps, data)
