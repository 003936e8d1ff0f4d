"""Area S: settings have the names and defaults that were asked for, and do what they say."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app.compiling import compile_source
from minuet.errors import ConfigError
from minuet.plan.plan import Retry
from minuet.settings import read_settings
from minuet.settings.table import TABLE

HANDLERS = """
import minuet

@minuet.task
def stumble() -> None:
    raise OSError("try again")

@minuet.task(retries=0)
def stumble_once() -> None:
    raise OSError("do not try again")
"""

QUICK = {"RETRY_INITIAL_DELAY": "0.001", "RETRY_MAX_DELAY": "0.002"}


def attempts(folder: Any, minuet: Any, node: str, defaults: str = "") -> int:
    """How often a node is tried whose handler always stumbles."""
    folder.write("stumble.py", HANDLERS)
    folder.write("stumble.yaml", f"name: stumble\n{defaults}nodes:\n  - {{id: a, {node}}}\n")
    result = minuet("run", "stumble.yaml", "--store", "memory://", "--json").json
    count: int = result["nodes"]["a"]["attempts"]
    return count


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, text in QUICK.items():
        monkeypatch.setenv(name, text)
    return monkeypatch


@pytest.mark.shows("S-01")
def test_an_environment_selects_its_own_defaults() -> None:
    dev, test = read_settings({}), read_settings({"MINUET_ENV": "test"})

    assert dev.store == "sqlite:///minuet.db"
    assert test.store == "memory://"
    assert test["WORKER_GRACEFUL_SHUTDOWN_TIMEOUT"] < dev["WORKER_GRACEFUL_SHUTDOWN_TIMEOUT"]
    with pytest.raises(ConfigError, match="MINUET_STORE is not set, and must be in prod"):
        read_settings({"MINUET_ENV": "prod"})
    with pytest.raises(ConfigError, match="MINUET_ENV='production' is not one of dev, test, prod"):
        read_settings({"MINUET_ENV": "production"})


@pytest.mark.shows("S-02")
@pytest.mark.parametrize(
    "arguments", [["run", "w.yaml"], ["worker"], ["start", "w.yaml"], ["runs", "list"]]
)
def test_wrong_values_stop_the_start_with_all_of_them_named(
    folder: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    folder.write("w.yaml", "name: w\nnodes:\n  - {id: a, type: noop}\n")
    monkeypatch.setenv("WORKER_CONCURRENCY", "0")
    monkeypatch.setenv("RETRY_JITTER", "perhaps")
    monkeypatch.setenv("POSTGRES_PASSWORD", "hunter2")

    called = minuet(*arguments)

    assert called.code == 2
    assert called.out == ""
    assert called.err.splitlines() == [
        "minuet: 2 settings are wrong:",
        "  WORKER_CONCURRENCY='0' is not a whole number from 1 to 10000",
        "  RETRY_JITTER='perhaps' is not true or false",
    ]
    assert not folder.store.exists()


@pytest.mark.shows("S-03")
def test_settings_are_grouped_by_what_their_names_begin_with() -> None:
    groups = {setting.name.split("_")[0] for setting in TABLE}

    assert groups == {
        "MINUET",
        "REDIS",
        "POSTGRES",
        "WORKER",
        "STALE",
        "ORCHESTRATOR",
        "RETRY",
        "OPENAI",
    }


@pytest.mark.shows("S-04", "S-05", "S-09")
def test_redis_and_postgresql_are_found_by_their_settings() -> None:
    postgres = {"POSTGRES_HOST": "db", "POSTGRES_PORT": "5433", "POSTGRES_USER": "ann"}

    assert read_settings({"MINUET_STORE": "redis://"}).store == "redis://localhost:6379/0"
    assert read_settings({"REDIS_HOST": "r", "REDIS_PORT": "1"}).store == "redis://r:1/0"
    assert read_settings(postgres).store == "postgresql://ann@db:5433/ann"


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        pytest.param("WORKER_HEARTBEAT_INTERVAL", 5.0, marks=pytest.mark.shows("S-11")),
        pytest.param("WORKER_HEARTBEAT_TIMEOUT", 15.0, marks=pytest.mark.shows("S-12")),
        pytest.param("MINUET_HEARTBEAT_TIMEOUT_SECONDS", 30.0, marks=pytest.mark.shows("S-47")),
    ],
)
def test_heartbeats_have_the_defaults_that_were_asked_for(name: str, seconds: float) -> None:
    assert read_settings({})[name] == seconds


@pytest.mark.shows("S-22", "S-23", "S-24", "S-25", "S-26", "S-37")
def test_a_node_without_a_policy_is_retried_by_the_settings_defaults() -> None:
    document = {"name": "w", "nodes": [{"id": "a", "handler": "input"}]}
    bare = compile_source(document)

    compiled = compile_source(document, retry=Retry(**read_settings({}).retry))

    assert compiled.plan.nodes[0].retry == Retry(
        max_attempts=3, backoff_ms=1000, max_delay_ms=60_000, multiplier=2.0, jitter=True
    )
    assert compiled.digest == bare.digest


def test_the_settings_decide_where_nobody_else_does(folder: Any, minuet: Any, quick: Any) -> None:
    quick.setenv("RETRY_MAX_RETRIES", "5")
    own = "handler: stumble, retry: {max_attempts: 2}"
    defaults = "defaults: {retry: {max_attempts: 4}}\n"

    assert attempts(folder, minuet, "handler: stumble") == 5
    assert attempts(folder, minuet, own) == 2
    assert attempts(folder, minuet, "handler: stumble", defaults) == 4
    assert attempts(folder, minuet, own, defaults) == 2
    assert attempts(folder, minuet, "handler: stumble_once") == 1


def test_what_a_policy_leaves_open_comes_from_the_settings() -> None:
    own = {"id": "a", "handler": "input", "retry": {"max_attempts": 6}}
    document = {"name": "w", "defaults": {"retry": {"multiplier": 3}}, "nodes": [own]}

    compiled = compile_source(document, retry=Retry(**read_settings(QUICK).retry))

    assert compiled.plan.nodes[0].retry == Retry(
        max_attempts=6, backoff_ms=1, max_delay_ms=2, multiplier=3
    )


def test_settings_are_shown_with_where_they_come_from_and_without_secrets(
    minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSTGRES_HOST", "db")
    monkeypatch.setenv("POSTGRES_PASSWORD", "hunter2")
    monkeypatch.setenv("STALE_TIMEOUT_CHARGE", "90")
    monkeypatch.setenv("MINUET_STROE", "x")

    called, shown = minuet("settings"), minuet("settings", "--json")

    assert "hunter2" not in called.out + called.err + shown.out
    assert "did you mean MINUET_STORE?" in called.err
    assert "The store is postgresql://postgres:***@db:5432/postgres." in called.out
    rows = {row["setting"]: row for row in shown.json["settings"]}
    assert rows["STALE_TIMEOUT_CHARGE"] | {"help": ""} == {
        "setting": "STALE_TIMEOUT_CHARGE",
        "value": "90",
        "from": "environment",
        "default": "",
        "has_effect": True,
        "help": "",
    }
    assert rows["WORKER_CONCURRENCY"]["from"] == "default (dev)"
    assert not rows["ORCHESTRATOR_CHECKPOINT_INTERVAL"]["has_effect"]


@pytest.mark.parametrize("setting", [s for s in TABLE if s.unused], ids=lambda s: str(s.name))
def test_a_setting_without_effect_says_so_and_why(setting: Any) -> None:
    assert setting.help.startswith("Accepted without effect")
    assert ": " in setting.help
