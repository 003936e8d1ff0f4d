"""Bearer tokens of an OpenID Connect provider (extra `oidc`).

A token is a JWT that the provider has signed for this server. Its keys are fetched from the
provider and kept; an unknown key id makes the server look again, at most every `REFRESH_S` seconds,
so that a provider can change its keys. The algorithms are fixed: those with public keys. What a
token says about its own algorithm only chooses among these, and must fit the kind of the key.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from typing import Any, NoReturn
from urllib.parse import urlsplit

import msgspec

from minuet.api.errors import IssuerUnavailableError
from minuet.api.identity import Identity
from minuet.api.local import is_loopback
from minuet.api.provider import Provider
from minuet.app.roles import ROLES, Role, included
from minuet.errors import ConfigError

try:
    import jwt
except ImportError:  # The extra is not installed: see `need_oidc`.
    jwt = None  # type: ignore[assignment]

_log = logging.getLogger("minuet.api")

#: Algorithms, and the kind of key that each needs.
ALGORITHMS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}

#: Shortest RSA key, in bits.
RSA_BITS_MIN = 2048

#: How far the clocks of the provider and of this server may differ, in seconds.
SKEW_S = 60

#: Keys are fetched again after this time, and used for this long if the provider is away.
FRESH_S = 600.0
STALE_S = 3600.0

#: Least time between two attempts to fetch them.
REFRESH_S = 10.0

#: How long the provider may take, and how many bytes it may send.
FETCH_S = 5.0
FETCH_BYTES_MAX = 1 << 20

#: Longest token.
TOKEN_MAX = 16_384

#: Tokens that are remembered, and for how long: checking a signature takes a while.
TOKENS_MAX = 10_000
REMEMBER_S = 5.0

#: Begins a role in a token: other applications have roles with the same names.
ROLE_PREFIX = "minuet:"


def need_oidc() -> None:
    """ConfigError with the install line if the library is missing."""
    if jwt is None:
        raise ConfigError("OpenID Connect needs pyjwt: pip install 'minuet[oidc]'")


class TokenChecker:
    """Checks tokens of one provider."""

    def __init__(self, provider: Provider) -> None:
        need_oidc()
        _check_url(provider.issuer)
        if not provider.audience:
            raise ConfigError("MINUET_OIDC_AUDIENCE: say which audience tokens must be for")
        self._provider = provider
        self._keys: dict[str, Any] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._fetching: asyncio.Task[None] | None = None
        self._known: OrderedDict[bytes, tuple[Identity, float, float]] = OrderedDict()

    async def find(self, token: str) -> Identity | None:
        """Who has this token; None: it is not a valid one. IssuerUnavailableError: nobody can tell,
        because the provider's keys cannot be fetched."""
        if len(token) > TOKEN_MAX or token.count(".") != 2:
            return None
        digest, now = hashlib.sha256(token.encode()).digest(), time.time()
        known = self._known.get(digest)
        if known is not None and now < known[1]:
            return known[0] if now < known[2] else None
        try:
            header = jwt.get_unverified_header(token)
        except jwt.InvalidTokenError:
            return None
        kid, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(kid, str) or not isinstance(algorithm, str) or "crit" in header:
            return None
        key = await self._key(kid)
        if key is None or ALGORITHMS.get(algorithm) != key.key_type:
            return None
        found = self._read(token, key.key, algorithm)
        if found is None:
            return None
        identity, expires = found
        self._known[digest] = (identity, now + REMEMBER_S, expires)
        if len(self._known) > TOKENS_MAX:
            self._known.popitem(last=False)
        return identity

    def _read(self, token: str, key: Any, algorithm: str) -> tuple[Identity, float] | None:
        provider = self._provider
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=provider.audience,
                issuer=provider.issuer,
                leeway=SKEW_S,
                options={"require": ["exp", "iss", "aud"], "verify_iat": False},
            )
        except jwt.InvalidTokenError as error:
            _log.info("a token of %s is refused: %s", provider.issuer, error)
            return None
        name = _claim(claims, provider.name_claim)
        tenant = _claim(claims, provider.tenant_claim) if provider.tenant_claim else None
        if not _is_name(name) or (provider.tenant_claim and not _is_name(tenant)):
            _log.info("a token of %s does not say whose it is", provider.issuer)
            return None
        named = _texts(_claim(claims, provider.roles_claim))
        roles: list[Role] = [role for role in ROLES if f"{ROLE_PREFIX}{role}" in named]
        identity = Identity(
            name=name,
            tenant=tenant,
            roles=included(roles),
            groups=tuple(_texts(_claim(claims, provider.groups_claim))),
            shown=f"oidc:{name}",
            expires=claims["exp"] + SKEW_S,
        )
        return identity, claims["exp"] + SKEW_S

    # ── keys ────────────────────────────────────────────────────────────────────────────

    async def _key(self, kid: str) -> Any:
        now = asyncio.get_running_loop().time()
        found = self._keys.get(kid)
        age = now - self._fetched_at
        if found is not None and age < FRESH_S:
            return found
        if now - self._tried_at >= REFRESH_S or self._fetching is not None:
            await self._refresh(now)
            age = now - self._fetched_at
        if age > STALE_S:
            raise IssuerUnavailableError(self._provider.issuer)
        return self._keys.get(kid)

    async def _refresh(self, now: float) -> None:
        """Fetch the keys, once for all who ask."""
        if self._fetching is None:
            self._tried_at = now
            self._fetching = asyncio.ensure_future(self._fetch())
            self._fetching.add_done_callback(lambda _: setattr(self, "_fetching", None))
        await asyncio.shield(self._fetching)

    async def _fetch(self) -> None:
        try:
            keys = await asyncio.to_thread(_fetch_keys, self._provider.issuer)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            _log.warning("the keys of %s cannot be fetched: %s", self._provider.issuer, error)
            return
        self._keys = keys
        self._fetched_at = asyncio.get_running_loop().time()


