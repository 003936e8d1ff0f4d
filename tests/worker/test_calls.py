"""What an http node makes of what a service does, against a real server and without a store."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from minuet.errors import ConfigError, ServiceError, ServiceRefusedError, ServiceUnavailableError
from minuet.nodes.io.answers import RETRY_AFTER_S_MAX, read_statuses, retry_after_s
from minuet.nodes.io.client import Client, Request
from minuet.nodes.io.egress import Egress
from minuet.nodes.io.http import request
from minuet.worker.failure import describe

from ..certificates import Authority
from ..services import Asked, Service, open_service, reply, silence


class Calling:
    """What `request` needs of a context."""

    idempotency_key = "the-key"
    max_output_bytes: int | None = None

    def __init__(self, client: Client) -> None:
        self.client = client


Call = Callable[..., Awaitable[Any]]


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    async with open_service() as made:
        yield made


@pytest.fixture
async def call(service: Service) -> AsyncIterator[Call]:
    """Call the service: `await call("/path", method=…, …)`."""
    client = Client(Egress(private=True))

    async def made(path: str = "/", *, bytes_max: int | None = None, **config: Any) -> Any:
        context = Calling(client)
        context.max_output_bytes = bytes_max
        return await request({"url": f"{service.url}{path}", **config}, context)  # type: ignore[arg-type]

    yield made
    await client.close()


# ── what is sent ────────────────────────────────────────────────────────────────────────────


async def test_a_request_has_what_the_config_says(service: Service, call: Call) -> None:
    await call(
        "/a b?x=1",
        method="PUT",
        headers={"X-Number": 3, "X-Flag": True},
        params={"y": [1, "zwei"], "z": "a&b", "none": None, "t": False},
        json={"n": 1.5, "text": "ä"},
    )

    (asked,) = service.asked
    assert (asked.method, asked.target) == ("PUT", "/a%20b?x=1&y=1&y=zwei&z=a%26b&t=false")
    assert (asked.headers["x-number"], asked.headers["x-flag"]) == ("3", "true")
    assert asked.json == {"n": 1.5, "text": "ä"}
    assert asked.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("config", "method", "body", "kind"),
    [
        ({}, "GET", b"", None),
        ({"json": None}, "POST", b"null", "application/json"),
        ({"body": "hi"}, "POST", b"hi", "text/plain; charset=utf-8"),
        ({"body": {"base64": "AAE="}}, "POST", b"\0\1", "application/octet-stream"),
        ({"body": "a=b", "headers": {"Content-Type": "x/y"}}, "POST", b"a=b", "x/y"),
        ({"method": "DELETE"}, "DELETE", b"", None),
    ],
)
async def test_a_body_comes_with_its_type(
    service: Service, call: Call, config: Any, method: str, body: bytes, kind: str | None
) -> None:
    await call(**config)

    (asked,) = service.asked
    assert (asked.method, asked.body, asked.headers.get("content-type")) == (method, body, kind)


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"method": "GET"}, None),
        ({"method": "HEAD"}, None),
        ({"method": "POST"}, "the-key"),
        ({"method": "DELETE"}, "the-key"),
        ({"method": "POST", "headers": {"IDEMPOTENCY-KEY": "mine"}}, "mine"),
    ],
)
async def test_methods_that_change_something_carry_the_idempotency_key(
    service: Service, call: Call, config: Any, key: str | None
) -> None:
    await call(**config)

    assert service.asked[0].headers.get("idempotency-key") == key


async def test_calls_share_connections_and_nothing_else(service: Service, call: Call) -> None:
    service.answer = lambda asked: reply("ok", headers={"Set-Cookie": "session=1"})

    await call()
    await call()

    assert (service.connections, len(service.asked)) == (1, 2)
    assert "cookie" not in service.asked[1].headers


@pytest.mark.parametrize(
    "config",
    [
        {"method": "TRACE"},
        {"headers": {"X": [1]}},
        {"json": 1, "body": "x"},
        {"expect_status": "6xx"},
        {"expect_status": []},
        {"timeout_seconds": 0},
        {"body": {"base64": "***"}},
        {"expect_status": "299-200"},
        {"colour": "red"},
    ],
)
async def test_a_rendered_config_that_is_wrong_is_a_final_error(
    service: Service, call: Call, config: Any
) -> None:
    with pytest.raises(ServiceRefusedError) as caught:
        await call(**config)

    assert (caught.value.code, service.asked) == ("invalid-config", [])


# ── what comes back ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [
        (b'{"a": [1, 2.5, null]}', "application/json", {"a": [1, 2.5, None]}),
        (b'{"title": "x"}', "application/problem+json; charset=utf-8", {"title": "x"}),
        ("grün".encode(), "text/plain", "grün"),
        ("grün".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grün"),
        (b"x", 'text/plain; charset="no-such"', "x"),
        (b"<a/>", "application/xml", "<a/>"),
        (b"plain", "", "plain"),
        (b"\xff\0", "", {"base64": "/wA=", "content_type": "", "size": 2}),
        (b"\x89PNG", "image/png", {"base64": "iVBORw==", "content_type": "image/png", "size": 4}),
        (b"", "application/json", None),
    ],
)
async def test_a_body_becomes_json(
    service: Service, call: Call, body: bytes, kind: str, value: Any
) -> None:
    service.answer = lambda asked: reply(body, kind=kind)

    assert (await call())["body"] == value


async def test_headers_come_in_lower_case(service: Service, call: Call) -> None:
    service.answer = lambda asked: reply({}, 201, {"X-Request-Id": "7"})

    found = await call()

    assert (found["status"], found["headers"]["x-request-id"]) == (201, "7")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
async def test_a_compressed_body_is_decompressed(
    service: Service, call: Call, encoding: str
) -> None:
    text = json.dumps(["hello"] * 50_000).encode()
    packed = {
        "gzip": gzip.compress(text),
        "deflate": zlib.compress(text),
        "raw deflate": _raw_deflate(text),
    }[encoding]
    named = {"Content-Encoding": encoding.split()[-1], "Content-Type": "application/json"}
    service.answer = lambda asked: reply(packed, headers=named)

    assert (await call())["body"] == ["hello"] * 50_000


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


async def test_a_small_body_that_becomes_a_large_one_is_refused(
    service: Service, call: Call
) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    service.answer = lambda asked: reply(bomb, headers={"Content-Encoding": "gzip"})

    with pytest.raises(ServiceRefusedError) as caught:
        await call(bytes_max=100_000)

    assert len(bomb) < 100_000
    assert caught.value.code == "answer-too-large"


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        (
            reply(b"nonsense", headers={"Content-Encoding": "gzip"}),
            ServiceRefusedError,
            "invalid-answer",
        ),
        (reply(b"{", kind="application/json"), ServiceRefusedError, "invalid-answer"),
        (
            reply(gzip.compress(b"x" * 1000, mtime=0)[:-20], headers={"Content-Encoding": "gzip"}),
            ServiceUnavailableError,
            "answer-cut",
        ),
        (b"nonsense\r\n\r\n", ServiceUnavailableError, "service-unreachable"),
    ],
)
async def test_an_answer_that_is_not_what_it_claims_is_an_error(
    service: Service, call: Call, script: bytes, kind: type[ServiceError], code: str
) -> None:
    service.answer = lambda asked: script

    with pytest.raises(kind) as caught:
        await call()

    assert caught.value.code == code


@pytest.mark.shows("J-06")
async def test_a_connection_that_breaks_is_tried_again(service: Service, call: Call) -> None:
    async def break_off(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        await writer.drain()

    service.answer = lambda asked: break_off

    with pytest.raises(ServiceUnavailableError) as caught:
        await call()
    assert caught.value.code == "service-unreachable"


@pytest.mark.shows("J-06")
async def test_a_service_that_is_not_there_is_tried_again(service: Service) -> None:
    async with open_service() as gone:
        pass
    client = Client(Egress(private=True))

    with pytest.raises(ServiceUnavailableError) as caught:
        async with client.send(Request(method="GET", url=gone.url)):
            pass
    await client.close()
    assert caught.value.code == "service-unreachable"


async def test_a_silent_service_is_given_up(
    service: Service, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answer = lambda asked: silence
    client = Client(Egress(private=True))

    with pytest.raises(ServiceUnavailableError) as caught:
        async with client.send(Request(method="GET", url=service.url, silence_s=0.05)):
            pass
    await service.left.wait()
    await client.close()
    assert caught.value.code == "service-timeout"


async def test_a_service_that_drips_is_given_up_when_the_whole_time_is_over(
    service: Service, call: Call
) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    service.answer = lambda asked: drip

    with pytest.raises(ServiceUnavailableError) as caught:
        await call(timeout_seconds=0.2)
    await service.left.wait()
    assert caught.value.code == "service-timeout"


# ── statuses ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.shows("J-06")
@pytest.mark.parametrize("status", [408, 425, 429, 500, 501, 502, 503, 504, 599])
async def test_these_statuses_may_pass(service: Service, call: Call, status: int) -> None:
    service.answer = lambda asked: reply(b"busy", status, {"Retry-After": "7"})

    with pytest.raises(ServiceUnavailableError) as caught:
        await call("/a?key=secret")

    error = caught.value
    assert (error.code, error.after) == (f"http-{status}", 7)
    assert error.details == {"status": status, "url": f"{service.url}/a?key=***", "body": "busy"}


@pytest.mark.parametrize("status", [304, 400, 401, 403, 404, 409, 410, 422, 451])
async def test_other_statuses_are_final(service: Service, call: Call, status: int) -> None:
    service.answer = lambda asked: reply(b"", status)

    with pytest.raises(ServiceRefusedError) as caught:
        await call()
    assert caught.value.code == f"http-{status}"


@pytest.mark.parametrize(
    ("expected", "status", "is_success"),
    [
        (404, 404, True),
        (404, 200, False),
        ("4xx", 404, True),
        (["2xx", 404], 404, True),
        (["2xx", "409"], 409, True),
        ("200-204", 204, True),
        ("200-204", 205, False),
        ([200, "5XX"], 503, True),
        (302, 302, True),
    ],
)
async def test_expect_status_decides_what_is_success(
    service: Service, call: Call, expected: Any, status: int, is_success: bool
) -> None:
    service.answer = lambda asked: reply(b"", status, {"Location": "/elsewhere"})

    if is_success:
        assert (await call(expect_status=expected))["status"] == status
    else:
        with pytest.raises(ServiceError):
            await call(expect_status=expected)


@pytest.mark.parametrize("entry", ["", "xx", "2x", "99", "600", "2xxx", "a-b", True, "-200", None])
def test_what_is_not_a_status_is_refused(entry: Any) -> None:
    with pytest.raises(ValueError, match=f"^{entry}$".lower()):
        read_statuses(entry)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("999999999999999999", RETRY_AFTER_S_MAX),
        ("Thu, 01 Jan 1970 00:20:00 GMT", 200),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_S_MAX),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("１２", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(text: str, seconds: float | None) -> None:
    assert retry_after_s(text, now_s=1000) == seconds


async def test_the_body_of_an_error_is_cut(service: Service, call: Call) -> None:
    service.answer = lambda asked: reply(b"x" * 1_000_000, 400)

    with pytest.raises(ServiceRefusedError) as caught:
        await call()
    assert caught.value.details["body"] == "x" * 1000


# ── redirects ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]
)
async def test_a_redirect_keeps_the_method_or_becomes_a_get(
    service: Service, call: Call, status: int, method: str
) -> None:
    def answer(asked: Asked) -> bytes:
        if asked.target == "/old":
            return reply(b"", status, {"Location": "/new?a=1"})
        return reply("here")

    service.answer = answer

    assert (await call("/old", json={"a": 1}))["body"] == "here"
    second = service.asked[1]
    assert (second.method, second.target) == (method, "/new?a=1")
    assert (second.body != b"") == (method == "POST")


@pytest.mark.parametrize(("count", "is_too_many"), [(5, False), (6, True)])
async def test_redirects_are_followed_five_times(
    service: Service, call: Call, count: int, is_too_many: bool
) -> None:
    def answer(asked: Asked) -> bytes:
        number = int(asked.target[1:])
        return reply(b"", 302, {"Location": f"/{number + 1}"}) if number < count else reply("end")

    service.answer = answer

    if is_too_many:
        with pytest.raises(ServiceRefusedError, match="more than 5"):
            await call("/0")
    else:
        assert (await call("/0"))["body"] == "end"


# ── TLS ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "is_right"), [("friendly.example", True), ("other.example", False)]
)
async def test_the_certificate_must_be_that_of_the_name_that_was_called(
    tmp_path: Path, name: str, is_right: bool
) -> None:
    authority = Authority(tmp_path / "authority")
    certificates = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificates.load_cert_chain(*authority.sign("DNS:friendly.example"))
    names: list[str] = []
    certificates.sni_callback = lambda _, said, __: names.append(said)
    trusting = ssl.create_default_context(cafile=str(authority.certificate))

    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    client = Client(Egress(private=True), resolver=resolve, certificates=trusting)
    async with open_service(certificates) as service:
        url = f"https://{name}:{service.port}/"
        if is_right:
            async with client.send(Request(method="GET", url=url)) as answer:
                assert answer.status == 200
        else:
            with pytest.raises(ServiceUnavailableError, match="certificate"):
                async with client.send(Request(method="GET", url=url)):
                    pass
        await client.close()

    assert names == [name]


async def test_a_missing_library_is_an_error_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, call: Call
) -> None:
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, "httpx2", None)

    with pytest.raises(ConfigError, match=r"pip install 'minuet\[http\]'"):
        await call()


@pytest.mark.parametrize(
    "node",
    [
        {"type": "http", "config": {"url": "https://example.com/"}},
        {"type": "llm", "config": {"model": "m", "prompt": "p", "base_url": "https://llm.test"}},
    ],
    ids=["http", "llm"],
)
async def test_a_node_that_misses_a_library_fails_with_that_line_and_nothing_else(
    scene: Any, monkeypatch: pytest.MonkeyPatch, node: dict[str, Any]
) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    async with scene() as s:
        result = await s.run({"name": "calls", "nodes": [{"id": "call", **node}]})

        assert result.error == {
            "code": "invalid-configuration",
            "type": "ConfigError",
            "message": "http and llm nodes need httpx2: pip install 'minuet[http]'",
            "node": "call",
            "scope": "",
        }


# ── secrets ─────────────────────────────────────────────────────────────────────────────────

CANARY = "canary-7f3a"


@pytest.mark.parametrize(
    "script",
    [
        reply(b"fine"),
        reply(b"no", 403),
        reply(b"later", 503),
        reply(b"", 302, {"Location": "/again"}),
        reply(b"", 302, {"Location": "gopher://x/"}),
        reply(b"{", kind="application/json"),
        reply(b"x" * 5000, kind="text/plain"),
        b"nonsense\r\n\r\n",
    ],
    ids=["200", "403", "503", "redirects", "bad redirect", "bad JSON", "too large", "nonsense"],
)
async def test_nothing_of_a_request_is_kept_or_logged(
    service: Service, call: Call, caplog: pytest.LogCaptureFixture, script: bytes
) -> None:
    caplog.set_level(logging.DEBUG)
    service.answer = lambda asked: script
    kept: Any = None

    try:
        kept = await call(
            f"/?token={CANARY}",
            bytes_max=1000,
            headers={"Authorization": f"Bearer {CANARY}", "X-Key": CANARY},
            params={"key": CANARY},
            json={"password": CANARY},
        )
    except ServiceError as error:
        # Without the net that masks by value.
        kept = describe(error)

    assert CANARY in service.asked[0].headers["authorization"]
    assert CANARY not in repr(kept)
    assert CANARY not in caplog.text


@pytest.mark.parametrize("headers", [{"A\n": CANARY}, {"A": f"{CANARY}\n"}, {"Host": CANARY}])
async def test_a_header_that_cannot_be_sent_is_not_shown(
    service: Service, call: Call, headers: dict[str, str]
) -> None:
    with pytest.raises(ServiceRefusedError) as caught:
        await call(headers=headers)

    assert CANARY not in repr(describe(caught.value))


async def test_a_url_that_cannot_be_called_is_shown_without_its_secrets(service: Service) -> None:
    client = Client(Egress(private=True))
    url = f"http://user:{CANARY}@127.0.0.1:{service.port}/?token={CANARY}"

    with pytest.raises(ServiceRefusedError) as caught:
        async with client.send(Request(method="GET", url=url)):
            pass
    assert CANARY not in repr(describe(caught.value))
