"""Links to approvals: signed, for one question, for a while, and used once."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from minuet.api.access import Access, access_for
from minuet.app.links import Links
from minuet.webhooks.links import Link, make_secret, read_link, sign_link

from ..waiting import until
from .conftest import Serve, Site
from .test_access import CLOSED
from .test_identity import asking

HTML = {"Accept": "text/html"}
LATER_MS = 9_999_999_999_999


async def ask(site: Site, *, expires_ms: int = LATER_MS, **config: Any) -> tuple[str, Link]:
    """Ask somebody; the path of a link, and what it is for."""
    run = (await site.app.start(asking(**config), {"amount": 7})).id

    async def is_asked() -> bool:
        return bool(await site.app.approvals.list(run))

    await until(site.app.store, is_asked)
    asked = await site.app.approvals.show(run)
    approvers = asked.approvers
    link = Link(
        tenant=site.app.tenant,
        approval=asked.id,
        asked_ms=asked.created_ms,
        by=approvers[0] if len(approvers) == 1 else "link",
        approvers=approvers,
        expires_ms=expires_ms,
    )
    return await signed(site, link), link


async def signed(site: Site, link: Link) -> str:
    engine = site.app._engine
    secret = await make_secret(engine.store, engine.ids)
    return f"/api/v1/approvals/{link.approval}/decide?link={sign_link(secret, link)}"


async def status_of(site: Site, link: Link) -> str:
    return (await site.app.approvals.show(link.approval)).status


@pytest.mark.parametrize("access", [Access(), CLOSED], ids=["open", "closed"])
async def test_a_link_opens_a_page_whose_form_decides(serve: Serve, access: Access) -> None:
    async with serve(access=access) as site:
        url, link = await ask(site, title="Pay <b>?", approvers=["ada"])
        page = await site.client.get(url, headers=HTML)
        before = await status_of(site, link)
        form = {"decision": "approve", "comments": "fine & good"}
        headers = {**HTML, "Origin": site.url}
        done = await site.client.post(url, data=form, headers=headers)
        (decision,) = (await site.app.approvals.show(link.approval)).decisions
        after = await site.client.get(url, headers=HTML)

    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "Pay &lt;b&gt;?" in page.text
    assert "&quot;amount&quot;: 7" in page.text
    assert "<script" not in page.text
    assert before == "pending"
    assert (done.status_code, "approve" in done.text) == (200, True)
    assert (decision.by, decision.comments) == ("ada", "fine & good")
    assert "<form" not in after.text


async def test_a_page_can_run_nothing_and_be_framed_by_nobody(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        url, _ = await ask(site, title="<script>alert(1)</script>")
        page = await site.client.get(url, headers=HTML)

    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["referrer-policy"] == "same-origin"
    assert page.headers["cache-control"] == "no-store"
    assert "<script" not in page.text


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_opening_a_link_decides_nothing(serve: Serve, method: str) -> None:
    async with serve(access=CLOSED) as site:
        url, link = await ask(site)
        await site.client.request(method, f"{url}&decision=approve", headers=HTML)
        status = await status_of(site, link)

    assert status == "pending"


async def test_a_link_is_used_once(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        url, link = await ask(site, quorum=2, approvers=["ada", "bob"])
        first = await site.client.post(url, json={"decision": "approve", "decided_by": "ada"})

        async def counted() -> bool:
            return (await site.app.approvals.show(link.approval)).decisions != ()

        await until(site.app.store, counted)
        again = await site.client.post(url, json={"decision": "approve", "decided_by": "bob"})
        other = await site.client.post(url, json={"decision": "reject"})
        found = await site.app.approvals.show(link.approval)

    assert first.json()["status"] == "pending"
    # The same again changes nothing, and no other name counts.
    assert again.status_code == 200
    assert (other.status_code, other.json()["code"]) == (409, "already-decided")
    assert [one.by for one in found.decisions] == ["link"]
    assert found.status == "pending"


async def test_a_link_is_for_one_question_of_one_tenant_and_for_a_while(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        url, link = await ask(site)
        _, other = await ask(site)
        wrong = {
            "expired": await signed(site, msgspec.structs.replace(link, expires_ms=1)),
            "an earlier question": await signed(site, msgspec.structs.replace(link, asked_ms=1)),
            "another approval": url.replace(link.approval, other.approval),
            "not signed": re.sub(r"\.[^.]+$", "", url),
            "signed with nothing": re.sub(r"\.[^.]+$", ".", url),
            "changed": url.replace("?link=", "?link=k"),
            "nonsense": re.sub(r"link=.*", "link=%00é..", url),
        }
        answers = {name: await site.client.post(one, json=DECISION) for name, one in wrong.items()}
        pages = [await site.client.get(one, headers=HTML) for one in list(wrong.values())[:2]]
        elsewhere = await signed(site, msgspec.structs.replace(link, tenant="other"))
        unknown = await site.client.post(elsewhere, json=DECISION)
        statuses = {await status_of(site, one) for one in (link, other)}

    assert {name: one.status_code for name, one in answers.items()} == dict.fromkeys(wrong, 401)
    assert {one.status_code for one in pages} == {401}
    assert all(one.headers["content-type"].startswith("text/html") for one in pages)
    assert unknown.status_code == 404
    assert statuses == {"pending"}


DECISION = {"decision": "approve"}


async def test_a_link_opens_nothing_else(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        url, link = await ask(site)
        query = url.partition("?")[2]
        run = link.approval.partition(":")[0]
        paths = ["/runs", f"/runs/{run}", f"/approvals/{link.approval}", "/keys"]
        statuses = {(await site.client.get(f"/api/v1{path}?{query}")).status_code for path in paths}

    assert statuses == {401}


async def test_a_link_for_somebody_who_is_not_asked_any_more_is_refused(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        _, link = await ask(site, approvers=["ada"])
        old = await signed(site, msgspec.structs.replace(link, by="bob", approvers=("bob",)))
        refused = await site.client.post(old, json=DECISION)

    assert (refused.status_code, refused.json()["code"]) == (403, "not-an-approver")


async def test_a_form_of_another_site_is_refused(serve: Serve) -> None:
    access = access_for("127.0.0.1", None, [], public_url="https://minuet.example.com")
    async with serve(access=access) as site:
        url, link = await ask(site)
        evil = {"Origin": "https://evil.example"}
        refused = await site.client.post(url, data=DECISION, headers=evil)
        before = await status_of(site, link)
        # As it comes through a proxy that has another name for the server.
        own = {"Origin": "https://minuet.example.com"}
        done = await site.client.post(url, data=DECISION, headers=own)

    assert (refused.status_code, before, done.status_code) == (403, "pending", 200)


@pytest.mark.parametrize(
    "body", ["decision=king", "x=1", "decision=approve&data=[", "%ff%fe", "a=1&" * 20, "nothing"]
)
async def test_a_form_that_is_wrong_is_refused(serve: Serve, body: str) -> None:
    async with serve(access=CLOSED) as site:
        url, link = await ask(site)
        headers = {**HTML, "Content-Type": "application/x-www-form-urlencoded"}
        refused = await site.client.post(url, content=body, headers=headers)
        status = await status_of(site, link)

    assert (refused.status_code, status) == (422, "pending")
    assert refused.headers["content-type"].startswith("text/html")


async def test_the_form_of_an_approval_is_asked_for_as_json(serve: Serve) -> None:
    schema = {"type": "object", "required": ["amount"]}
    async with serve(access=CLOSED) as site:
        url, link = await ask(site, form=schema)
        page = await site.client.get(url, headers=HTML)
        wrong = await site.client.post(url, data={**DECISION, "data": "{}"}, headers=HTML)
        right = await site.client.post(url, data={**DECISION, "data": '{"amount": 3}'})
        found = await site.app.approvals.show(link.approval)

    assert 'name="data"' in page.text
    assert (wrong.status_code, right.status_code) == (422, 200)
    assert found.decisions[0].data == {"amount": 3}


FORM = {
    "type": "object",
    "required": ["account", "kind"],
    "properties": {
        "account": {"type": "string", "title": "Account <number>", "minLength": 3},
        "kind": {"enum": ["full", "partial", 3]},
        "amount": {"type": "number", "maximum": 100},
        "urgent": {"type": "boolean"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}},
        "more": {"type": "object"},
    },
}


async def test_the_form_of_an_approval_has_fields_and_says_what_is_wrong_at_them(
    serve: Serve,
) -> None:
    filled = {
        **DECISION,
        "field0": "1-23",
        "field1": "3",
        "field2": "12.5",
        "field3": "yes",
        "field4": "new\r\n vip",
        "field5": "Paris",
        "field6": '{"a": [1]}',
    }
    async with serve(access=CLOSED) as site:
        url, link = await ask(site, form=FORM)
        page = await site.client.get(url, headers=HTML)
        mistakes = {**filled, "field0": "", "field2": "many", "comments": "<i>why"}
        wrong = await site.client.post(url, data=mistakes, headers=HTML)
        before = await status_of(site, link)
        right = await site.client.post(url, data=filled, headers=HTML)
        found = await site.app.approvals.show(link.approval)

    assert 'for="field0">Account &lt;number&gt;</label>' in page.text
    assert 'name="data"' not in page.text
    assert (wrong.status_code, before) == (422, "pending")
    assert 'name="field0" aria-invalid="true"' in wrong.text
    assert "This is needed" in wrong.text
    assert 'aria-invalid="true" value="many"' in wrong.text
    assert "&lt;i&gt;why" in wrong.text
    assert "<option selected>3</option>" in wrong.text
    assert right.status_code == 200
    assert found.decisions[0].data == {
        "account": "1-23",
        "kind": 3,
        "amount": 12.5,
        "urgent": True,
        "labels": ["new", "vip"],
        "address": {"city": "Paris"},
        "more": {"a": [1]},
    }


async def test_a_link_that_comes_second_shows_the_first_decision(serve: Serve) -> None:
    async with serve(access=CLOSED) as site:
        url, link = await ask(site, approvers=["ada", "bob"])
        await site.app.approvals.reject(link.approval, by="bob", comments="too <much>")
        late = await site.client.post(url, data=DECISION, headers=HTML)

    assert late.status_code == 409
    assert "Somebody was faster" in late.text
    assert "<strong>bob</strong> rejected" in late.text
    assert "too &lt;much&gt;" in late.text


async def test_a_store_without_links_accepts_none(serve: Serve) -> None:
    async with serve() as site:
        assert await Links(site.app).find("a.b", "x") is None


def test_every_byte_of_a_link_counts() -> None:
    link = Link("default", "run:ask", 1, "ada", ("ada",), 10)
    text = sign_link(b"secret", link)

    assert read_link(b"secret", text, 9) == link
    assert read_link(b"secret", text, 10) is None
    assert read_link(b"other", text, 9) is None
    for place, letter in enumerate(text):
        changed = text[:place] + ("A" if letter != "A" else "Q") + text[place + 1 :]
        assert read_link(b"secret", changed, 9) is None, place
