"""Tokens of an OpenID Connect provider: a real one, in a thread of this process."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from minuet.api import oidc
from minuet.api.access import Access
from minuet.api.errors import IssuerUnavailableError
from minuet.api.oidc import TokenChecker
from minuet.api.provider import Provider
from minuet.errors import ConfigError

from .conftest import Serve

RSA = rsa.generate_private_key(65537, 2048)
OTHER_RSA = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())

ALGORITHMS = {"one": "RS256", "two": "ES256", "other": "RS256"}
PRIVATE: dict[str, Any] = {"one": RSA, "two": EC, "other": OTHER_RSA}


class Issuer(ThreadingHTTPServer):
    """Publishes keys, and signs tokens."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys = ["one", "two"]
        self.more: list[dict[str, Any]] = []
        self.fetched: list[str] = []
        self.is_away = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def published(self) -> list[dict[str, Any]]:
        return [public_key(kid) for kid in self.keys] + self.more

    def token(self, kid: str = "one", *, headers: Any = None, **claims: Any) -> str:
        """A token; a claim that is None is left out."""
        now = int(time.time())
        said = {
            "iss": self.url,
            "aud": "minuet",
            "sub": "ada",
            "exp": now + 300,
            "iat": now,
            "roles": ["minuet:viewer", "admin"],
            "groups": ["finance"],
            **claims,
        }
        said = {name: value for name, value in said.items() if value is not None}
        headers = {"kid": kid, **(headers or {})}
        return jwt.encode(said, PRIVATE[kid], ALGORITHMS[kid], headers)

    def provider(self, **options: str) -> Provider:
        return Provider(self.url, "minuet", **options)


