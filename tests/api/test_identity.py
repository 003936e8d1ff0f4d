"""In whose name things happen: it is known from the key, not from what the body says."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.api.access import Access

from ..waiting import until_waiting
from .conftest import Serve, Site
from .test_access import CLOSED, as_key

WAITING = {
    "name": "waiting",
    "nodes": [{"id": "gate", "type": "wait", "config": {"signal": "go"}}],
}


def asking(**config: Any) -> dict[str, Any]:
    return {"name": "asking", "nodes": [{"id": "ask", "type": "human", "human_config": config}]}


async def key(site: Site, name: str, *roles: Any, **options: Any) -> dict[str, str]:
    return as_key(await site.app.keys.create(name, roles, **options))


async def ask(site: Site, headers: dict[str, str], **config: Any) -> str:
    """Start a run that asks somebody; the path of the decision."""
    body = {"document": asking(**config), "tags": {"submitted_by": "the boss"}}
    run = await site.post("/runs", body, 201, headers=headers)
    await until_waiting(site.app.store, "approval")
    return f"/approvals/{run['run_id']}:ask/decide"


@pytest.mark.shows("M-10", "M-17")
async def test_who_decides_is_the_owner_of_the_key(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        ada = await key(site, "ada", "approver", "editor")
        path = await ask(site, ada)
        body = {"decision": "approve", "decided_by": "the boss"}
        decided = await site.post(path, body, headers=ada)
        found = await site.get(path.removesuffix("/decide"), headers=ada)

    assert decided["status"] == "resumed"
    assert [one["by"] for one in found["decisions"]] == ["ada"]
    assert found["requester"] == "ada"


async def test_a_trusted_service_says_who_decides_and_who_starts(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        service = await key(site, "portal", "approver", "editor", trusted=True)
        path = await ask(site, service, approvers=["finance"])
        body = {"decision": "approve", "decided_by": "ada", "groups": ["finance"]}
        await site.post(path, body, headers=service)
        found = await site.get(path.removesuffix("/decide"), headers=service)

    assert [one["by"] for one in found["decisions"]] == ["ada"]
    assert found["requester"] == "the boss"


@pytest.mark.shows("M-10", "M-17")
async def test_approvers_are_people_and_groups_that_the_key_knows(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        other = await key(site, "eve", "approver", "editor", groups=["sales"])
        path = await ask(site, other, approvers=["ada", "finance"], quorum=2)
        body = {"decision": "approve", "decided_by": "ada", "groups": ["finance"]}
        refused = await site.post(path, body, 403, headers=other)
        ada = await key(site, "ada", "approver")
        bob = await key(site, "bob", "approver", groups=["finance"])
        first = await site.post(path, {"decision": "approve"}, headers=ada)
        second = await site.post(path, {"decision": "approve"}, headers=bob)

    assert refused["code"] == "not-an-approver"
    assert (first["status"], second["status"]) == ("pending", "resumed")


async def test_who_started_a_run_cannot_decide_with_four_eyes(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        ada = await key(site, "ada", "approver", "editor")
        bob = await key(site, "bob", "approver")
        path = await ask(site, ada, four_eyes=True)
        refused = await site.post(path, {"decision": "approve"}, 403, headers=ada)
        await site.post(path, {"decision": "approve"}, headers=bob)

    assert refused["code"] == "not-an-approver"


async def test_changes_of_a_run_are_recorded_with_who_made_them(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        ada = await key(site, "ada", "editor")
        bob = await key(site, "bob", "operator")
        run = await site.post("/runs", {"document": WAITING}, 201, headers=ada)
        path = f"/runs/{run['run_id']}"
        for word in ("pause", "resume", "signals/other", "cancel", "retry", "cancel"):
            await site.post(f"{path}/{word}", {}, headers=bob)
        events = await site.get(f"{path}/events", headers=ada)

    by = {one["type"]: one["data"].get("by") for one in events["items"]}
    assert run["submitted_by"] == "ada"
    for kind in ("paused", "resumed", "cancelled", "retried"):
        assert by[f"run.{kind}"] == "bob", kind
    assert by["signal.received"] == "bob"


async def test_versions_and_submitted_runs_are_recorded_with_who_made_them(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        ada = await key(site, "ada", "editor")
        deployed = await site.post("/workflows", {"document": WAITING}, 201, headers=ada)
        submitted = await site.post("/workflow", WAITING, 201, headers=ada)
        found = await site.get(f"/runs/{submitted['execution_id']}", headers=ada)

    assert deployed["created_by"] == "ada"
    assert found["submitted_by"] == "ada"


async def test_where_no_key_is_needed_the_body_says_who_decides(serve: Serve) -> None:
    async with serve(access=Access()) as site:
        path = await ask(site, {})
        await site.post(path, {"decision": "reject", "decided_by": "ada"})
        found = await site.get(path.removesuffix("/decide"))

    assert [one["by"] for one in found["decisions"]] == ["ada"]
    assert found["requester"] == "the boss"


async def test_a_sender_can_ask_who_it_is(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        ada = await key(site, "ada", "approver", groups=["finance"])
        found = await site.get("/whoami", headers=ada)
        await site.get("/whoami", 401)
    async with serve() as site:
        anybody = await site.get("/whoami")

    assert (found["name"], found["groups"], found["trusted"]) == ("ada", ["finance"], False)
    assert found["roles"] == ["approver", "viewer"]
    assert (anybody["name"], anybody["trusted"], "admin" in anybody["roles"]) == (None, True, True)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, None),
        ({"timeout_hours": 1}, "reject"),
        ({"timeout_hours": 1, "escalation_policy": "approve"}, "approve"),
        (
            {
                "timeout_hours": 1,
                "approvers": ["ada"],
                "escalation_policy": {"reassign": ["bob"], "timeout_hours": 1, "then": "fail"},
            },
            "reassign",
        ),
    ],
    ids=["never", "default", "approve", "others"],
)
async def test_an_approval_says_what_follows_when_its_time_is_over(
    serve: Serve, config: dict[str, Any], expected: str | None
) -> None:
    async with serve() as site:
        path = await ask(site, {}, **config)
        found = await site.get(path.removesuffix("/decide"))

    assert found["at_timeout"] == expected
