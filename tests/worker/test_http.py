"""`http` nodes, on every store, against a real server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from minuet.store.records import DEFAULT_TENANT

from ..scenario.harness import PATIENCE, QUICK_RETRY, node, workflow
from ..services import Service, open_service, reply, silence


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with open_service() as made:
        yield made


def calling(service: Service, path: str = "/x", /, **fields: Any) -> dict[str, Any]:
    config = {"url": f"{service.url}{path}", **fields.pop("config", {})}
    return node("call", *fields.pop("after", ()), type="http", config=config, **fields)


@pytest.mark.shows("H-03")
async def test_an_http_node_and_its_handler_call_a_service(scene: Any, service: Service) -> None:
    service.answer = lambda asked: reply({"got": asked.json})
    document = workflow(
        node("a", type="transform", config={"value": {"n": 3, "flag": True}}),
        calling(service, "/orders", after=["a"], config={"json": {"a": "{{ a.output }}"}}),
        node(
            "task",
            "call",
            handler="call_external_service",
            config={"url": f"{service.url}/t", "json": "{{ call.body.got.a.n }}"},
        ),
    )
    async with scene(egress_private=True) as s:
        result = await s.run(document)

        assert result.nodes["call"].output["status"] == 200
        assert result.nodes["call"].output["body"] == {"got": {"a": {"n": 3, "flag": True}}}
        assert result.nodes["task"].output["body"] == {"got": 3}
        assert [(a.method, a.target) for a in service.asked] == [
            ("POST", "/orders"),
            ("POST", "/t"),
        ]
        assert service.asked[0].headers["content-type"] == "application/json"


@pytest.mark.shows("J-06")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_errors_that_may_pass_are_retried_with_the_same_key(
    scene: Any, service: Service, status: int
) -> None:
    service.answer = lambda asked: reply("later", status) if len(service.asked) < 3 else reply("ok")
    async with scene(egress_private=True) as s:
        result = await s.run(workflow(calling(service, config={"json": 1}, retry=QUICK_RETRY)))

        assert result.nodes["call"].output["body"] == "ok"
        keys = {asked.headers["idempotency-key"] for asked in service.asked}
        assert (len(service.asked), len(keys)) == (3, 1)


@pytest.mark.parametrize(
    ("status", "lists", "times"),
    [
        (404, {}, 1),
        (404, {"retry_on": [404, 503]}, 3),
        (404, {"retry_on": ["http-404"]}, 3),
        (404, {"retry_on": ["4xx"]}, 3),
        (404, {"retry_on": ["Exception"]}, 1),
        (503, {"retry_on": [404]}, 1),
        (503, {"no_retry_on": [503]}, 1),
        (503, {"no_retry_on": [500]}, 3),
    ],
)
async def test_a_policy_names_the_statuses_that_are_repeated(
    scene: Any, service: Service, status: int, lists: dict[str, Any], times: int
) -> None:
    service.answer = lambda asked: reply("no", status)
    async with scene(egress_private=True) as s:
        result = await s.run(workflow(calling(service, retry={**QUICK_RETRY, **lists})))

        assert (result.status, len(service.asked)) == ("FAILED", times)


async def test_a_status_that_is_not_expected_fails_the_node_and_says_what_came(
    scene: Any, service: Service
) -> None:
    service.answer = lambda asked: reply({"why": "no such order"}, 404)
    async with scene(egress_private=True) as s:
        result = await s.run(workflow(calling(service, "/o?token=abc", retry={"max_attempts": 5})))

        error = result.error
        assert (result.status, len(service.asked)) == ("FAILED", 1)
        assert (error["code"], error["status"]) == ("http-404", 404)
        assert error["url"] == f"{service.url}/o?token=***"
        assert error["body"] == '{"why": "no such order"}'


async def test_a_call_to_a_private_address_is_refused_unless_it_is_listed(
    scene: Any, service: Service
) -> None:
    async with scene() as s:
        refused = await s.run(workflow(calling(service)))
    async with scene(egress_allow=[f"127.0.0.1:{service.port}"]) as s:
        made = await s.run(workflow(calling(service)))

    assert (refused.error["code"], made.status) == ("egress-refused", "COMPLETED")
    assert "MINUET_EGRESS_ALLOW" in refused.error["message"]
    assert len(service.asked) == 1


async def test_a_cancelled_run_closes_the_connection(scene: Any, service: Service) -> None:
    service.answer = lambda asked: silence
    async with scene(egress_private=True) as s:
        run_id = await s.app.start(workflow(calling(service)))
        await asyncio.wait_for(service.called.wait(), PATIENCE)
        await s.app.cancel(run_id)
        await asyncio.wait_for(service.left.wait(), PATIENCE)
        await s.idle()

        assert (await s.end(run_id)).status == "CANCELLED"


async def test_an_answer_larger_than_the_node_may_return_is_refused_before_it_is_read(
    scene: Any, service: Service
) -> None:
    service.answer = lambda asked: reply(b"x" * 5000, kind="text/plain")
    async with scene(egress_private=True) as s:
        result = await s.run(workflow(calling(service, limits={"max_output_bytes": 1000})))

        assert result.error["code"] == "answer-too-large"


@pytest.mark.shows("S-16")
async def test_only_nodes_of_its_queue_have_the_lease_of_a_service(
    scene: Any, service: Service
) -> None:
    service.answer = lambda asked: silence
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    async with scene({"wait": wait}, egress_private=True, lease_seconds=60) as s:
        run_id = await s.app.start(workflow(calling(service), node("wait", handler="wait")))
        await asyncio.wait_for(service.called.wait(), PATIENCE)
        await asyncio.wait_for(started.wait(), PATIENCE)
        tokens = await s.store.read_tokens(DEFAULT_TENANT, run_id)
        await s.app.cancel(run_id)

        leases = {token.node: token.due_ms - token.taken_ms for token in tokens}
        assert leases == {"call": 120_000, "wait": 60_000}


async def test_a_constraint_does_not_change_the_lease_of_a_service(
    scene: Any, service: Service
) -> None:
    service.answer = lambda asked: silence
    placed = {"placement": {"requires_capabilities": {"zone": "eu"}}}
    options = {"egress_private": True, "capabilities": {"zone": "eu"}}
    async with scene(**options) as s:
        run_id = await s.app.start(workflow(calling(service, **placed)))
        await asyncio.wait_for(service.called.wait(), PATIENCE)
        (token,) = await s.store.read_tokens(DEFAULT_TENANT, run_id)
        await s.app.cancel(run_id)

        assert token.due_ms - token.taken_ms == 120_000


class Vault:
    """A provider of secrets that knows one."""

    def get(self, name: str) -> str:
        return {"TOKEN": "canary-9d1e7a"}[name]


@pytest.mark.shows("U-17")
@pytest.mark.parametrize("status", [200, 403, 503])
async def test_a_secret_in_a_header_is_sent_and_recorded_nowhere(
    scene: Any, service: Service, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.DEBUG)
    # Some services repeat what they were sent.
    service.answer = lambda asked: reply({"got": asked.headers["authorization"]}, status)
    document = workflow(
        calling(
            service,
            "/?key={{ secrets.TOKEN }}",
            config={"headers": {"Authorization": "Bearer {{ secrets.TOKEN }}"}},
            secrets=["TOKEN"],
            retry=QUICK_RETRY,
        )
    )
    async with scene(egress_private=True, secrets=Vault()) as s:
        result = await s.run(document)
        recorded = repr((await s.events(result.run_id), result))

    assert service.asked[0].headers["authorization"] == "Bearer canary-9d1e7a"
    assert (result.status == "COMPLETED") == (status == 200)
    assert "canary-9d1e7a" not in recorded
    assert "canary-9d1e7a" not in caplog.text
