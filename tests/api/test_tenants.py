"""Ids of another tenant, in every field of every call: the same answer as for an id that nobody
has, and nothing is read or changed.

Two tenants with the same content send the same calls in lockstep. Where one has an id of a third
tenant, the other has an id that does not exist. Their answers must be the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
import pytest

from minuet.api.access import Access
from minuet.api.application import Api
from minuet.app.app import App, Facade
from minuet.store.memory import MemoryStore

from ..waiting import until
from .contract import document

#: Is in everything that the third tenant has.
SECRET = "only-they-know"

#: Routes of the server as a whole: they name nobody.
NOT_CALLED = {"GET /api/v1/health/live", "GET /api/v1/health/ready"}

#: Fields of bodies that lead into lists of objects.
NESTED = {"done": "task"}

_VOLATILE = re.compile(
    r"mnt_[a-z2-7]+(_[a-z2-7]+)?|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|20\d\d-[-:.T\d]+Z"
)

ASKING = {
    "name": "asking",
    "nodes": [{"id": "ask", "type": "human", "human_config": {"title": SECRET}}],
}
FAILING = {
    "name": "failing",
    "nodes": [{"id": "bad", "type": "transform", "config": {"expression": "input.number / 0"}}],
}
DEPLOYED = {"name": "flow", "description": SECRET, "nodes": [{"id": "a", "type": "noop"}]}


class Owned(msgspec.Struct):
    """What a tenant has, by the names of the parameters that name it."""

    key: str
    ids: dict[str, str]


async def fill(facade: Facade, secret: str) -> Owned:
    """Give a tenant one of everything."""
    text = msgspec.json.encode([ASKING, FAILING, DEPLOYED]).decode().replace(SECRET, secret)
    asking, failing, deployed = msgspec.json.decode(text)
    word = facade.tenant
    if secret == SECRET:
        # A failure of another kind: the fingerprint is that of nothing else.
        failing["nodes"][0]["config"]["expression"] = "input.secret + 1"
    open_run = await facade.start(asking, secret, idempotency_key=f"key-{word}")
    failed = await facade.start(failing, {"number": 1, "secret": secret})
    await facade.wait(failed.id)
    view = await facade.workflows.deploy({**deployed, "name": f"flow-{word}"})
    blob = await facade.blobs.put(secret.encode())

    async def asked() -> bool:
        return bool(await facade.approvals.list())

    await until(facade.store, asked)
    (letter,) = await facade.dead_letters.list()
    made = await facade.keys.create("owner", ["admin"])
    ids = {
        "run_id": open_run.id,
        "failed": failed.id,
        "approval": f"{open_run.id}:ask",
        "letter": letter.id,
        "workflow": view.name,
        "version": f"{view.name}@1",
        "ref": str(blob["cas_ref"]),
        "idempotency_key": f"key-{word}",
        "fingerprint": letter.fingerprint,
        "key": made.key.id,
    }
    return Owned(made.text, ids)


class Caller:
    """A tenant that calls, and what it puts where an id of another one is wanted."""

    def __init__(self, api: Api, own: Owned, foreign: dict[str, str]) -> None:
        transport = httpx2.ASGITransport(app=api)
        self._client = httpx2.AsyncClient(
            transport=transport,
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {own.key}"},
        )
        self.own = own.ids
        self.foreign = foreign

    async def call(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return await self._client.request(method, path, **options)

    async def register(self) -> str:
        body = {"name": "mine", "executors": ["resize"]}
        answer = await self.call("POST", "/api/v1/workers", json=body)
        self.own["worker"] = answer.json()["worker_id"]
        return str(self.own["worker"])

    def masked(self, text: str) -> str:
        """An answer without what differs between two tenants in any case."""
        for value in sorted([*self.own.values(), *self.foreign.values()], key=len, reverse=True):
            text = text.replace(value, "…").replace(quote(value, safe=""), "…")
        return _VOLATILE.sub("…", text)


def calls() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every operation; what ends the runs comes last."""
    paths: dict[str, Any] = document()["paths"]
    for path, operations in sorted(paths.items(), key=lambda one: one[0].endswith("cancel")):
        for method, found in operations.items():
            if f"{method.upper()} {path}" not in NOT_CALLED:
                yield method.upper(), path, found