def _fetch_keys(issuer: str) -> dict[str, Any]:
    """The keys of a provider that sign, by their ids."""
    described = _fetch_json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if described.get("issuer") != issuer:
        raise ValueError(f"it says that it is {described.get('issuer')!r:.200}")
    url = described.get("jwks_uri")
    if not isinstance(url, str):
        raise ValueError("it does not say where its keys are")
    try:
        _check_url(url)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    found: dict[str, Any] = {}
    keys = _fetch_json(url).get("keys")
    for one in keys if isinstance(keys, list) else ():
        key = _read_key(one)
        if key is not None:
            found[key.key_id] = key
    return found


def _read_key(one: Any) -> Any:
    """A key that may sign tokens; None: it is for something else, or too weak."""
    if not isinstance(one, dict) or not isinstance(one.get("kid"), str):
        return None
    if one.get("kty") not in ALGORITHMS.values() or one.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(one)
    except (jwt.PyJWTError, ValueError, KeyError, TypeError):
        return None
    is_weak = one["kty"] == "RSA" and key.key.key_size < RSA_BITS_MIN
    # Only public keys belong there.
    return None if is_weak or "d" in one else key


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments: Any, **keywords: Any) -> NoReturn:
        raise OSError("it redirects elsewhere")


def _fetch_json(url: str) -> dict[str, Any]:
    opener = urllib.request.build_opener(_NoRedirects)
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    with opener.open(request, timeout=FETCH_S) as answer:
        data = answer.read(FETCH_BYTES_MAX + 1)
    if len(data) > FETCH_BYTES_MAX:
        raise ValueError("its answer is too large")
    return msgspec.json.decode(data, type=dict[str, Any])


def _check_url(url: str) -> None:
    """ConfigError unless nobody on the way can change what is fetched."""
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or (
        parts.scheme == "http" and is_loopback(parts.hostname or "")
    )
    if not is_safe or not parts.hostname:
        raise ConfigError(f"MINUET_OIDC_ISSUER: {url!r:.200} is not an https:// URL")


# ── claims ──────────────────────────────────────────────────────────────────────────────────


def _claim(claims: dict[str, Any], path: str) -> Any:
    if path in claims:
        return claims[path]
    found: Any = claims
    for word in path.split("."):
        found = found.get(word) if isinstance(found, dict) else None
    return found


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 255 and value.isprintable()


def _texts(value: Any) -> list[str]:
    """A claim with several words: a list, or a text with spaces."""
    words = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    return [word for word in words if isinstance(word, str)]
