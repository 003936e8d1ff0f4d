"""Metrics and traces as settings ask for them."""

from __future__ import annotations

import importlib.util

import pytest

from minuet.errors import ConfigError
from minuet.telemetry.setup import make_tracer, read_address, serving_metrics


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9100", ("127.0.0.1", 9100)),
        ("0.0.0.0:9100", ("0.0.0.0", 9100)),
        ("[::1]:9100", ("::1", 9100)),
    ],
)
def test_an_address_is_a_port_or_a_host_and_a_port(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize("text", ["", "here", "here:", "70000", "-1", "a:b"])
def test_another_address_is_refused_in_words(text: str) -> None:
    with pytest.raises(ConfigError, match="MINUET_METRICS is a port, or HOST:PORT"):
        read_address(text)


def test_a_port_that_is_taken_is_refused_in_words() -> None:
    with serving_metrics("0") as (_, url):
        port = url.split(":")[2].split("/")[0]
        with pytest.raises(ConfigError, match=f"cannot serve at 127.0.0.1:{port}"):
            serving_metrics(port).__enter__()


def test_a_missing_extra_is_named_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(ConfigError, match=r"pip install 'minuet\[server\]'"):
        serving_metrics("0").__enter__()
    with pytest.raises(ConfigError, match=r"pip install 'minuet\[otel\]'"):
        make_tracer()
