"""`play` and `aplay`: the real engine, stubs, and a clock that skips waits."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet import NonRetryable, PlayError
from minuet.errors import DocumentError, InputError
from minuet.testing import aplay, play


@minuet.task(retries=2)
def doubled(number: int) -> int:
    return number * 2


@minuet.node_type("testing.greeting")
def greeting(config: dict[str, str], ctx: minuet.Context) -> dict[str, str]:
    return {"text": f"hello {config['name']}"}


def chain(*nodes: dict[str, Any]) -> dict[str, Any]:
    """A document in which each node depends on the one before."""
    linked = [
        {**node, "dependencies": [nodes[number - 1]["id"]]} if number else node
        for number, node in enumerate(nodes)
    ]
    return {"name": "chain", "nodes": linked}


DOUBLE = {"id": "double", "handler": "doubled", "config": {"number": "{{ input.n }}"}}
DAY = {"id": "day", "type": "wait", "config": {"seconds": 86_400}}
PAID = {"id": "paid", "type": "wait", "config": {"signal": "paid"}}


# ── what can be played ──────────────────────────────────────────────────────────────────


def test_a_play_answers_how_the_run_ended() -> None:
    played = play(chain(DOUBLE, DAY), {"n": 21})

    assert (played.status, played.output, played.error) == ("COMPLETED", {"day": {}}, None)
    assert played.nodes["double"].output == 42
    assert played.path == ["double", "day"]
    assert [event["type"] for event in played.events][:2] == ["run.created", "run.started"]
    assert played.events[-1]["type"] == "run.completed"


async def test_a_play_can_be_awaited() -> None:
    assert (await aplay(chain(DOUBLE), {"n": 1})).output == {"double": 2}


async def test_a_blocking_play_on_an_event_loop_says_what_to_use() -> None:
    with pytest.raises(RuntimeError, match=r"await aplay"):
        play(chain(DOUBLE))


@pytest.mark.parametrize("form", ["path", "name of a file", "text"])
def test_a_workflow_is_whatever_python_takes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "name: hello\nnodes: [{id: greet, type: transform, config: {value: hi}}]\n"
    (tmp_path / "hello.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    source = {"path": tmp_path / "hello.yaml", "name of a file": "hello.yaml", "text": text}[form]

    assert play(source).output == {"greet": "hi"}


def test_a_workflow_written_in_python_is_played() -> None:
    with minuet.Workflow("twice") as twice:
        once = doubled.named("once")(number=twice.input.n)
        doubled.named("again")(number=once.output)

    assert play(twice, {"n": 3}).output == {"again": 12}


def test_the_name_of_a_deployed_workflow_is_refused() -> None:
    with pytest.raises(InputError, match="nothing is deployed in a play"):
        play("orders")


def test_a_wrong_input_is_refused_as_by_any_run() -> None:
    document = {**chain(DOUBLE), "input": {"type": "object", "required": ["n"]}}

    with pytest.raises(InputError, match="does not fit"):
        play(document, {})


def test_plays_are_the_same_each_time() -> None:
    def run() -> tuple[str, list[str], Any]:
        keys: list[str] = []
        stub = {"doubled": lambda number, ctx: keys.append(ctx.idempotency_key)}
        played = play(chain(DOUBLE, DAY), {"n": 1}, handlers=stub, now=datetime(2030, 1, 1))
        return played.run_id, keys, played.events

    assert run()[:2] == run()[:2]


# ── time ────────────────────────────────────────────────────────────────────────────────


def test_waits_are_skipped() -> None:
    began = time.monotonic()
    played = play(chain(DAY, {**DAY, "id": "another"}), now=datetime(2030, 1, 1, tzinfo=UTC))

    assert time.monotonic() - began < 20  # Not two days.
    assert played.events[-1]["at"] == "2030-01-03T00:00:00.000Z"


def test_the_clock_begins_where_the_test_says() -> None:
    document = chain({"id": "eve", "type": "wait", "config": {"until": "2030-12-24T18:00:00Z"}})

    before = play(document, now=datetime(2030, 12, 24, 17, tzinfo=UTC))
    after = play(document, now=datetime(2030, 12, 24, 19, tzinfo=UTC))

    assert before.events[-1]["at"] == "2030-12-24T18:00:00.000Z"
    assert after.events[-1]["at"] == "2030-12-24T19:00:00.000Z"


def test_the_deadline_of_a_run_comes_at_once() -> None:
    document = {**chain(PAID), "limits": {"deadline_s": 3600}}

    played = play(document)

    assert played.status == "CANCELLED"
    assert "deadline" in str(played.error)


# ── stubs ───────────────────────────────────────────────────────────────────────────────


def test_a_stub_gets_its_arguments_as_a_handler_does() -> None:
    def stub(number: float, ctx: minuet.Context) -> dict[str, Any]:
        return {"number": number, "node": ctx.node_id, "input": ctx.input}

    played = play(chain(DOUBLE), {"n": 2}, handlers={"doubled": stub})

    assert played.output["double"] == {"number": 2.0, "node": "double", "input": {"n": 2}}


async def test_an_async_stub_is_awaited() -> None:
    async def stub(number: int) -> int:
        return -number

    played = await aplay(chain(DOUBLE), {"n": 2}, handlers={"double": stub})

    assert played.output == {"double": -2}


def test_a_value_stands_for_a_handler_that_returns_it() -> None:
    assert play(chain(DOUBLE), {"n": 2}, handlers={"double": None}).output == {"double": None}


def test_a_node_wins_over_its_handler_and_a_handler_over_its_type() -> None:
    nodes = [
        {**DOUBLE, "id": "a"},
        {**DOUBLE, "id": "b"},
        {"id": "c", "handler": "input"},
    ]
    stubs = {"a": "by node", "doubled": "by handler", "task": "by type"}

    played = play({"name": "three", "nodes": nodes}, {"n": 1}, handlers=stubs)

    assert played.output == {"a": "by node", "b": "by handler", "c": "by type"}


def test_a_stub_may_stand_for_a_handler_that_is_nowhere() -> None:
    document = chain({"id": "ask", "handler": "other_team", "config": {"n": 1}})

    assert play(document, handlers={"other_team": 7}).output == {"ask": 7}
    assert play(document, handlers={"ask": lambda n: n}).output == {"ask": 1}


def test_a_handler_that_is_nowhere_and_has_no_stub_for_one_node_is_a_problem() -> None:
    nodes = [{"id": "a", "handler": "other_team"}, {"id": "b", "handler": "other_team"}]

    with pytest.raises(DocumentError, match="no handler 'other_team'"):
        play({"name": "two", "nodes": nodes}, handlers={"a": 1})


def test_http_and_llm_nodes_have_stubs_by_type_and_by_node() -> None:
    document = chain(
        {"id": "fetch", "type": "http", "config": {"url": "https://example.org/{{ input.n }}"}},
        {"id": "again", "type": "http", "config": {"url": "https://example.org/again"}},
        {"id": "ask", "type": "llm", "config": {"model": "m", "prompt": "{{ fetch.body }}"}},
    )
    asked: list[dict[str, Any]] = []

    def answer(**config: Any) -> dict[str, str]:
        asked.append(config)
        return {"text": "fine"}

    stubs = {
        "http": lambda url: {"status": 200, "body": url},
        "again": {"status": 404, "body": None},
        "llm": answer,
    }

    played = play(document, {"n": 5}, handlers=stubs)

    assert played.nodes["again"].output["status"] == 404
    assert asked == [{"model": "m", "prompt": "https://example.org/5"}]
    assert played.output == {"ask": {"text": "fine"}}


def test_a_stub_of_a_registered_type_is_called_like_the_type() -> None:
    document = chain({"id": "hi", "type": "testing.greeting", "config": {"name": "{{ input }}"}})

    def stub(config: dict[str, str]) -> dict[str, str]:
        return {"text": config["name"] * 2}

    assert play(document, "ab").output == {"hi": {"text": "hello ab"}}
    assert play(document, "ab", handlers={"testing.greeting": stub}).output["hi"]["text"] == "abab"


def test_the_output_of_a_stub_must_fit_its_node_type() -> None:
    document = chain({"id": "hi", "type": "testing.greeting", "config": {"name": "a"}})

    played = play(document, handlers={"hi": 7})

    assert played.status == "FAILED"
    assert "does not fit its node type" in played.error["message"]  # type: ignore[index]


def test_a_node_type_that_is_nowhere_may_have_a_stub() -> None:
    document = chain({"id": "scan", "type": "their.scanner", "config": {"page": 3}})

    assert play(document, handlers={"scan": "text"}).output == {"scan": "text"}
    assert play(document, handlers={"their.scanner": lambda config: config}).output["scan"] == {
        "page": 3
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"handlers": {"dubble": 1}}, r"named 'dubble' \(did you mean 'double'\?\)"),
        ({"fail": {"dubble": "x"}}, r"no node 'dubble' \(did you mean 'double'\?\)"),
        ({"fail": {"double": 3}}, "expected an exception"),
        ({"fail": {"double": UnicodeDecodeError}}, "needs arguments"),
        ({"handlers": {"day": 1}}, "time is skipped"),
        ({"handlers": {"shape": 1}}, "has no handler"),
        ({"handlers": {"double": lambda other: other}}, "has no argument 'number'"),
        ({"decisions": {"double": "approve"}}, "only human nodes"),
        ({"decisions": {"nobody": "approve"}}, "no node 'nobody'"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], message: str) -> None:
    shape = {"id": "shape", "type": "transform", "config": {"value": 1}}

    with pytest.raises(InputError, match=message):
        play(chain(DOUBLE, DAY, shape), {"n": 1}, **arguments)


def test_secrets_are_given() -> None:
    document = chain(
        {
            "id": "call",
            "handler": "other",
            "config": {"key": "{{ secrets.API_KEY }}"},
            "secrets": ["API_KEY"],
        }
    )
    got: list[str] = []

    played = play(
        document, handlers={"call": lambda key: got.append(key)}, secrets={"API_KEY": "k1"}
    )

    assert (played.status, got) == ("COMPLETED", ["k1"])


# ── failures ────────────────────────────────────────────────────────────────────────────


def test_a_failure_ends_the_run_and_is_answered() -> None:
    played = play(chain(DOUBLE, DAY), {"n": 1}, fail={"double": NonRetryable("no")})

    assert (played.status, played.output) == ("FAILED", None)
    assert played.error is not None
    assert (played.error["node"], played.error["message"]) == ("double", "no")
    assert played.nodes["double"].attempts == 1
    assert played.path == ["double"]


@pytest.mark.parametrize("failure", ["down", ConnectionError, ConnectionError("down")])
def test_one_failure_is_that_of_every_attempt(failure: Any) -> None:
    played = play(chain(DOUBLE), {"n": 1}, fail={"double": failure})

    assert (played.status, played.nodes["double"].attempts) == ("FAILED", 3)


def test_a_list_of_failures_is_that_of_the_first_attempts() -> None:
    played = play(chain(DOUBLE), {"n": 4}, fail={"double": ["one", TimeoutError]})

    assert played.output == {"double": 8}
    assert played.nodes["double"].attempts == 3
    retried = [
        event["data"]["error"]["type"] for event in played.events if "retried" in event["type"]
    ]
    assert retried == ["RuntimeError", "TimeoutError"]


def test_one_item_of_a_foreach_fails() -> None:
    node = {**DOUBLE, "foreach": {"items": [1, 2, 3]}, "config": {"number": "{{ item }}"}}

    played = play(chain(node), fail={"double[1]": NonRetryable("no")})

    assert played.instances["double[0]"].output == 2
    assert played.instances["double[1]"].status == "FAILED"


def test_the_error_path_of_a_failure_is_taken() -> None:
    nodes = [
        {**DOUBLE, "on_error": ["refund"]},
        {"id": "refund", "type": "transform", "config": {"value": "refunded"}},
        {"id": "ship", "type": "noop", "dependencies": ["double"]},
    ]

    played = play({"name": "order", "nodes": nodes}, {"n": 1}, fail={"double": ValueError("no")})

    assert (played.status, played.path) == ("COMPLETED", ["double", "refund"])
    assert played.nodes["ship"].status == "SKIPPED"
    assert "ship" in played.why("ship").summary


# ── the path ────────────────────────────────────────────────────────────────────────────


def test_a_path_names_iterations_and_items() -> None:
    again = {
        "id": "again",
        "handler": "doubled",
        "config": {"number": "{{ iteration }}"},
        "loop": {"while": "output < 4", "max_iterations": 5},
    }
    items = {
        "id": "each",
        "type": "transform",
        "config": {"value": "{{ item }}"},
        "foreach": {"items": ["a", "b"]},
    }
    document = {**chain(again, items), "output": "{{ each.output }}"}

    played = play(document)

    assert played.path == ["again[0]", "again[1]", "again[2]", "each[0]", "each[1]", "each"]
    assert played.output == ["a", "b"]


def test_sync_handlers_do_not_change_the_order_of_the_path() -> None:
    node = {**DOUBLE, "foreach": {"items": list(range(20))}, "config": {"number": "{{ item }}"}}

    played = play(chain(node))

    assert played.path == [*(f"double[{n}]" for n in range(20)), "double"]


# ── signals and child runs ──────────────────────────────────────────────────────────────


def test_a_signal_comes_when_a_node_waits_for_it() -> None:
    played = play(chain(DAY, PAID), signals={"paid": {"by": "card"}})

    assert played.output == {"paid": {"by": "card"}}


def test_each_wait_gets_the_next_signal_of_a_list() -> None:
    document = chain(PAID, {**PAID, "id": "paid2"})

    played = play(document, signals={"paid": [1, 2]})

    assert (played.nodes["paid"].output, played.nodes["paid2"].output) == (1, 2)


def test_each_wait_gets_the_one_signal_that_is_not_a_list() -> None:
    document = chain(PAID, {**PAID, "id": "paid2"})

    played = play(document, signals={"paid": {"n": 1}})

    assert (played.nodes["paid"].output, played.nodes["paid2"].output) == ({"n": 1}, {"n": 1})


def test_a_signal_that_is_not_given_times_out() -> None:
    node = {**PAID, "config": {"signal": "paid", "timeout_seconds": 86_400}}

    played = play(chain(node))

    assert played.status == "FAILED"
    assert played.error is not None
    assert played.error["code"] == "signal_timeout"


CHILD = {
    "name": "shipping",
    "nodes": [{"id": "pack", "handler": "doubled", "config": {"number": "{{ input }}"}}],
}


def test_child_workflows_are_played_too() -> None:
    node = {"id": "ship", "type": "workflow", "config": {"workflow": "shipping", "input": 4}}

    played = play(chain(node, DAY), workflows=[CHILD])

    assert played.nodes["ship"].output == {"pack": 8}
    (child,) = played.children
    assert (child.workflow, child.path) == ("shipping", ["pack"])


def test_a_workflow_inside_another_has_stubs_and_failures() -> None:
    node = {"id": "ship", "type": "workflow", "config": {"workflow": CHILD, "input": 4}}

    assert play(chain(node), handlers={"pack": 1}).output == {"ship": {"pack": 1}}
    failed = play(chain(node), fail={"pack": NonRetryable("torn")})
    assert (failed.status, failed.children[0].status) == ("FAILED", "FAILED")


def test_a_child_run_may_be_replaced_by_what_it_would_return() -> None:
    node = {"id": "ship", "type": "workflow", "config": {"workflow": "shipping", "input": 4}}

    played = play(chain(node), handlers={"ship": {"parcel": 7}})

    assert (played.output, played.children) == ({"ship": {"parcel": 7}}, ())


def test_a_signal_reaches_a_child_run() -> None:
    child = {"name": "payment", "nodes": [PAID]}
    node = {"id": "pay", "type": "workflow", "config": {"workflow": child}}

    assert play(chain(node), signals={"paid": 5}).output == {"pay": {"paid": 5}}


# ── what cannot go on ───────────────────────────────────────────────────────────────────


def test_a_signal_that_nobody_sends_ends_the_play() -> None:
    with pytest.raises(PlayError) as stopped:
        play(chain(DOUBLE, PAID), {"n": 1}, signals={"payed": 1})

    assert "'paid' has waited for signal 'paid'" in str(stopped.value)
    assert "pass signals={'paid': …}, not 'payed'" in str(stopped.value)
    assert stopped.value.played.path == ["double"]


def test_a_list_of_signals_that_is_used_up_ends_the_play() -> None:
    with pytest.raises(PlayError, match="all that `signals` has of this name were sent"):
        play(chain(PAID, {**PAID, "id": "paid2"}), signals={"paid": [1]})


def test_a_signal_that_a_child_run_waits_for_is_named() -> None:
    node = {"id": "pay", "type": "workflow", "config": {"workflow": {"name": "p", "nodes": [PAID]}}}

    with pytest.raises(PlayError, match="'paid' has waited for signal 'paid'"):
        play(chain(node))


def test_a_queue_that_nobody_serves_ends_the_play() -> None:
    node = {**DOUBLE, "placement": {"requires_capabilities": {"gpu": True}}}

    with pytest.raises(PlayError) as stopped:
        play(chain(DAY, node), {"n": 1})

    assert "gpu" in str(stopped.value)


async def test_a_handler_that_does_not_return_ends_the_play() -> None:
    import asyncio

    async def stub(number: int) -> None:
        await asyncio.Event().wait()

    with pytest.raises(PlayError, match=r"the handler of double .* still runs"):
        await aplay(chain(DOUBLE), {"n": 1}, handlers={"double": stub}, timeout=0.2)


# ── showing ─────────────────────────────────────────────────────────────────────────────


def test_a_played_run_shows_its_path_and_its_error() -> None:
    failed = play(chain(DAY, DOUBLE), {"n": 1}, fail={"double": NonRetryable("no")})

    assert repr(failed) == "<played 'chain': FAILED (double: NonRetryable: no), path day → double>"


AGENT = {
    "id": "agent",
    "type": "agent",
    "agent_config": {"model": "m", "prompt": "about {{ input.n }}", "available_tools": ["doubled"]},
}


def test_an_agent_is_replaced_by_a_stub_that_gets_its_config() -> None:
    def work(prompt: str, model: str, **rest: Any) -> dict[str, Any]:
        return {"result": f"{prompt} by {model}"}

    played = play(chain(AGENT), {"n": 3}, handlers={"agent": work})

    assert played.nodes["agent"].output == {"result": "about 3 by m"}


def test_the_model_and_the_tools_of_an_agent_are_replaced_alone() -> None:
    def model(turn: int) -> dict[str, Any]:
        call = {"name": "doubled", "arguments": '{"number": 4}'}
        return {"tool_calls": [call]} if turn == 1 else {"text": "done"}

    stubs = {"ask model": model, "doubled": lambda number: number * 3}
    played = play(chain(AGENT), {"n": 3}, handlers=stubs)

    assert played.nodes["agent"].output["result"] == "done"
    assert [step.output for step in played.nodes["agent"].steps][1] == 12


def test_an_agent_fails_as_the_play_says() -> None:
    stubs = {"agent": {"result": "late"}}
    played = play(chain(AGENT), {"n": 3}, handlers=stubs, fail={"agent": [ConnectionError("x")]})

    assert (played.status, played.nodes["agent"].attempts) == ("COMPLETED", 2)