def own_value(path: str, name: str) -> str:
    """Which of a tenant's own things a parameter of a path is about."""
    if name == "id":
        places = {"approvals": "approval", "dlq": "letter", "workers": "worker", "keys": "key"}
        return next(found for word, found in places.items() if f"/{word}/" in path)
    if name == "name":
        return "workflow" if "/workflows/" in path else ""
    if name in ("run_id", "execution_id"):
        return "failed" if path.endswith(("retry", "rollback")) else "run_id"
    return "ref" if name == "ref" else ""


#: What other parameters of paths are.
PLAIN = {"node": "ask", "tag": "main", "name": "go"}


def properties(found: dict[str, Any]) -> dict[str, Any]:
    """The fields of an operation's body."""
    content = found.get("requestBody", {}).get("content", {}).get("application/json", {})
    reference = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    schema = document()["components"]["schemas"].get(reference, {})
    fields: dict[str, Any] = schema.get("properties", {})
    return fields


def takes_text(schema: dict[str, Any]) -> bool:
    kinds = [schema, *schema.get("anyOf", ())]
    return not schema.get("enum") and any(one.get("type", "string") == "string" for one in kinds)


def example(found: dict[str, Any], path: str) -> dict[str, Any]:
    if path.endswith("/exchange"):
        return {"seq": 1}
    content = found.get("requestBody", {}).get("content", {}).get("application/json", {})
    return dict(content.get("example", {}))


def requests_of(
    method: str, path: str, found: dict[str, Any]
) -> Iterator[tuple[str, dict[str, str], dict[str, str], dict[str, Any] | None]]:
    """What to send: a place, the parts of the path and of the query, and the body, with the name of
    a foreign thing in `{}` at that place."""
    parameters = found.get("parameters", ())
    in_path = [one["name"] for one in parameters if one["in"] == "path"]
    base = {name: own_value(path, name) or f"={PLAIN.get(name, 'x')}" for name in in_path}
    body = example(found, path) if "requestBody" in found else None
    for name in in_path:
        yield f"path {name}", {**base, name: "{}"}, {}, body
    for one in parameters:
        if one["in"] == "query" and takes_text(one["schema"]):
            yield f"query {one['name']}", base, {one["name"]: "{}"}, body
    for name, schema in properties(found).items():
        if takes_text(schema):
            yield f"body {name}", base, {}, {**(body or {}), name: "{}"}
        elif schema.get("type") == "array" or schema.get("anyOf", [{}])[0].get("type") == "array":
            item: Any = {NESTED[name]: "{}"} if name in NESTED else "{}"
            yield f"body {name}", base, {}, {**(body or {}), name: [item]}


async def snapshot(facade: Facade) -> bytes:
    """Everything that a tenant has, but for when its workers were last seen."""
    store, tenant = facade.store, facade.tenant
    runs = await store.list_runs(tenant)
    events = [await store.read_events(tenant, run.run) for run in runs]
    workflows = await store.list_workflows(tenant)
    letters = await store.list_dead_letters(tenant)
    waiting = await store.list_waiting(tenant, "approval")
    keys = await facade.keys.list()
    return msgspec.msgpack.encode([runs, events, workflows, letters, waiting, keys])


@pytest.mark.shows("U-19", "U-14")
async def test_ids_of_another_tenant_are_like_ids_that_nobody_has() -> None:
    store = MemoryStore()
    async with App(store) as app:
        theirs = await fill(app.for_tenant("theirs"), SECRET)
        one = await fill(app.for_tenant("one"), "mine")
        two = await fill(app.for_tenant("two"), "mine")
    async with App(store, worker=False) as app:
        api = Api(app, Access(is_required=True, recheck_s=1e9))
        their_worker = await Caller(api, theirs, {}).register()
        theirs.ids["worker"] = their_worker
        unknown = {name: unlike(value) for name, value in theirs.ids.items()}
        first, second = Caller(api, one, theirs.ids), Caller(api, two, unknown)
        for caller in (first, second):
            await caller.register()
        # Both have been used, so the keys are as they stay.
        before = await snapshot(app.for_tenant("theirs"))
        wrong: list[Any] = []
        sent = 0
        for method, path, found in calls():
            for place, parts, query, body in requests_of(method, path, found):
                for name in theirs.ids:
                    options = (method, path, parts, query, body, name)
                    mine, nobodys = await send(first, *options), await send(second, *options)
                    sent += 2
                    if is_different(first, mine, second, nobodys):
                        wrong.append((method, path, place, name, mine.text, nobodys.text))
                    if SECRET in mine.text.replace(theirs.ids[name], ""):
                        wrong.append((method, path, place, name, "shows a secret", mine.text))
            if await snapshot(app.for_tenant("theirs")) != before:
                wrong.append((method, path, "changed something"))
                before = await snapshot(app.for_tenant("theirs"))
        assert api.shared.remote.get(their_worker) is not None
        await api.close()

    assert wrong[:5] == []
    assert sent > 1_000


