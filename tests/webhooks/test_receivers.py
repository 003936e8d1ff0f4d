"""MINUET_WEBHOOKS: who is sent what."""

from __future__ import annotations

import pytest

from minuet.app.app import App
from minuet.errors import ConfigError
from minuet.store.memory import MemoryStore
from minuet.webhooks.receivers import KINDS, read_receivers


def test_a_url_alone_gets_everything() -> None:
    (one,) = read_receivers(["https://example.com/hook?x=1"])

    assert (one.url, one.kinds) == ("https://example.com/hook?x=1", frozenset(KINDS))
    assert one.name.startswith("example.com-")
    assert one.secret == "MINUET_WEBHOOK_SECRET"


def test_several_have_names_filters_and_secrets() -> None:
    one, two = read_receivers(
        ["http://a/#name=ops&events=run.*,dead_letter.created&secret=OPS  http://b/"]
    )

    assert (one.name, one.url, one.secret) == ("ops", "http://a/", "OPS")
    assert one.kinds == {"run.failed", "run.cancelled", "run.stalled", "dead_letter.created"}
    assert two.kinds == set(KINDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://a/", "not a URL"),
        ("example.com", "not a URL"),
        ("http://a/#event=x", "'event' is not one of name, events, secret"),
        ("http://a/#events=run.ended", "no event is called 'run.ended'"),
        ("http://a/#name=ä", "the name"),
        ("http://a/#name=x http://b/#name=x", "two receivers"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_receivers([text])


async def test_an_app_whose_webhooks_cannot_be_signed_does_not_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MINUET_WEBHOOK_SECRET", raising=False)
    with pytest.raises(ConfigError, match="MINUET_WEBHOOK_SECRET"):
        await App(MemoryStore(), webhooks=["http://127.0.0.1:1/"]).open()
