"""Reading settings: every wrong value is named, no secret is shown, typing errors are noticed."""

from __future__ import annotations

import pytest

from minuet.errors import ConfigError
from minuet.settings import find_unknown, is_true, masked, read_settings
from minuet.settings.table import ENVIRONMENTS, TABLE, Setting

WRONG = {
    "MINUET_ENV": "staging",
    "MINUET_STORE": "mysql://ann:hunter2@db/x",
    "REDIS_PORT": "65536",
    "WORKER_CONCURRENCY": "many",
    "WORKER_GRACEFUL_SHUTDOWN_TIMEOUT": "-1",
    "STALE_TIMEOUT_CHARGE": "nan",
    "ORCHESTRATOR_CHECKPOINT_INTERVAL": "soon",
    "RETRY_EXPONENTIAL_BASE": "0.5",
    "RETRY_JITTER": "perhaps",
}


def problems_of(**variables: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read_settings(variables)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_all_wrong_values_are_listed_with_what_is_allowed() -> None:
    problems = problems_of(**WRONG)

    assert len(problems) == len(WRONG)
    for name, problem in zip(WRONG, problems, strict=True):
        assert problem.startswith(f"{name}='")
        assert " is not " in problem
    assert problems[2] == "REDIS_PORT='65536' is not a whole number from 1 to 65535"
    assert problems[8] == "RETRY_JITTER='perhaps' is not true or false"


def test_a_wrong_value_does_not_show_the_password_in_it() -> None:
    assert "hunter2" not in "".join(problems_of(**WRONG))


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: str(setting.name))
def test_every_default_is_a_value_that_is_allowed(setting: Setting) -> None:
    name = setting.name.replace("*", "X")
    given = ("MINUET_STORE",)

    for environment in ENVIRONMENTS:
        default = setting.default_in(environment)
        if default is not None:
            variables = {"MINUET_ENV": environment, name: str(default)}
            assert read_settings(variables, given=given)[name] == default


@pytest.mark.parametrize(("text", "value"), [("TRUE", True), ("0", False), (" off ", False)])
def test_a_flag_may_be_written_in_several_ways(text: str, value: bool) -> None:
    assert read_settings({"RETRY_JITTER": text})["RETRY_JITTER"] is value


def test_a_variable_set_to_nothing_counts_as_not_set() -> None:
    settings = read_settings({"WORKER_CONCURRENCY": " ", "REDIS_HOST": ""})

    assert settings["WORKER_CONCURRENCY"] == 4
    assert settings.store == "sqlite:///minuet.db"


def test_values_that_contradict_each_other_are_wrong() -> None:
    assert problems_of(RETRY_MAX_DELAY="1", RETRY_INITIAL_DELAY="2") == [
        "RETRY_MAX_DELAY is less than RETRY_INITIAL_DELAY"
    ]
    assert problems_of(WORKER_HEARTBEAT_TIMEOUT="1") == [
        "WORKER_HEARTBEAT_TIMEOUT is less than WORKER_HEARTBEAT_INTERVAL"
    ]


@pytest.mark.parametrize(
    ("variables", "store"),
    [
        ({"MINUET_STORE": "memory://", "POSTGRES_HOST": "db"}, "memory://"),
        ({"POSTGRES_HOST": "db", "REDIS_HOST": "cache"}, "postgresql://postgres@db:5432/postgres"),
        ({"REDIS_HOST": "cache", "REDIS_PORT": "7"}, "redis://cache:7/0"),
        ({"MINUET_STORE": "redis://", "POSTGRES_HOST": "db"}, "redis://localhost:6379/0"),
        (
            {
                "MINUET_STORE": "postgresql://",
                "POSTGRES_USER": "ann",
                "POSTGRES_PASSWORD": "a@b:/c",
                "POSTGRES_DB": "runs",
            },
            "postgresql://ann:a%40b%3A%2Fc@localhost:5432/runs",
        ),
        ({}, "sqlite:///minuet.db"),
    ],
)
def test_the_store_is_chosen_by_the_settings(variables: dict[str, str], store: str) -> None:
    assert read_settings(variables).store == store


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:x@db/runs", "postgresql://ann:***@db/runs"),
        ("postgresql://ann:x/y?z@db/runs", "postgresql://ann:***@db/runs"),
        (
            "redis://:x@h/0?record=postgresql://a:y@d",
            "redis://:***@h/0?record=postgresql://a:***@d",
        ),
        ("postgresql://db/runs?user=ann&password=x", "postgresql://db/runs?user=ann&password=***"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("redis://cache:6379/0", "redis://cache:6379/0"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("MINUET_STROE", "there is no setting MINUET_STROE: did you mean MINUET_STORE?"),
        (
            "MINUET_CONCURRENCY",
            "there is no setting MINUET_CONCURRENCY: did you mean WORKER_CONCURRENCY?",
        ),
        ("MINUET_XYZZY", "there is no setting MINUET_XYZZY"),
    ],
)
def test_a_name_that_looks_like_a_setting_and_is_none_is_told(name: str, told: str) -> None:
    assert find_unknown({name: "1", "MINUET_STORE": "x", "MINUET_TEST_X": "1", "HOME": "/"}) == [
        told
    ]


@pytest.mark.shows("S-16", "S-17")
def test_a_handler_that_asks_for_a_longer_lease_gets_it_for_its_own_queues() -> None:
    settings = read_settings({"STALE_TIMEOUT_LLM_SERVICE": "200", "STALE_TIMEOUT_SHOP_PAY": "45"})

    assert settings.queue_leases(["input"]) == {}
    assert settings.queue_leases(["input", "shop:pay"]) == {"task:shop:pay": 45}
    assert settings.queue_leases(["llm_service", "call_external_service"]) == {
        "task:llm_service": 200,
        "llm": 200,
        "task:call_external_service": 120,
        "http": 120,
    }
    assert read_settings({})["STALE_TIMEOUT_LLM_SERVICE"] == 180


def test_what_is_given_on_the_command_line_need_not_be_set() -> None:
    assert "must be in prod" in problems_of(MINUET_ENV="prod")[0]
    assert read_settings({"MINUET_ENV": "prod"}, given=("MINUET_STORE",)).store == ""
    assert read_settings({"MINUET_ENV": "prod", "REDIS_HOST": "r"}).store == "redis://r:6379/0"


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("yes", True), ("0", False), (None, False)]
)
def test_whether_a_flag_is_set(text: str | None, value: bool) -> None:
    assert is_true(text) is value
