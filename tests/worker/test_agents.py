"""`agent` nodes against a real server that speaks the protocol: the loop, its limits, and what a
model may not do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

import minuet
from minuet.nodes.catalog import NODE_TYPES
from minuet.nodes.io.agent import AGENT

from ..models import USAGE, chooses, one_after_another, says, slowly, stream, wants
from ..scenario.harness import QUICK_RETRY, node, workflow
from ..services import Service, open_service, reply, silence

PRICES = '{"m1": {"input": 10, "output": 50, "cached_input": 1}}'
#: Of one call with USAGE.
COST = (60 * 10 + 40 * 1 + 20 * 50) / 1_000_000


class Vault:
    """The worker's secrets."""

    def __init__(self, url: str) -> None:
        self._values = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "sk-worker"}

    def get(self, name: str) -> str:
        return self._values[name]


@pytest.fixture
def store_url() -> str:
    """What a store has to do for agents, `tests/scenario/test_agents.py` shows."""
    return "memory://"


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with open_service() as made:
        yield made


@pytest.fixture
def stage(scene: Any, service: Service) -> Any:
    """A scene whose worker asks the service."""
    options = {"egress_private": True, "secrets": Vault(service.url), "llm_prices": PRICES}
    return lambda handlers=None, **more: scene(handlers, **{**options, **more})


def agent(name: str = "ag", *after: str, **fields: Any) -> dict[str, Any]:
    """An agent node; what is no field of nodes goes to its `agent_config`."""
    own = ("branch", "timeout_seconds", "timeout_sec", "retry", "limits", "config", "on_error")
    rest = {field: fields.pop(field) for field in own if field in fields}
    return node(name, *after, type="agent", agent_config={"model": "m1", **fields}, **rest)


async def search_database(query: str, limit: int = 3) -> list[str]:
    """Search the customers."""
    return [f"{query} {number}" for number in range(limit)]


async def call_api(path: str) -> Any:
    """Call the API."""
    raise ConnectionResetError(f"{path} is down")


TOOLS = {"search_database": search_database, "call_api": call_api}


def messages(service: Service) -> list[Any]:
    """What the model was sent last."""
    return list(service.asked[-1].json["messages"])


