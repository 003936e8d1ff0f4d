"""What a receiver can rely on: a webhook that was verified is ours, whole, and not old."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import minuet
from minuet.webhooks.signing import sign

BODY = b'{"type":"run.failed","data":{}}'
NOW = 1_700_000_000
SECRET = "a secret"


def headers(**changed: str) -> dict[str, str]:
    signed = sign(SECRET, "run.1.run.failed", NOW, BODY)
    return {**signed, **{name.replace("_", "-"): value for name, value in changed.items()}}


def verify(given: dict[str, str], body: bytes = BODY, **options: Any) -> dict[str, Any]:
    return minuet.verify_webhook(given, body, **{"secret": SECRET, "now": NOW, **options})


def test_what_was_signed_is_read() -> None:
    assert verify(headers()) == {"type": "run.failed", "data": {}}
    assert verify({name.title(): value for name, value in headers().items()})


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example of its specification."""
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    id, timestamp, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'

    assert sign(secret, id, timestamp, body)["webhook-signature"] == (
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"webhook_id": "run.2.run.failed"}, "signature is wrong"),
        ({"webhook_timestamp": str(NOW + 1)}, "signature is wrong"),
        ({"webhook_signature": "v1," + base64.b64encode(b"x" * 32).decode()}, "signature is wrong"),
        ({"webhook_signature": "v2,AAAA"}, "signature is wrong"),
        ({"webhook_signature": "v1,ä"}, "signature is wrong"),
        ({"webhook_signature": ""}, "signature is wrong"),
        ({"webhook_timestamp": "now"}, "not a number"),
    ],
)
def test_what_was_changed_is_refused(changed: dict[str, str], message: str) -> None:
    with pytest.raises(minuet.WebhookError, match=message):
        verify(headers(**changed))


def test_another_body_another_secret_and_a_missing_header_are_refused() -> None:
    for body in (BODY + b" ", BODY[:-1], b""):
        with pytest.raises(minuet.WebhookError, match="signature"):
            verify(headers(), body)
    with pytest.raises(minuet.WebhookError, match="signature"):
        verify(headers(), secret="another")
    with pytest.raises(minuet.WebhookError, match="empty"):
        verify(headers(), secret="")
    given = headers()
    del given["webhook-id"]
    with pytest.raises(minuet.WebhookError, match="webhook-id is missing"):
        verify(given)


@pytest.mark.parametrize("late", [301, -301])
def test_a_webhook_of_another_time_is_refused(late: int) -> None:
    assert verify(headers(), now=NOW + late, tolerance=302)
    with pytest.raises(minuet.WebhookError, match="seconds ago"):
        verify(headers(), now=NOW + late)


def test_a_secret_can_be_changed_without_a_gap() -> None:
    assert verify(headers(), secret=["new", SECRET])
    both = f"v1,AAAA {headers()['webhook-signature']}"
    assert verify(headers(webhook_signature=both))
