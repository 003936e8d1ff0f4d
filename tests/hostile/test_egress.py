"""Attempts to reach what must not be reached: a real listener counts what gets through."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from minuet.errors import ConfigError, EgressError, ServiceError
from minuet.nodes.io.client import Client, Request
from minuet.nodes.io.egress import Egress, kind_of, read_address, read_rules, resolve

from ..models import one_after_another, says, wants
from ..scenario.harness import node, open_scene, workflow
from ..services import Asked, Service, open_service, reply

#: Spellings of 127.0.0.1 that systems accept.
LOOPBACK_4 = (
    *("127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001", "017700000001"),
    *("0x7f.1", "0x7f.0.0.1", "0X7F.1", "0177.1", "127.0.0.0x1", "0x7f.0x0.0x0.0x1"),
    *("localhost", "localhost.", "LOCALHOST", "LocalHost."),
)

#: Hosts that are addresses, and what the guard must say about them.
ADDRESSES = {
    **dict.fromkeys(LOOPBACK_4, "loopback"),
    "127.255.255.254": "loopback",
    "0.0.0.0": "unspecified",
    "0": "unspecified",
    "0.1.2.3": "unspecified",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "0xc0a80101": "private",
    "100.64.0.1": "shared",
    "169.254.1.1": "link-local",
    "169.254.169.254": "cloud metadata",
    "0xa9fea9fe": "cloud metadata",
    "2852039166": "cloud metadata",
    "169.254.170.2": "cloud metadata",
    "100.100.100.200": "cloud metadata",
    "168.63.129.16": "cloud metadata",
    "192.0.0.192": "cloud metadata",
    "192.0.2.1": "reserved",
    "198.18.0.1": "reserved",
    "224.0.0.1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "[::1]": "loopback",
    "[0:0:0:0:0:0:0:1]": "loopback",
    "[::]": "unspecified",
    "[::ffff:127.0.0.1]": "loopback",
    "[::ffff:7f00:1]": "loopback",
    "[0:0:0:0:0:ffff:127.0.0.1]": "loopback",
    "[::ffff:169.254.169.254]": "cloud metadata",
    "[::127.0.0.1]": "reserved",
    "[64:ff9b::127.0.0.1]": "translated",
    "[64:ff9b::a9fe:a9fe]": "translated",
    "[64:ff9b:1::7f00:1]": "reserved",
    "[2002:7f00:1::]": "tunnel",
    "[2002:a9fe:a9fe::1]": "tunnel",
    "[2001:0:7f00:1::]": "reserved",
    "[2600::5efe:7f00:1]": "tunnel",
    "[2600::200:5efe:7f00:1]": "tunnel",
    "[fc00::1]": "private",
    "[fd00::1]": "private",
    "[fd00:ec2::254]": "cloud metadata",
    "[fd20:ce::254]": "cloud metadata",
    "[fe80::1]": "link-local",
    "[fec0::1]": "reserved",
    "[ff02::1]": "multicast",
    "[100::1]": "reserved",
    "[2001:db8::1]": "reserved",
    "[5f00::1]": "reserved",
}

#: URLs that are refused for how they are written, and the code that says so.
SPELLINGS = {
    "http://user@127.0.0.1:{port}/": "invalid-url",
    "http://user:password@127.0.0.1:{port}/": "invalid-url",
    "http://example.com@127.0.0.1:{port}/": "invalid-url",
    "http://example.com:80@127.0.0.1:{port}/": "invalid-url",
    "http://example.com\\@127.0.0.1:{port}/": "invalid-url",
    "http://127.0.0.1:{port}\\@example.com/": "invalid-url",
    "http:\\\\127.0.0.1:{port}/": "invalid-url",
    "http://127.0.0.1:{port}#@example.com/": "egress-refused",
    "http://127.0.0.1:{port}?@example.com/": "egress-refused",
    "http://127.0.0.1:{port}/\r\nHost: example.com": "invalid-url",
    "http://127.0.0.1\r\n:{port}/": "invalid-url",
    "http://127.0.0.1\t:{port}/": "invalid-url",
    " http://127.0.0.1:{port}/": "invalid-url",
    "http://[fe80::1%25lo]:{port}/": "invalid-url",
    "http://[::1%lo]:{port}/": "invalid-url",
    "http://127.0.0.1%00.example.com:{port}/": "invalid-url",
    "http://127。0。0。1:{port}/": "egress-refused",
    "http://0177.0.0.1:{port}/": "invalid-url",
    "http://00000177.0.0.01:{port}/": "invalid-url",
    "http://256.0.0.1:{port}/": "invalid-url",
    "http://１２７.0.0.1:{port}/": "invalid-url",
    "http://①②⑦.⓪.⓪.①:{port}/": "invalid-url",
    "http:127.0.0.1:{port}/": "invalid-url",
    "http:///127.0.0.1:{port}/": "invalid-url",
    "//127.0.0.1:{port}/": "invalid-url",
    "127.0.0.1:{port}": "invalid-url",
    "file:///etc/passwd": "invalid-url",
    "ftp://127.0.0.1:{port}/": "invalid-url",
    "gopher://127.0.0.1:{port}/_x": "invalid-url",
    "ws://127.0.0.1:{port}/": "invalid-url",
    "unix:///run/docker.sock": "invalid-url",
    "http+unix://%2Frun%2Fdocker.sock/": "invalid-url",
    "data:text/plain,hello": "invalid-url",
    "http://127.0.0.1:0/": "invalid-url",
    "http://127.0.0.1:70000/": "invalid-url",
    "": "invalid-url",
}


@pytest.fixture
async def listener() -> AsyncIterator[Service]:
    """Listens where nothing may connect to."""
    async with open_service() as made:
        yield made


async def call(client: Client, url: str, **fields: Any) -> Any:
    try:
        async with client.send(Request(method="GET", url=url, **fields)) as answer:
            return await answer.read(1000)
    finally:
        await client.close()


def resolving(answers: dict[str, Sequence[str]]) -> Any:
    """A resolver that knows these names, and all addresses."""

    async def find(host: str, port: int) -> Sequence[str]:
        return answers.get(host.rstrip("."), [host])

    return find


async def resolve_like_most(host: str, port: int) -> Sequence[str]:
    """The system's resolver; a dot at the end, with which some do not find what is local, is
    taken for what it means."""
    return await resolve(host.rstrip("."), port)


@pytest.mark.parametrize("host", ADDRESSES)
async def test_no_spelling_of_an_address_gets_through(listener: Service, host: str) -> None:
    with pytest.raises(EgressError) as caught:
        await call(Client(resolver=resolve_like_most), f"http://{host}:{listener.port}/")

    assert (caught.value.kind, listener.connections) == (ADDRESSES[host], 0)


@pytest.mark.parametrize("host", LOOPBACK_4)
async def test_the_same_spellings_reach_the_listener_where_it_may_be_reached(
    listener: Service, host: str
) -> None:
    client = Client(Egress(private=True), resolver=resolve_like_most)

    await call(client, f"http://{host}:{listener.port}/")

    assert listener.connections == 1


@pytest.mark.parametrize("url", SPELLINGS)
async def test_no_trick_with_a_url_gets_through(listener: Service, url: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await call(Client(), url.replace("{port}", str(listener.port)))

    assert (caught.value.code, listener.connections) == (SPELLINGS[url], 0)


async def test_no_address_and_no_trick_of_a_model_gets_through(listener: Service) -> None:
    """The same through the tool of an agent: the model names the URL."""
    # The listener must not be reached; the model's own service may be.
    tricks = [*(f"http://{host}:{{port}}/" for host in ADDRESSES), *SPELLINGS]
    urls = [url.replace("{port}", str(listener.port)) for url in tricks]
    async with open_service() as model:
        parts = [urls[at : at + 30] for at in range(0, len(urls), 30)]
        model.answer = one_after_another(
            *(wants(*(("http_request", {"url": url}) for url in part)) for part in parts),
            says("ok"),
        )
        asked = {"model": "m", "prompt": "p", "available_tools": ["http_request"]}
        agent = node("ag", type="agent", agent_config=asked, config={"base_url": model.url})
        allowed = [f"127.0.0.1:{model.port}"]
        async with open_scene("memory://", egress_allow=allowed, egress_private=False) as s:
            result = await s.run(workflow(agent))

    calls = result.nodes["ag"].output["tool_calls"]
    assert (len(calls), listener.connections) == (len(urls), 0)
    assert all("error" in call for call in calls)


@pytest.mark.parametrize(
    "addresses",
    [
        ("127.0.0.1",),
        ("10.0.0.1",),
        ("::1",),
        ("::ffff:127.0.0.1",),
        ("93.184.216.34", "127.0.0.1"),
        ("127.0.0.1", "93.184.216.34"),
        ("169.254.169.254",),
    ],
)
async def test_a_name_is_refused_if_any_of_its_addresses_is(
    listener: Service, addresses: Sequence[str]
) -> None:
    client = Client(resolver=resolving({"friendly.example": addresses}))

    with pytest.raises(EgressError):
        await call(client, f"http://friendly.example:{listener.port}/")
    assert listener.connections == 0


async def test_a_name_that_changes_its_address_after_the_check_changes_nothing(
    listener: Service,
) -> None:
    # The first answer may be reached, and every later one is the listener.
    answers = iter([["127.0.0.2"], ["127.0.0.1"], ["127.0.0.1"]])
    asked = []

    async def rebind(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return next(answers)

    client = Client(Egress(allow=read_rules(["127.0.0.2"])), resolver=rebind)

    # Nothing listens at 127.0.0.2.
    with pytest.raises(ServiceError, match="could not be called"):
        await call(client, f"http://friendly.example:{listener.port}/")
    with pytest.raises(EgressError):
        await call(client, f"http://friendly.example:{listener.port}/")
    assert (asked, listener.connections) == (["friendly.example"] * 2, 0)


async def test_the_checked_address_is_called_under_the_name_that_was_asked_for(
    listener: Service,
) -> None:
    client = Client(
        Egress(allow=read_rules(["friendly.example"])),
        resolver=resolving({"friendly.example": ["127.0.0.1"]}),
    )

    await call(client, f"http://Friendly.example.:{listener.port}/")

    assert listener.asked[0].headers["host"] == f"friendly.example.:{listener.port}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost.:{port}/",
        "http://0x7f.1:{port}/",
        "http://[::1]:{port}/",
        "//127.0.0.1:{port}/",
        "http://inside.example:{port}/",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
async def test_a_redirect_is_checked_as_the_first_call_is(
    listener: Service, status: int, target: str
) -> None:
    location = target.replace("{port}", str(listener.port))
    async with open_service() as first:
        first.answer = lambda asked: reply(b"", status, {"Location": location})
        client = Client(
            Egress(allow=read_rules([f"127.0.0.1:{first.port}"])),
            resolver=resolving(
                {
                    "inside.example": ["127.0.0.1"],
                    "localhost": ["127.0.0.1"],
                    "0x7f.1": ["127.0.0.1"],
                }
            ),
        )
        with pytest.raises(EgressError):
            await call(client, first.url)

    assert (first.connections, listener.connections) == (1, 0)


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://127.0.0.1/", "gopher://x/", "http://a:b@x/"]
)
async def test_a_redirect_to_another_scheme_is_refused(listener: Service, target: str) -> None:
    listener.answer = lambda asked: reply(b"", 302, {"Location": target})

    with pytest.raises(ServiceError) as caught:
        await call(Client(Egress(private=True)), listener.url)
    assert caught.value.code == "invalid-redirect"


async def test_credentials_do_not_follow_a_redirect_to_another_origin(listener: Service) -> None:
    sent = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/x"}
    async with open_service() as first:

        def answer(asked: Asked) -> bytes:
            there = f"{first.url}/b" if asked.target == "/a" else f"{listener.url}/c"
            return reply(b"", 307, {"Location": there})

        first.answer = answer
        await call(Client(Egress(private=True)), f"{first.url}/a", headers=sent)

    names = {name.lower() for name in sent}
    assert [names & asked.headers.keys() for asked in first.asked] == [names, names]
    assert names & listener.asked[0].headers.keys() == {"accept"}


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
async def test_proxies_of_the_environment_are_not_used(
    listener: Service, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, listener.url)
    async with open_service() as service:
        await call(Client(Egress(private=True)), service.url)

    assert (service.connections, listener.connections) == (1, 0)


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nHost: b"},
        {"X": "a\nb"},
        {"X": "a\0b"},
        {"X\r\nY": "a"},
        {"X: a": "b"},
        {"": "a"},
        {"Host": "inside"},
        {"Content-Length": "0"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "Upgrade"},
        {"X": "snowman ☃"},
    ],
)
async def test_headers_cannot_change_what_a_request_is(
    listener: Service, headers: dict[str, str]
) -> None:
    with pytest.raises(ServiceError) as caught:
        await call(Client(Egress(private=True)), listener.url, headers=headers)

    assert (caught.value.code, listener.asked) == ("invalid-header", [])


# ── what is listed ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("entry", "host", "address", "port", "permitted"),
    [
        ("db.internal", "db.internal", "10.0.0.1", 80, True),
        ("db.internal", "DB.internal.", "10.0.0.1", 80, True),
        ("db.internal", "xdb.internal", "10.0.0.1", 80, False),
        ("db.internal:5000", "db.internal", "10.0.0.1", 5000, True),
        ("db.internal:5000", "db.internal", "10.0.0.1", 80, False),
        ("*.internal", "db.internal", "10.0.0.1", 80, True),
        ("*.internal", "internal", "10.0.0.1", 80, False),
        ("*.internal", "evilinternal", "10.0.0.1", 80, False),
        ("10.0.0.0/8", "any.example", "10.9.9.9", 80, True),
        ("10.0.0.0/8", "any.example", "11.0.0.1", 80, True),
        ("10.0.0.0/8", "any.example", "192.168.0.1", 80, False),
        ("::1", "localhost", "::1", 80, True),
        ("[::1]:80", "localhost", "::1", 81, False),
        ("127.0.0.1", "x", "::ffff:127.0.0.1", 80, True),
        ("169.254.169.254", "x", "169.254.169.254", 80, True),
        ("169.254.0.0/16", "x", "169.254.169.254", 80, False),
        ("0.0.0.0/0", "x", "169.254.169.254", 80, False),
        ("metadata.internal", "metadata.internal", "169.254.169.254", 80, False),
    ],
)
def test_a_list_permits_what_it_names(
    entry: str, host: str, address: str, port: int, permitted: bool
) -> None:
    egress = Egress(allow=read_rules([entry]))

    try:
        egress.check(host, port, [address])
    except EgressError:
        assert not permitted
    else:
        assert permitted


@pytest.mark.parametrize("address", ["169.254.169.254", "169.254.1.1", "100.64.0.1", "0.0.0.0"])
def test_private_is_not_everything(address: str) -> None:
    with pytest.raises(EgressError):
        Egress(private=True).check("x", 80, [address])


@pytest.mark.parametrize("entry", ["", "http://x", "10.0.0.0/99", "a b", "*", "2130706433", "x:0"])
def test_an_entry_that_means_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ConfigError, match="is not a host, an address or a network"):
        read_rules([entry])


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:2800::1", "64:ff9b::808:808"]
)
def test_the_public_internet_is_open(address: str) -> None:
    assert kind_of(read_address(address)) == ""
    assert Egress().check("example.com", 443, [address]) == [address]


def test_the_system_takes_old_spellings_for_addresses() -> None:
    # Otherwise the corpus above would show nothing.
    found = socket.getaddrinfo("0x7f.1", 80, type=socket.SOCK_STREAM)

    assert found[0][4][0] == "127.0.0.1"