class Handler(BaseHTTPRequestHandler):
    server: Issuer

    def do_GET(self) -> None:
        issuer = self.server
        issuer.fetched.append(self.path)
        answer: dict[str, Any] = {"keys": issuer.published()}
        if self.path.startswith("/.well-known"):
            answer = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
        self.send_response(503 if issuer.is_away else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def public_key(kid: str) -> dict[str, Any]:
    algorithm = jwt.get_algorithm_by_name(ALGORITHMS[kid])
    found: dict[str, Any] = json.loads(algorithm.to_jwk(PRIVATE[kid].public_key()))
    return {**found, "kid": kid, "use": "sig"}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def unsigned(text: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(text).encode()).decode().rstrip("=")


@pytest.mark.shows("U-14")
async def test_a_token_opens_what_its_roles_allow(serve: Serve, issuer: Issuer) -> None:
    access = Access(provider=issuer.provider(tenant_claim="org.tenant"))
    async with serve(access=access) as site:

        def sent(**claims: Any) -> dict[str, str]:
            token = issuer.token(**{"org": {"tenant": "shop"}, **claims})
            return {"Authorization": f"Bearer {token}"}

        document = {"name": "short", "nodes": [{"id": "a", "type": "noop"}]}
        await site.get("/runs", headers=sent())
        await site.post("/runs", {"document": document}, 403, headers=sent())
        editor = sent(roles="minuet:editor other")
        run = await site.post("/runs", {"document": document}, 201, headers=editor)
        await site.get("/runs", 403, headers=sent(roles=["admin", "viewer"]))
        await site.get("/runs", 401, headers=sent(org={}))
        await site.get("/runs", 401)
        theirs = await site.get("/runs", headers=sent(org={"tenant": "other"}))
        ours = await site.app.for_tenant("shop").runs.list()

    assert run["submitted_by"] == "ada"
    assert theirs["items"] == []
    assert [one.run for one in ours] == [run["run_id"]]


@pytest.mark.parametrize("kid", ["one", "two"])
async def test_a_token_says_who_its_owner_is(issuer: Issuer, kid: str) -> None:
    found = await TokenChecker(issuer.provider(name_claim="email")).find(
        issuer.token(kid, email="ada@shop.example", roles=["minuet:approver"])
    )

    assert found is not None
    assert (found.name, found.groups) == ("ada@shop.example", ("finance",))
    assert found.roles == {"viewer", "approver"}
    assert not found.is_trusted


def forged(issuer: Issuer) -> dict[str, str]:
    """Tokens that are not valid, each in one way."""
    now = int(time.time())
    valid = issuer.token()
    head, body, signature = valid.split(".")
    admin = {"iss": issuer.url, "aud": "minuet", "sub": "eve", "exp": now + 300}
    public = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    # The library refuses to sign with a public key, so its text is used as a secret by hand.
    hmac_head = unsigned({"alg": "HS256", "kid": "one"})
    algorithm = jwt.get_algorithm_by_name("HS256")
    message = f"{hmac_head}.{unsigned(admin)}"
    mac = base64.urlsafe_b64encode(algorithm.sign(message.encode(), public)).decode().rstrip("=")
    own_key = public_key("other")
    return {
        "no algorithm": f"{unsigned({'alg': 'none', 'kid': 'one'})}.{unsigned(admin)}.",
        "the public key as a secret": f"{message}.{mac}",
        "another issuer": issuer.token(iss="http://127.0.0.1:1"),
        "another audience": issuer.token(aud="shop"),
        "no audience": issuer.token(aud=None),
        "expired": issuer.token(exp=now - 120),
        "never expires": issuer.token(exp=None),
        "not valid yet": issuer.token(nbf=now + 120),
        "no name": issuer.token(sub=None),
        "a name with a line break": issuer.token(sub="ada\nbob"),
        "an unknown key": issuer.token("other"),
        "the id of another key": jwt.encode(admin, OTHER_RSA, "RS256", {"kid": "one"}),
        "an algorithm for another kind of key": jwt.encode(admin, EC, "ES256", {"kid": "one"}),
        "its own key": jwt.encode(admin, OTHER_RSA, "RS256", {"kid": "one", "jwk": own_key}),
        "its own address of keys": jwt.encode(
            admin, OTHER_RSA, "RS256", {"kid": "other", "jku": f"{issuer.url}/keys"}
        ),
        "something critical": issuer.token(headers={"crit": ["b64"], "b64": True}),
        "no key id": jwt.encode(admin, RSA, "RS256"),
        "changed": f"{head}.{unsigned({**admin, 'roles': ['minuet:admin']})}.{signature}",
        "no signature": f"{head}.{body}.",
        "too long": issuer.token(more="x" * 20_000),
        "not a token": "a.b.c",
    }


async def test_tokens_that_are_forged_or_for_others_are_refused(issuer: Issuer) -> None:
    checker = TokenChecker(issuer.provider())
    accepted = [name for name, token in forged(issuer).items() if await checker.find(token)]

    assert accepted == []
    assert await checker.find(issuer.token()) is not None


async def test_clocks_may_differ_a_little(issuer: Issuer) -> None:
    now = int(time.time())
    checker = TokenChecker(issuer.provider())

    assert await checker.find(issuer.token(exp=now - 30)) is not None
    assert await checker.find(issuer.token(nbf=now + 30, iat=now + 30)) is not None


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
async def test_keys_of_other_kinds_are_not_used(issuer: Issuer) -> None:
    weak = rsa.generate_private_key(65537, 1024)
    algorithm = jwt.get_algorithm_by_name("RS256")
    issuer.keys = []
    issuer.more = [
        {"kty": "oct", "kid": "one", "k": "c2VjcmV0"},
        {**json.loads(algorithm.to_jwk(weak.public_key())), "kid": "weak"},
        {**public_key("other"), "use": "enc"},
        {"kty": "RSA", "kid": "broken"},
        "nonsense",  # type: ignore[list-item]
    ]
    checker = TokenChecker(issuer.provider())
    claims = {"iss": issuer.url, "aud": "minuet", "sub": "eve", "exp": int(time.time()) + 300}

    assert await checker.find(issuer.token("other")) is None
    assert await checker.find(jwt.encode(claims, weak, "RS256", {"kid": "weak"})) is None
    secret = jwt.encode(claims, "secret" * 6, "HS256", {"kid": "one"})
    assert await checker.find(secret) is None


async def test_the_keys_are_fetched_once_for_many_tokens(issuer: Issuer) -> None:
    checker = TokenChecker(issuer.provider())
    tokens = [issuer.token(sub=f"person {number}") for number in range(20)]
    found = await asyncio.gather(*map(checker.find, tokens))
    unknown = [await checker.find(issuer.token("other", sub=str(number))) for number in range(5)]

    assert all(found)
    assert not any(unknown)
    assert issuer.fetched == ["/.well-known/openid-configuration", "/keys"]


async def test_a_provider_may_change_its_keys(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "REFRESH_S", 0.0)
    checker = TokenChecker(issuer.provider())
    assert await checker.find(issuer.token("one")) is not None
    issuer.keys = ["other"]

    assert await checker.find(issuer.token("other")) is not None
    assert await checker.find(issuer.token("one", sub="bob")) is None


async def test_a_provider_that_is_away_is_an_error_of_its_own(
    serve: Serve, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "REFRESH_S", 0.0)
    issuer.is_away = True
    headers = {"Authorization": f"Bearer {issuer.token()}"}
    async with serve(access=Access(provider=issuer.provider())) as site:
        key = await site.app.keys.create("ada", ["viewer"])
        refused = await site.get("/runs", 503, headers=headers)
        await site.get("/runs", headers={"Authorization": f"Bearer {key.text}"})
        issuer.is_away = False
        await site.get("/runs", headers=headers)

    assert refused["code"] == "issuer-unavailable"


async def test_known_keys_are_used_while_the_provider_is_away(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc, "REFRESH_S", 0.0)
    monkeypatch.setattr(oidc, "FRESH_S", 0.0)
    checker = TokenChecker(issuer.provider())
    assert await checker.find(issuer.token()) is not None
    issuer.is_away = True
    assert await checker.find(issuer.token(sub="bob")) is not None
    monkeypatch.setattr(oidc, "STALE_S", 0.0)
    with pytest.raises(IssuerUnavailableError):
        await checker.find(issuer.token(sub="eve"))


@pytest.mark.parametrize(
    ("issuer_url", "audience"),
    [
        ("http://login.example.com", "minuet"),
        ("ftp://login.example.com", "minuet"),
        ("login.example.com", "minuet"),
        ("https://login.example.com", ""),
    ],
)
def test_a_provider_that_cannot_be_trusted_is_refused(issuer_url: str, audience: str) -> None:
    with pytest.raises(ConfigError, match="MINUET_OIDC"):
        TokenChecker(Provider(issuer_url, audience))


async def test_a_provider_that_gives_another_name_is_not_believed(issuer: Issuer) -> None:
    checker = TokenChecker(Provider(f"{issuer.url}/other", "minuet"))
    with pytest.raises(IssuerUnavailableError):
        await checker.find(issuer.token())
