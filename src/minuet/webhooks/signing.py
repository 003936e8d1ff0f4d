"""How webhooks are signed, as Standard Webhooks describes it, and how a receiver checks that.

Three headers come with each: `webhook-id` (the same whenever this notice is sent),
`webhook-timestamp` (seconds, when it was sent this time) and `webhook-signature`: `v1,` and, in
base64, the HMAC-SHA256 of `id.timestamp.body`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from minuet.errors import WebhookError

#: Begins a secret that is written in base64; any other one is taken as text.
PREFIX = "whsec_"

#: How old a webhook may be, or how far in the future, in seconds.
TOLERANCE_S = 300

_HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


def sign(secret: str, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a webhook."""
    signature = base64.b64encode(_digest(secret, id, timestamp, body)).decode()
    return dict(zip(_HEADERS, (id, str(timestamp), f"v1,{signature}"), strict=True))


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE_S,
    now: float | None = None,
) -> dict[str, Any]:
    """The content of a webhook; WebhookError unless one of the secrets has signed it, not longer
    ago than `tolerance` seconds.

    `body` is the request's body as it came, byte by byte. A webhook can come more than once: its
    header `webhook-id` is the same then.
    """
    found = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in _HEADERS if name not in found]
    if missing:
        raise WebhookError(f"the header {missing[0]} is missing")
    id, sent, signatures = (found[name] for name in _HEADERS)
    if not (sent.isascii() and sent.isdigit() and len(sent) < 16):
        raise WebhookError("the header webhook-timestamp is not a number of seconds")
    age_s = (time.time() if now is None else now) - int(sent)
    if abs(age_s) > tolerance:
        raise WebhookError(
            f"it was sent {age_s:.0f} seconds ago: at most {tolerance:g} are allowed"
        )
    secrets = [secret] if isinstance(secret, str) else secret
    given = [_decoded(one.partition(",")[2]) for one in signatures.split() if one[:3] == "v1,"]
    expected = [_digest(one, id, int(sent), body) for one in secrets]
    if not any(hmac.compare_digest(one, other) for one in expected for other in given):
        raise WebhookError("the signature is wrong: compare the secrets of both sides")
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise WebhookError(f"the body is not a JSON object: {error}") from None


def _digest(secret: str, id: str, timestamp: int, body: bytes) -> bytes:
    key = secret.encode()
    if secret.startswith(PREFIX):
        key = _decoded(secret.removeprefix(PREFIX))
    if not key:
        raise WebhookError("the secret is empty, or begins with whsec_ and is not base64")
    return hmac.digest(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