def unlike(value: str) -> str:
    """An id of the same shape that nobody has."""
    swap = str.maketrans("abcdef0123456789", "bcdefa1234567890")
    if "theirs" in value:
        return value.replace("theirs", "nobody")
    changed = re.sub(r"[0-9a-f]{8,}", lambda found: found[0].translate(swap), value)
    return changed if changed != value else f"{value[:-1]}{'x' if value[-1] != 'x' else 'y'}"


async def send(
    caller: Caller,
    method: str,
    path: str,
    parts: dict[str, str],
    query: dict[str, str],
    body: dict[str, Any] | None,
    name: str,
) -> httpx2.Response:
    value = caller.foreign[name]

    def filled(word: str) -> str:
        if word == "{}":
            return value
        return word.removeprefix("=") if word.startswith("=") else caller.own[word]

    for part, word in parts.items():
        for name_in_path in (f"{{{part}}}", f"{{{part}:path}}"):
            path = path.replace(name_in_path, quote(filled(word), safe=""))
    text = None if body is None else msgspec.json.encode(body).replace(b'"{}"', encoded(value))
    return await caller.call(
        method, path, params={name: filled(word) for name, word in query.items()}, content=text
    )


def encoded(value: str) -> bytes:
    return msgspec.json.encode(value)


def is_different(one: Caller, mine: httpx2.Response, two: Caller, nobodys: httpx2.Response) -> bool:
    if mine.status_code != nobodys.status_code:
        return True
    return mine.status_code >= 400 and one.masked(mine.text) != two.masked(nobodys.text)


async def test_a_stream_of_another_tenants_run_is_not_found() -> None:
    store = MemoryStore()
    async with App(store) as app:
        theirs = await fill(app.for_tenant("theirs"), SECRET)
        api = Api(app, Access(is_required=True))
        made = await app.for_tenant("other").keys.create("ada", ["admin"])
        caller = Caller(api, Owned(made.text, {}), {})
        path, headers = f"/runs/{theirs.ids['run_id']}/events", {"Accept": "text/event-stream"}
        answer = await caller.call("GET", path, headers=headers)

    assert (answer.status_code, answer.json()["code"]) == (404, "run-not-found")


async def test_events_of_another_tenant_are_in_no_feed() -> None:
    store = MemoryStore()
    async with App(store) as app:
        api = Api(app, Access(is_required=True))
        made = await app.for_tenant("other").keys.create("ada", ["viewer"])
        caller = Caller(api, Owned(made.text, {}), {})
        start = (await caller.call("GET", "/api/v1/events")).json()["next"]
        await fill(app.for_tenant("theirs"), SECRET)
        own = await app.for_tenant("other").start(DEPLOYED)
        await app.for_tenant("other").wait(own.id)
        page = await caller.call("GET", f"/api/v1/events?after={start}&wait_ms=5000")
        await api.close()

    assert {one["run_id"] for one in page.json()["items"]} == {own.id}


async def test_a_copy_of_a_tenant_has_nothing_of_another() -> None:
    store = MemoryStore()
    async with App(store) as app:
        theirs = await fill(app.for_tenant("theirs"), SECRET)
        api = Api(app, Access(is_required=True))
        made = await app.for_tenant("other").keys.create("ada", ["admin"])
        caller = Caller(api, Owned(made.text, {}), {})
        ids = theirs.ids
        paths = [
            *("changes", "runs", "workflows", "keys"),
            *(f"runs/{ids['run_id']}", f"runs/{ids['failed']}"),
            *(f"blob?ref={ids['ref']}", f"blob?ref={ids['ref']}&run={ids['run_id']}"),
        ]
        answers = [await caller.call("GET", f"/api/v1/replica/{path}") for path in paths]
        await api.close()

    assert [one.status_code for one in answers] == [200] * 4 + [404] * 4
    for answer in answers[:4]:
        assert not [word for word in (SECRET, *ids.values()) if word.encode() in answer.content]
