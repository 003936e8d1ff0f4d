"""The options of an App: one declaration, one default, one unit."""

from __future__ import annotations

import asyncio
import inspect
import re
from datetime import timedelta
from typing import Any

import pytest

from minuet.app.app import App
from minuet.app.arguments import RULES
from minuet.app.options import OptionArguments, Options, to_ms, worker_settings
from minuet.cli.arguments import every_command
from minuet.errors import ConfigError, RunTimeoutError
from minuet.plan.plan import RETRY_DEFAULT, Retry
from minuet.settings import read_settings
from minuet.worker.worker import Worker

DOCUMENT = {"name": "plain", "nodes": [{"id": "only", "type": "noop"}]}


def test_the_arguments_are_the_options_and_each_has_a_rule() -> None:
    assert tuple(OptionArguments.__annotations__) == Options.__struct_fields__
    assert set(Options.__struct_fields__) <= RULES.keys()


def test_an_option_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="concurency"):
        App("memory://", concurency=1)  # type: ignore[call-arg]


def test_a_worker_on_its_own_has_the_defaults_of_one_in_an_app() -> None:
    ours = Options().of_worker()
    theirs = inspect.signature(Worker).parameters

    for name in ("lease_ms", "drain_ms", "crashes_max", "retry", "queues", "heartbeat_ms"):
        assert ours[name] == theirs[name].default, name


def test_the_settings_of_an_empty_environment_are_the_defaults() -> None:
    settings = read_settings({})
    defaults = Options()

    assert Retry(**settings.retry) == RETRY_DEFAULT == defaults.retry_policy
    assert settings["MINUET_LEASE"] == defaults.lease_seconds
    built_in = ("call_external_service", "llm_service")
    assert settings.queue_leases(built_in) == defaults.lease_seconds_by_queue
    assert settings["WORKER_GRACEFUL_SHUTDOWN_TIMEOUT"] == defaults.drain_seconds
    given: dict[str, Any] = dict(worker_settings(settings))
    expected = {name: getattr(defaults, name) for name in given}
    assert {**expected, "retry": RETRY_DEFAULT} == given


def test_the_help_of_the_commands_names_the_defaults() -> None:
    """Help is printed without loading the options, so its numbers stand in the text."""
    defaults, settings = Options(), read_settings({})
    expected = {
        ("minuet run", "--concurrency"): defaults.concurrency,
        ("minuet resume", "--concurrency"): defaults.concurrency,
        ("minuet dev", "--concurrency"): defaults.concurrency,
        ("minuet dev", "--lease"): defaults.lease_seconds,
        ("minuet worker", "--concurrency"): settings["WORKER_CONCURRENCY"],
        ("minuet run", "--lease"): defaults.lease_seconds,
        ("minuet resume", "--lease"): defaults.lease_seconds,
        ("minuet worker", "--lease"): defaults.lease_seconds,
    }
    told = {
        (command.prog, action.option_strings[0]): float(number[1])
        for command in every_command()
        for action in command._actions
        if (number := re.search(r"default: \$\w+, else ([\d.]+)", action.help or ""))
    }

    assert told == expected


async def test_durations_are_seconds_or_timedeltas() -> None:
    one = App("memory://", lease_seconds=timedelta(minutes=2), drain_seconds=1.5)
    async with one as app:
        assert app.worker is not None
        assert (app.worker.lease_ms, app.worker.drain_ms) == (120_000, 1_500)
    async with App("memory://", worker=False) as app:
        run = await app.start(DOCUMENT)
        for timeout in (0.001, timedelta(milliseconds=1)):
            with pytest.raises(RunTimeoutError) as late:
                await asyncio.wait_for(run.wait(timeout=timeout), 60)
            assert late.value.seconds == 0.001


@pytest.mark.parametrize("value", [timedelta(days=-1), timedelta(hours=2), 0, "30"])
def test_a_lease_out_of_bounds_is_refused(value: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"lease_seconds: expected a number of seconds from 0\.001"
    ):
        App("memory://", lease_seconds=value)


def test_milliseconds_are_rounded_and_not_cut_off() -> None:
    assert [to_ms(seconds) for seconds in (0.3, 1.001, 0.0006)] == [300, 1001, 1]
