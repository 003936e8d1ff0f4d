"""What a client does when the network or a server fails."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import minuet
from minuet.api.access import Access
from minuet.api.errors import (
    ReadOnlyError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnknownHostError,
)
from minuet.api.front import Limits
from minuet.client import transport
from minuet.client.client import AsyncClient, Client
from minuet.client.problems import classes, error_of
from minuet.errors import ConfigError, MinuetError, ServerUnavailableError, StoreUnavailableError
from minuet.events import NodeWaiting
from minuet.outcomes import OUTCOMES

from ..api.conftest import open_site
from .lossy import lossy

NOOP = {"name": "short", "nodes": [{"id": "only", "type": "noop"}]}
SIGNAL = {
    "name": "waiting",
    "nodes": [
        {"id": "paid", "type": "wait", "config": {"signal": "paid"}},
        {"id": "sent", "type": "wait", "config": {"signal": "sent"}, "dependencies": ["paid"]},
    ],
}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(transport, "LAST_PAUSE_S", 0.0)


async def test_a_start_whose_answer_is_lost_is_repeated_and_makes_one_run() -> None:
    async with open_site(worker=False) as site, lossy(site.url) as network:
        async with AsyncClient(network.url) as client:
            network.lose = 2
            run = await client.start(NOOP)
            network.lose = 1
            many = await client.start_many(NOOP, [1, 2, 3])

        rows = await site.app.runs.list()
        assert {row.run for row in rows} == {run.id, *(one.id for one in many)}
        assert network.lose == 0


async def test_a_signal_whose_answer_is_lost_is_received_once() -> None:
    async with open_site() as site, lossy(site.url) as network, AsyncClient(network.url) as client:
        run = await client.start(SIGNAL)
        network.lose = 1
        await client.signal(run, "paid", 7)
        await client.signal(run, "sent", 8)
        result = await run.result(timeout=60)
        types = [event["type"] for event in await run.events()]

    assert (result.nodes["paid"].output, result.nodes["sent"].output) == (7, 8)
    assert types.count("signal.received") == 2


async def test_a_change_that_may_have_been_made_is_not_repeated() -> None:
    async with (
        open_site(worker=False) as site,
        lossy(site.url) as network,
        AsyncClient(network.url) as client,
    ):
        run = await client.start(NOOP)
        network.lose = 1
        with pytest.raises(ServerUnavailableError, match="it is not known") as caught:
            await client.cancel(run)
        row = await run.get()

    assert caught.value.is_sent
    assert isinstance(caught.value, StoreUnavailableError)
    assert row.status == "CANCELLED"


async def test_the_next_server_is_used_when_one_cannot_be_reached() -> None:
    async with (
        open_site(worker=False) as site,
        AsyncClient(["http://127.0.0.1:1", site.url]) as client,
    ):
        run = await client.start(NOOP)
        # Not only questions: nothing has reached the first one.
        await client.cancel(run)

        assert client.url == site.url
    async with AsyncClient("http://127.0.0.1:1", retries=1) as client:
        with pytest.raises(ServerUnavailableError, match="cannot be reached") as caught:
            await client.cancel("some")
    assert not caught.value.is_sent


async def test_a_replica_answers_questions_and_changes_go_to_the_next_server() -> None:
    replica = Access(read_only=True)
    async with (
        open_site(worker=False, access=replica) as reading,
        open_site(worker=False) as writing,
        AsyncClient([reading.url, writing.url]) as client,
    ):
        await client.runs.list()
        asked = client.url
        run = await client.start(NOOP)

        assert asked == reading.url
        assert client.url == writing.url
        assert (await run.get()).run == run
    async with open_site(worker=False, access=replica) as only, AsyncClient(only.url) as client:
        with pytest.raises(ReadOnlyError):
            await client.start(NOOP)


async def test_a_stream_that_breaks_is_continued_without_a_gap() -> None:
    async with open_site() as site, lossy(site.url) as network, AsyncClient(network.url) as client:
        run = await client.start(SIGNAL)
        seen = []
        # Each connection breaks within an event.
        network.cut_after = 1_500
        async for seq, _, _ in client.follow(run):
            seen.append(seq)
            if seq in (3, 5):
                await site.app.signal(run, "paid" if seq == 3 else "sent")
            if network.connections > 20:
                network.cut_after = None
        whole = await site.app.runs.history(run.id)

    assert seen == [seq for seq, _, _ in whole]
    assert network.connections > 3


async def test_a_watcher_leaves_a_server_that_stops_for_the_next_one_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    # A watcher that waited, or came back to a server that still answers, would be seen.
    monkeypatch.setattr(transport, "STREAM_SILENCE_S", 600.0)
    async with (
        open_site(store) as first,
        open_site(store) as second,
        lossy(first.url) as network,
        AsyncClient([network.url, second.url], retries=0) as client,
    ):
        run = await client.start(SIGNAL)
        seen = []
        async for seq, _, event in client.follow(run):
            seen.append(seq)
            if isinstance(event, NodeWaiting) and event.node == "paid":
                before = network.connections
                first.api.begin_closing()
                await second.app.signal(run, "paid")
                await second.app.signal(run, "sent")
        whole = await second.app.runs.history(run.id)

        assert seen == [seq for seq, _, _ in whole]
        assert client.url == second.url
        assert network.connections == before


async def test_a_server_that_is_busy_is_asked_again() -> None:
    async with (
        open_site(worker=False, limits=Limits(per_second=2)) as site,
        AsyncClient(site.url, retries=0) as impatient,
        AsyncClient(site.url, retries=1_000) as patient,
    ):
        with pytest.raises(TooManyRequestsError):
            await asyncio.gather(*(impatient.runs.list() for _ in range(10)))
        assert await patient.runs.list() == []


@pytest.mark.parametrize(("key", "error"), [("wrong", UnauthenticatedError), ("k1", None)])
async def test_the_key_is_sent(
    key: str, error: type[MinuetError] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINUET_API_KEY", key)
    async with open_site(worker=False, access=Access(key="k1")) as site:
        monkeypatch.setenv("MINUET_URL", site.url)
        async with AsyncClient() as client, AsyncClient(api_key="k1") as other:
            if error is None:
                assert await client.runs.list() == []
            else:
                with pytest.raises(error):
                    await client.runs.list()
            assert await other.runs.list() == []


async def test_a_server_that_is_another_one_says_so() -> None:
    access = Access(hosts=frozenset({"x"}))
    async with open_site(worker=False, access=access) as site, AsyncClient(site.url) as client:
        with pytest.raises(UnknownHostError):
            await client.runs.list()


@pytest.mark.parametrize("url", ["", " , ", "127.0.0.1:7800", "http://a:b@c", "http://c?d", "x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        AsyncClient(url)


def test_without_an_event_loop_it_is_the_same() -> None:
    import threading

    ready, done = threading.Event(), threading.Event()
    url = []

    async def serve() -> None:
        async with open_site() as site:
            url.append(site.url)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    ready.wait(60)
    try:
        with Client(url[0]) as client:
            result = client.run(NOOP, timeout=60)
            run = client.start(SIGNAL)
            types = []
            for _, _, event in run.follow():
                types.append(type(event).__name__)
                if types[-1] == "NodeWaiting":
                    break
            assert run.cancel().status == "CANCELLED"
            assert [one.run for one in client.runs.list()] == [run.id, result.run_id]
            assert result.status == "COMPLETED"
            with pytest.raises(minuet.RunNotFoundError):
                client.runs.get("nothing")
    finally:
        done.set()
        thread.join()
    with pytest.raises(minuet.NotOpenError, match="this Client is closed"):
        client.runs.list()


def test_every_code_stands_for_one_exception() -> None:
    codes = classes()

    for kind in OUTCOMES:
        if issubclass(kind, MinuetError) and "code" in vars(kind):
            assert codes[kind.code] is kind
    made = error_of(418, b'{"code": "later", "detail": "from a newer server"}')
    assert (type(made), made.code, str(made)) == (MinuetError, "later", "from a newer server")
    assert "502: bad gateway" in str(error_of(502, b"bad gateway"))