# ── the loop ────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("A-04", "N-31", "N-32", "N-33", "N-34", "Z-03")
async def test_an_agent_calls_tools_until_it_has_a_result(stage: Any, service: Service) -> None:
    service.answer = one_after_another(
        wants(("search_database", {"query": "Ada", "limit": 1}), text="I look her up."),
        says("Ada is a customer."),
    )
    document = workflow(
        node("enrich", type="transform", config={"value": {"size": 900}}),
        agent(
            "ag",
            "enrich",
            prompt="Who is {{ input.who }}?",
            temperature=0.3,
            available_tools=["search_database"],
        ),
    )
    async with stage(TOOLS) as s:
        result = await s.run(document, {"who": "Ada"})
        shown = (await s.app.runs.instances(result.run_id, "ag"))["ag"]

    first, second = (asked.json for asked in service.asked)
    assert result.nodes["ag"].output == {
        "result": "Ada is a customer.",
        "reasoning": "I look her up.",
        "tool_calls": [{"tool": "search_database", "args": {"query": "Ada", "limit": 1}}],
        "usage": {
            "prompt_tokens": 200,
            "completion_tokens": 40,
            "total_tokens": 240,
            "cached_tokens": 80,
        },
        "cost": round(2 * COST, 9),
    }
    assert (first["model"], first["temperature"]) == ("m1", 0.3)
    assert first["messages"][1]["content"].startswith("Who is Ada?\n")
    assert 'enrich: {"size":900}' in first["messages"][1]["content"]
    (tool,) = first["tools"]
    assert tool["function"] == {
        "name": "search_database",
        "description": "Search the customers.",
        "parameters": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["query"],
            "additionalProperties": False,
        },
    }
    assert second["messages"][2:] == [
        {
            "role": "assistant",
            "content": "I look her up.",
            "tool_calls": [
                {
                    "id": "call-0",
                    "type": "function",
                    "function": {
                        "name": "search_database",
                        "arguments": '{"query": "Ada", "limit": 1}',
                    },
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call-0", "content": '["Ada 0"]'},
    ]
    steps = [(step.name, step.input, step.attempts) for step in shown.steps]
    assert steps == [
        ("ask model", {"turn": 1}, 1),
        ("search_database", {"query": "Ada", "limit": 1}, 1),
        ("ask model #2", {"turn": 2}, 1),
    ]
    assert shown.steps[1].output == ["Ada 0"]


@pytest.mark.shows("A-18", "E-17", "E-19", "E-20", "N-30", "Y-12")
async def test_the_lead_of_the_original_document_is_qualified(stage: Any, service: Service) -> None:
    service.answer = one_after_another(
        wants(("search_database", {"query": "ACME"})),
        says("A large customer."),
        chooses("enterprise_sales", "nurture_campaign", why="large, and new"),
    )
    branch = {
        "enabled": True,
        "type": "agent_driven",
        "available_next_nodes": [
            "enterprise_sales",
            "standard_sales",
            "nurture_campaign",
            "disqualify",
        ],
        "default": ["manual_review"],
    }
    document = workflow(
        node("enrich_data", type="transform", config={"value": {"size": 900}}),
        {
            "node_id": "qualify_lead_agent",
            "type": "agent",
            "dependencies": ["enrich_data"],
            "dependents": [],
            "branch": branch,
            "agent_config": {
                "model": "gpt-4",
                "temperature": 0.3,
                "available_tools": ["search_database", "call_api"],
            },
        },
        node("enterprise_sales", description="Companies with over 500 people."),
        *(node(name) for name in ("standard_sales", "disqualify", "manual_review")),
        node(
            "nurture_campaign",
            type="transform",
            config={"value": "{{ qualify_lead_agent.decision.reasoning }}"},
        ),
    )
    async with stage(TOOLS) as s:
        result = await s.run(document)
        (decided,) = [
            e
            for e in await s.events(result.run_id, "node.completed")
            if e["node"] == "qualify_lead_agent"
        ]
        why = {
            name: await s.app.runs.explain(result.run_id, name)
            for name in ("qualify_lead_agent", "enterprise_sales", "disqualify")
        }

    statuses = {name: found.status for name, found in result.nodes.items()}
    assert statuses == {
        **dict.fromkeys(["enrich_data", "qualify_lead_agent"], "COMPLETED"),
        **dict.fromkeys(["enterprise_sales", "nurture_campaign"], "COMPLETED"),
        **dict.fromkeys(["standard_sales", "disqualify", "manual_review"], "SKIPPED"),
    }
    decision = {
        "next_nodes": ["enterprise_sales", "nurture_campaign"],
        "reasoning": "large, and new",
        "confidence": 0.9,
    }
    assert result.nodes["qualify_lead_agent"].output["decision"] == decision
    assert result.nodes["nurture_campaign"].output == "large, and new"
    assert result.status == "COMPLETED"
    assert decided["notes"] == [{"chosen": ["enterprise_sales", "nurture_campaign"]}]
    asked = json.loads(messages(service)[1]["content"])
    assert asked == {
        "output": "A large customer.",
        "history": [{"node": "enrich_data", "status": "COMPLETED", "output": '{"size":900}'}],
        "available_next_nodes": {
            "enterprise_sales": "Companies with over 500 people.",
            "standard_sales": "noop",
            "nurture_campaign": "transform",
            "disqualify": "noop",
        },
    }
    chose = "chose 'enterprise_sales', 'nurture_campaign' (large, and new)"
    assert f"'qualify_lead_agent' {chose}" in why["qualify_lead_agent"].reasons
    assert f"'qualify_lead_agent' {chose}" in why["enterprise_sales"].reasons
    assert "did not choose 'disqualify', but 'enterprise_sales'" in why["disqualify"].summary


async def test_an_agent_without_prompt_and_tools_only_chooses(stage: Any, service: Service) -> None:
    service.answer = lambda asked: chooses("b")
    branch = {"type": "agent_driven", "available_next_nodes": ["b", "c"]}
    document = workflow(
        node("a", type="transform", config={"value": 7}), agent("ag", "a", branch=branch),
        node("b"), node("c"),
    )  # fmt: skip
    async with stage() as s:
        result = await s.run(document)

    assert len(service.asked) == 1
    assert json.loads(messages(service)[1]["content"])["output"] == '{"a":7}'
    assert (result.nodes["b"].status, result.nodes["c"].status) == ("COMPLETED", "SKIPPED")


BRANCH = {"type": "agent_driven", "available_next_nodes": ["b", "c"], "default": ["d"]}


def choosing() -> dict[str, Any]:
    return workflow(agent("ag", branch=BRANCH), node("b"), node("c"), node("d"))


@pytest.mark.shows("E-18")
async def test_a_model_that_insists_on_another_node_is_refused(
    stage: Any, service: Service
) -> None:
    service.answer = lambda asked: chooses("b", "send_gift")
    async with stage() as s:
        result = await s.run(choosing())
        reached = {event.get("node") for event in await s.events(result.run_id)}

    assert len(service.asked) == 2  # It was asked once more.
    message = "agent tried to route to unauthorized node: send_gift"
    assert message in messages(service)[-1]["content"]
    assert result.error is not None
    assert (result.error["code"], result.error["message"]) == ("unauthorized_route", message)
    assert not reached & set("bcd")


@pytest.mark.shows("E-21")
@pytest.mark.parametrize("answer", ["whatever", '{"next_nodes": []}', "[1]", '{"next_nodes": 3}'])
async def test_a_model_without_a_choice_gets_the_default(
    stage: Any, service: Service, answer: str
) -> None:
    service.answer = lambda asked: says(answer)
    async with stage() as s:
        result = await s.run(choosing())

    assert result.status == "COMPLETED"
    assert [name for name in "bcd" if result.nodes[name].status == "COMPLETED"] == ["d"]


async def test_a_choice_that_is_corrected_counts(stage: Any, service: Service) -> None:
    service.answer = one_after_another(chooses("nowhere"), chooses("c"))
    async with stage() as s:
        result = await s.run(choosing())

    assert [name for name in "bcd" if result.nodes[name].status == "COMPLETED"] == ["c"]


async def test_the_result_fits_its_schema_also_at_the_second_try(
    stage: Any, service: Service
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    service.answer = one_after_another(says('{"n": "x"}'), says('```json\n{"n": 3}\n```'))
    async with stage() as s:
        result = await s.run(workflow(agent(prompt="p", response_schema=schema)))

    assert result.nodes["ag"].output["result"] == {"n": 3}
    assert service.asked[0].json["response_format"]["json_schema"]["schema"] == schema
    assert "n: " in messages(service)[-1]["content"]


async def test_the_config_is_the_same_as_the_agent_config(stage: Any, service: Service) -> None:
    service.answer = lambda asked: says("ok")
    named = {"model": "m2", "prompt": "{{ input }}", "base_url": f"{service.url}/other"}
    document = workflow(node("ag", type="agent", config=named))
    async with stage() as s:
        result = await s.run(document, "hello")

    assert result.nodes["ag"].output["result"] == "ok"
    assert service.asked[0].target == "/other/chat/completions"
    assert "authorization" not in service.asked[0].headers
    assert messages(service)[1]["content"].startswith("hello")


@pytest.mark.shows("Z-03")
async def test_a_deployed_workflow_is_a_tool(stage: Any, service: Service) -> None:
    schema = {"type": "object", "properties": {"order": {"type": "integer"}}}
    child = {
        "name": "refund",
        "input": schema,
        "nodes": [{"id": "pay", "type": "transform", "config": {"value": "{{ input.order + 1 }}"}}],
    }
    service.answer = one_after_another(
        wants(("refund", {"order": 4}), ("refund", {"order": "x"})), says("done")
    )
    async with stage() as s:
        await s.app.workflows.deploy(child)
        document = workflow(agent(prompt="p", available_tools=["workflow:refund"]))
        result = await s.run(document)
        shown = (await s.app.runs.instances(result.run_id, "ag"))["ag"]
        tree = await s.app.runs.get(result.run_id)

    assert service.asked[0].json["tools"][0]["function"]["parameters"] == schema
    first, second = (one["content"] for one in messages(service)[3:])
    assert first == '{"pay":5}'
    assert second.endswith('order: "x" is not of type "integer"')
    assert [step.kind for step in shown.steps] == ["step", "child", "child", "step"]
    assert tree.status == "COMPLETED"


# ── what a model may not do ─────────────────────────────────────────────────────────────


@pytest.mark.shows("N-32")
async def test_anything_but_a_tool_of_the_agent_is_refused(stage: Any, service: Service) -> None:
    called: list[str] = []

    async def delete_customer(name: str) -> None:
        called.append(name)

    service.answer = one_after_another(
        wants(
            ("delete_customer", {"name": "Ada"}),
            ("http_request", {"url": service.url}),
            ("os.system('rm')", {}),
            ("search_database", '{"query": '),
            ("search_database", {"query": 7}),
            ("search_database", {}),
            ("search_database", {"query": "q", "ctx": 1}),
            ("search_database", ["q"]),
        ),
        says("sorry"),
    )
    document = workflow(agent(prompt="p", available_tools=["search_database"]))
    async with stage({**TOOLS, "delete_customer": delete_customer}) as s:
        result = await s.run(document)
        shown = (await s.app.runs.instances(result.run_id, "ag"))["ag"]

    answers = [one["content"] for one in messages(service) if one["role"] == "tool"]
    assert len(service.asked) == 2  # Nobody but the model was called.
    assert called == []
    assert {step.name.partition(" #")[0] for step in shown.steps} == {
        "ask model",
        "search_database",
    }
    assert [step.status for step in shown.steps] == ["COMPLETED", *["FAILED"] * 3, "COMPLETED"]
    assert [answer.startswith("error: there is no tool ") for answer in answers[:3]] == [True] * 3
    assert "not valid JSON" in answers[3]
    assert "is not of type" in answers[4]
    assert "required property" in answers[5]
    assert "ctx" in answers[6]
    assert "must be an object" in answers[7]
    assert result.nodes["ag"].output["result"] == "sorry"
    assert all("error" in one for one in result.nodes["ag"].output["tool_calls"])


async def test_an_error_of_a_tool_goes_to_the_model(stage: Any, service: Service) -> None:
    @minuet.task(name="call_api", retries=0)
    async def failing(path: str) -> None:
        raise ValueError(f"{path} is not here")

    service.answer = one_after_another(wants(("call_api", {"path": "/x"})), says("so be it"))
    async with stage({"call_api": failing}) as s:
        result = await s.run(workflow(agent(prompt="p", available_tools=["call_api"])))

    assert messages(service)[-1]["content"] == "error: ValueError: /x is not here"
    assert result.nodes["ag"].output["tool_calls"] == [
        {"tool": "call_api", "args": {"path": "/x"}, "error": "ValueError: /x is not here"}
    ]


async def test_a_large_result_of_a_tool_is_cut_for_the_model(stage: Any, service: Service) -> None:
    async def flood() -> str:
        return "x" * 200_000

    service.answer = one_after_another(wants(("flood", {})), says("much"))
    async with stage({"flood": flood}) as s:
        result = await s.run(workflow(agent(prompt="p", available_tools=["flood"])))

    assert len(messages(service)[-1]["content"]) < 17_000
    assert messages(service)[-1]["content"].endswith("(cut: 200,000 characters in all)")
    assert result.status == "COMPLETED"


async def test_many_calls_at_once_are_refused_beyond_a_limit(stage: Any, service: Service) -> None:
    service.answer = one_after_another(
        wants(*(("search_database", {"query": str(n), "limit": 0}) for n in range(40))), says("ok")
    )
    async with stage(TOOLS) as s:
        await s.run(workflow(agent(prompt="p", available_tools=["search_database"])))

    answers = [one["content"] for one in messages(service) if one["role"] == "tool"]
    assert answers[31] == "[]"
    assert all(answer.startswith("error: too many calls") for answer in answers[32:])


async def test_a_tool_that_is_not_here_stops_the_agent_before_it_costs_anything(
    stage: Any, service: Service
) -> None:
    document = workflow(agent(prompt="p", available_tools=["{{ input }}"]))
    async with stage() as s:
        with pytest.raises(minuet.DocumentError) as refused:
            await s.app.start(workflow(agent(prompt="p", available_tools=["serch"])))
        result = await s.run(document, "search_databse")

    assert (refused.value.diagnostics[0].code, refused.value.diagnostics[0].path) == (
        "unknown-tool",
        "nodes[0].agent_config.available_tools[0]",
    )
    assert result.error is not None
    assert (result.error["code"], service.asked) == ("agent-no-tool", [])


# ── limits ──────────────────────────────────────────────────────────────────────────────


async def test_a_model_that_never_ends_is_stopped_after_its_turns(
    stage: Any, service: Service
) -> None:
    service.answer = lambda asked: wants(("search_database", {"query": "again"}))
    document = workflow(agent(prompt="p", available_tools=["search_database"], max_turns=3))
    async with stage(TOOLS) as s:
        result = await s.run(document)

    assert result.error is not None
    assert result.error["code"] == "agent-max-turns"
    assert result.error["usage"]["total_tokens"] == 360
    assert (len(service.asked), result.nodes["ag"].attempts) == (3, 1)


@pytest.mark.parametrize(
    ("budget", "calls"),
    [({"tokens": 240}, 2), ({"tokens": 241}, 3), ({"usd": COST}, 1), ({"usd": 9 * COST}, 9)],
)
async def test_a_budget_stops_the_next_call(
    stage: Any, service: Service, budget: dict[str, Any], calls: int
) -> None:
    service.answer = lambda asked: wants(("search_database", {"query": "again"}))
    document = workflow(agent(prompt="p", available_tools=["search_database"], budget=budget))
    async with stage(TOOLS) as s:
        result = await s.run(document)

    assert result.error is not None
    assert (result.error["code"], len(service.asked)) == ("agent-budget", calls)


async def test_what_was_paid_for_is_not_thrown_away(stage: Any, service: Service) -> None:
    service.answer = lambda asked: says("done")
    async with stage() as s:
        result = await s.run(workflow(agent(prompt="p", budget={"tokens": 1})))

    assert result.nodes["ag"].output["result"] == "done"


async def test_all_agents_of_a_run_share_its_budget(stage: Any, service: Service) -> None:
    service.answer = lambda asked: says("x" * 70_000)  # Large enough to be a blob.
    document = workflow(
        agent("one", prompt="p"),
        agent("two", "one", prompt="p"),
        agent("three", "two", prompt="p"),
        limits={"budget": {"tokens": 200}},
    )
    async with stage() as s:
        result = await s.run(document)

    assert result.error is not None
    assert (result.error["node"], result.error["code"]) == ("three", "agent-budget")
    assert "240 of 200 tokens" in result.error["message"]
    assert len(service.asked) == 2


@pytest.mark.parametrize(
    ("fields", "usage", "calls"),
    [
        ({"model": "m9", "budget": {"usd": 1}}, USAGE, 0),
        ({"budget": {"tokens": 1000}}, None, 1),
        ({"budget": {"usd": 1}}, None, 1),
    ],
)
async def test_a_budget_that_cannot_be_kept_is_refused(
    stage: Any, service: Service, fields: dict[str, Any], usage: Any, calls: int
) -> None:
    service.answer = lambda asked: wants(("search_database", {"query": "q"}), usage=usage)
    document = workflow(agent(prompt="p", available_tools=["search_database"], **fields))
    async with stage(TOOLS) as s:
        result = await s.run(document)

    assert result.error is not None
    assert (result.error["code"], len(service.asked)) == ("agent-budget", calls)


@pytest.mark.shows("K-26")
async def test_an_agent_ends_when_its_time_is_over(stage: Any, service: Service) -> None:
    service.answer = lambda asked: silence
    async with stage() as s:
        result = await s.run(workflow(agent(prompt="p", timeout_sec=0.1, retry=1)))

    assert result.error is not None
    assert result.error["code"] == "timeout"


@pytest.mark.shows("S-39")
async def test_an_agent_has_300_seconds_if_nobody_says(
    stage: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert AGENT.timeout_seconds == 300
    short = msgspec.structs.replace(AGENT, timeout_seconds=0.1)
    monkeypatch.setitem(NODE_TYPES, "agent", short)
    service.answer = lambda asked: silence
    async with stage() as s:
        result = await s.run(workflow(agent(prompt="p", retry=1)))

    assert result.error is not None
    assert result.error["code"] == "timeout"


# ── trouble with the service ────────────────────────────────────────────────────────────


@pytest.mark.shows("J-26")
async def test_a_call_that_fails_is_tried_again_with_the_node_and_nothing_else_is(
    stage: Any, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    async def look(query: str) -> str:
        ran.append(query)
        return "found"

    service.answer = one_after_another(
        wants(("look", {"query": "q"})),
        reply({"error": {"message": "slow down"}}, 429, {"Retry-After": "0"}),
        reply(b"bad gateway", 502),
        says("done"),
    )
    document = workflow(agent(prompt="p", available_tools=["look"], retry=QUICK_RETRY))
    async with stage({"look": look}) as s:
        result = await s.run(document)
        retries = await s.events(result.run_id, "node.retried")

    assert result.nodes["ag"].output["result"] == "done"
    assert result.nodes["ag"].attempts == 3
    assert (len(service.asked), ran) == (4, ["q"])  # The call that was paid for was not made again.
    assert [event["error"]["code"] for event in retries] == ["http-429", "http-502"]
    assert result.nodes["ag"].output["usage"]["total_tokens"] == 240


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (reply(b"<html>", kind="text/html"), "invalid-answer"),
        (stream({"choices": "no"}), "invalid-answer"),
        (stream({"choices": [{"delta": {"tool_calls": [{"index": 10**9}]}}]}), "invalid-answer"),
        (stream({"choices": [{"delta": {"tool_calls": [{"index": "x"}]}}]}), "invalid-answer"),
        (stream({"choices": [{"delta": {"tool_calls": ["x"]}}]}), "invalid-answer"),
        (stream(*[{"choices": [{"delta": {"content": "x" * 50_000}}]}] * 100), "answer-too-large"),
        (reply({"choices": [{"message": {"content": "x" * 5_000_000}}]}), "answer-too-large"),
        (wants(("search_database", "[" * 2_000_000)), "answer-too-large"),
        (says("cut", reason="length"), "agent-too-long"),
        (says("no", reason="content_filter"), "llm-content-filter"),
        (stream({"choices": [{"delta": {"refusal": "never"}}]}), "llm-refused"),
        (stream(), "answer-cut"),
        (says("   "), "agent-misfit"),
        (reply({"error": {"message": "bad key sk-worker"}}, 401), "http-401"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_nonsense_from_the_service_fails_the_node_with_a_code(
    stage: Any, service: Service, answer: bytes, code: str
) -> None:
    service.answer = lambda asked: answer
    document = workflow(agent(prompt="p", available_tools=["search_database"], retry=1))
    async with stage(TOOLS) as s:
        result = await s.run(document)
        recorded = repr(await s.events(result.run_id))

    assert result.error is not None
    assert result.error["code"] == code
    assert "sk-worker" not in recorded
    assert len(recorded) < 100_000


async def test_deep_arguments_are_refused_and_not_repeated(stage: Any, service: Service) -> None:
    service.answer = one_after_another(wants(("search_database", "[" * 100_000)), says("ok"))
    async with stage(TOOLS) as s:
        result = await s.run(workflow(agent(prompt="p", available_tools=["search_database"])))

    assert result.status == "COMPLETED"
    (wanted,) = messages(service)[2]["tool_calls"]
    assert wanted["function"]["arguments"] == "{}"


async def test_a_cancelled_run_hangs_up(stage: Any, service: Service) -> None:
    never = asyncio.Event()
    service.answer = lambda asked: slowly({"choices": []}, gate=never)
    async with stage() as s:
        run_id = await s.app.start(workflow(agent(prompt="p")))
        async with asyncio.timeout(60):
            await service.called.wait()
            await s.app.runs.cancel(run_id)
            await service.left.wait()
        result = await s.end(run_id)

    assert result.status == "CANCELLED"


async def test_the_items_of_a_foreach_are_agents_of_their_own(stage: Any, service: Service) -> None:
    service.answer = lambda asked: says(asked.json["messages"][1]["content"].partition("\n")[0])
    each = {**agent("ag", prompt="about {{ item }}"), "foreach": {"items": ["a", "b", "c"]}}
    async with stage() as s:
        result = await s.run(workflow(each))
        shown = await s.app.runs.instances(result.run_id, "ag")

    assert [one["result"] for one in result.nodes["ag"].output] == ["about a", "about b", "about c"]
    assert sorted(len(one.steps) for one in shown.values()) == [1, 1, 1]


@pytest.mark.parametrize("is_sync", [True, False])
async def test_arguments_of_a_tool_have_the_types_of_its_hints(
    stage: Any, service: Service, is_sync: bool
) -> None:
    class Order(msgspec.Struct):
        number: int
        note: str = "none"

    got: list[Any] = []

    async def later(order: Order, ctx: minuet.Context) -> Order:
        got.append((order, len(ctx.idempotency_key)))
        return Order(order.number + 1)

    def at_once(order: Order, ctx: minuet.Context) -> Order:
        got.append((order, len(ctx.idempotency_key)))
        return Order(order.number + 1)

    later.__annotations__ = at_once.__annotations__ = {
        "order": Order,
        "ctx": minuet.Context,
        "return": Order,
    }
    service.answer = one_after_another(wants(("tool", {"order": {"number": 4}})), says("ok"))
    async with stage({"tool": at_once if is_sync else later}) as s:
        await s.run(workflow(agent(prompt="p", available_tools=["tool"])))

    assert got == [(Order(4), 32)]
    assert messages(service)[-1]["content"] == '{"number":5,"note":"none"}'
    schema = service.asked[0].json["tools"][0]["function"]["parameters"]
    assert schema["properties"]["order"]["properties"]["number"] == {"type": "integer"}
    assert schema["properties"]["order"]["required"] == ["number"]
