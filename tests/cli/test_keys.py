"""`minuet keys`: create, list and revoke API keys."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from minuet.api.access import Access
from minuet.app.app import App
from minuet.app.audit import AuditWriter
from minuet.app.keys import KeyCells
from minuet.app.roles import ROLES as KNOWN
from minuet.cli.key_arguments import ROLES

from ..api.conftest import open_site


def test_the_command_line_offers_all_roles() -> None:
    assert ROLES == KNOWN


@pytest.mark.shows("U-14")
def test_a_key_is_shown_once_and_stored_as_a_hash(minuet: Any) -> None:
    made = minuet("keys", "create", "ada", "--role", "viewer", "--role", "approver", "--json")
    key = made.json["key"]
    listed = minuet("keys", "list", "--json").json

    async def stored() -> bytes:
        async with App(worker=False) as app:
            found = await KeyCells.of(app).read(made.json["id"])
            assert found is not None
            return found.data

    assert key.startswith(f"mnt_{made.json['id']}_")
    assert made.json["roles"] == ["viewer", "approver"]
    assert [one["id"] for one in listed] == [made.json["id"]]
    assert "key" not in listed[0]
    assert key.rpartition("_")[2] not in minuet("keys", "list").out
    assert key.rpartition("_")[2].encode() not in asyncio.run(stored())


def test_a_key_is_revoked_by_its_id(minuet: Any) -> None:
    made = minuet("keys", "create", "ada", "--role", "viewer", "--expires", "1d", "--json").json
    before = minuet("keys", "list").out
    revoked = minuet("keys", "revoke", made["id"], "--json").json
    again = minuet("keys", "revoke", made["key"], "--json").json

    assert "valid" in before
    assert revoked["revoked_at"] is not None
    assert again == revoked
    assert "revoked" in minuet("keys", "list").out


def test_a_key_of_another_tenant_is_not_there(minuet: Any) -> None:
    made = minuet("keys", "create", "ada", "--role", "admin", "--tenant", "shop", "--json").json
    refused = minuet("keys", "revoke", made["id"])

    assert made["tenant"] == "shop"
    assert (refused.code, refused.out) == (2, "")
    assert minuet("keys", "list").out.startswith("There are no API keys")
    assert minuet("keys", "list", "--tenant", "shop", "--json").json[0]["revoked_at"] is None


@pytest.mark.parametrize("words", [("--role", "king"), (), ("--role", "viewer", "--expires", "x")])
def test_wrong_words_are_refused(minuet: Any, words: tuple[str, ...]) -> None:
    assert minuet("keys", "create", "ada", *words).code == 2


def test_a_key_in_memory_would_help_nobody(minuet: Any) -> None:
    refused = minuet("keys", "create", "ada", "--role", "viewer", "--store", "memory://")

    assert refused.code == 2
    assert "memory://" in refused.err


def test_the_audit_log_lists_who_has_changed_what(
    minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    async def change() -> None:
        async with App(worker=False) as app:
            writer = AuditWriter(app)
            entry = await writer.begin(
                by="ada",
                shown="key:x",
                address="10.0.0.7",
                action="POST /runs/{run_id}/cancel",
                path="/api/v1/runs/7/cancel",
            )
            await writer.end(entry, 409)

    minuet("keys", "create", "ada", "--role", "admin")
    nothing = minuet("audit").out
    asyncio.run(change())
    shown = minuet("audit").out

    assert nothing == "Nothing was changed over HTTP.\n"
    for word in ("ada", "10.0.0.7", "409", "POST /api/v1/runs/7/cancel"):
        assert word in shown
    assert minuet("audit", "--json").json[0]["credential"] == "key:x"


def test_keys_of_a_server_are_managed_over_http(minuet: Any) -> None:
    with served() as (url, admin):
        place = ("--url", url)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MINUET_API_KEY", admin)
            made = minuet("keys", "create", "bob", "--role", "viewer", "--json", *place).json
            listed = minuet("keys", "list", "--json", *place).json
            revoked = minuet("keys", "revoke", made["id"], "--json", *place).json
            logged = minuet("audit", "--json", *place).json

    assert (made["tenant"], made["created_by"]) == ("shop", "ada")
    assert {one["name"] for one in listed} == {"ada", "bob"}
    assert revoked["revoked_at"] is not None
    assert [one["by"] for one in logged] == ["ada", "ada"]


@contextlib.contextmanager
def served() -> Iterator[tuple[str, str]]:
    """A server in a thread of its own; its address, and the key of an admin of the tenant shop."""
    ready: SimpleQueue[Any] = SimpleQueue()

    async def serve() -> None:
        stop = asyncio.Event()
        async with open_site(worker=False, access=Access(is_required=True)) as site:
            key = await site.app.for_tenant("shop").keys.create("ada", ["admin"])
            ready.put((site.url, key.text, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    url, key, loop, stop = ready.get(timeout=60)
    try:
        yield url, key
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
