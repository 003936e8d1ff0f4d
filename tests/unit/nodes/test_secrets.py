"""Providers of secrets, and the masking of values."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minuet.errors import ConfigError
from minuet.nodes.masking import Mask
from minuet.nodes.secrets import NoSecret, read_provider


def reason(text: str, name: str) -> str:
    with pytest.raises(NoSecret) as caught:
        read_provider(text).get(name)
    return str(caught.value)


@pytest.mark.shows("U-17")
def test_the_environment_gives_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "a")
    monkeypatch.setenv("DB_URL", "b")
    monkeypatch.setenv("OTHER", "c")
    monkeypatch.delenv("DB_X", raising=False)
    provider = read_provider(" env:API_KEY, DB_* ")

    assert (provider.get("API_KEY"), provider.get("DB_URL")) == ("a", "b")
    assert reason("env:API_KEY,DB_*", "OTHER") == (
        "MINUET_SECRETS does not allow it: add it, as in env:OTHER"
    )
    assert "no environment variable" in reason("env:API_KEY,DB_*", "DB_X")
    assert read_provider("env").get("OTHER") == "c"


def test_a_folder_gives_the_contents_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "API_KEY").write_text("a b\n")
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "huge").write_bytes(b"x" * 70_000)
    (tmp_path / "folder").mkdir()
    text = f"folder:{tmp_path}"

    assert read_provider(text).get("API_KEY") == "a b"
    assert "No such file" in reason(text, "ABSENT")
    assert "not UTF-8" in reason(text, "binary")
    assert "more than 65,536 bytes" in reason(text, "huge")
    assert "Is a directory" in reason(text, "folder")


@pytest.mark.parametrize("name", ["..", "../x", "/etc/passwd", "a/b", ".hidden", "", "a\0"])
def test_a_folder_gives_nothing_that_is_not_in_it(tmp_path: Path, name: str) -> None:
    (tmp_path / ".hidden").write_text("x")

    assert "cannot be the name" in reason(f"folder:{tmp_path}", name)


@pytest.mark.shows("U-17")
def test_a_hook_is_an_object_a_class_or_a_function(tmp_path: Path) -> None:
    file = tmp_path / "vault_of_a_test.py"
    file.write_text(
        "class Vault:\n    def get(self, name):\n        return 'v' + name\n"
        "vault = Vault()\n"
        "def read(name):\n    return 'f' + name\n"
        "number = 7\n"
    )

    assert read_provider(f"python:{file}:vault").get("A") == "vA"
    assert read_provider(f"python:{file}:Vault").get("A") == "vA"
    assert read_provider(f"python:{file}:read").get("A") == "fA"
    for name in ("number", "absent"):
        with pytest.raises(ConfigError, match=f"has no '{name}'"):
            read_provider(f"python:{file}:{name}")


def test_none_says_how_to_get_secrets() -> None:
    assert reason("none", "API_KEY") == (
        "this worker has no secrets: set MINUET_SECRETS, for example to env:API_KEY"
    )


@pytest.mark.parametrize(
    "text", ["vault", "env:", "env: ,", "folder:", "folder:/no/such", "python:", "python:x", "NONE"]
)
def test_a_setting_that_names_no_provider_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="MINUET_SECRETS"):
        read_provider(text)


# ── masking ─────────────────────────────────────────────────────────────────────────────────


def masked(values: tuple[str, ...], value: Any) -> Any:
    return Mask(values).data(msgspec.json.encode(value), value)


def test_short_values_are_masked_in_text_for_people_alone() -> None:
    mask = Mask(("abc", "abcd", "abcdef"))

    assert mask("abc abcd abcdef") == "abc *** ***"
    assert masked(("abc", "abcd", "abcdef"), ["abc abcd abcdef"]) == ["abc abcd ***"]


def test_numbers_and_keys_are_masked() -> None:
    value = {"k123456": 1234567, "x": [True, None, 12.5]}

    assert masked(("123456",), value) == {"k***": "***", "x": [True, None, 12.5]}


def test_data_without_secrets_stays_the_same_object() -> None:
    value = {"a": ["b"]}

    assert masked(("secret-value",), value) is value
    assert masked((), value) is value


def test_a_secret_inside_another_does_not_spoil_it() -> None:
    assert Mask(("secret", "secret-long", "a-secret"))("secret-long secret a-secret") == (
        "*** *** ***"
    )


@pytest.mark.parametrize("value", ["(", "[a-z]+", "a|b|c|d", "\\d{3}x", "^$.*?", "x" * 5_000])
def test_a_value_that_looks_like_a_pattern_is_masked_as_it_is(value: str) -> None:
    assert Mask((value + "-end",))(f"<{value}-end>") == "<***>"


def test_a_log_record_keeps_its_shape() -> None:
    record = logging.makeLogRecord(
        {"msg": "%s and %d", "args": ("secret-value", 7), "scope": (1, 2), "extra": object()}
    )
    extra = record.__dict__["extra"]

    Mask(("secret-value",)).record(record)

    assert record.getMessage() == "*** and 7"
    assert record.__dict__["scope"] == (1, 2)
    assert record.__dict__["extra"] is extra


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x secret-val", "x ***"),
        ("x 'secret-v…", "x '***"),
        ('{"key": "secret-value \\', '{"key": "***'),
        ('{"key": "secret-value \\"q', '{"key": "***'),
        ("x sec", "x sec"),
        ("x secret-other", "x secret-other"),
        ("secret-val and more", "secret-val and more"),
    ],
)
def test_a_value_that_the_end_of_a_text_has_cut_in_two_is_masked(text: str, expected: str) -> None:
    assert Mask(('secret-value "quoted"',))(text) == expected
