"""`minuet signal`: messages to runs, and what the other commands say about them."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

PAYMENT = """
name: payment
nodes:
  - {id: payment, type: wait, config: {signal: paid, timeout_seconds: 3600}}
  - {id: ship, type: noop, dependencies: [payment]}
"""


@pytest.fixture
def waiting(folder: Any, minuet: Any) -> str:
    """The id of a run that waits for the signal 'paid'."""
    folder.write("payment.yaml", PAYMENT)
    return str(minuet("run", "payment.yaml", "--timeout", "0.05", "--json").json["run_id"])


def test_a_signal_lets_a_run_go_on(minuet: Any, waiting: str) -> None:
    called = minuet("signal", waiting, "paid", "-d", '{"amount": 5}')

    assert (called.code, called.err) == (0, "")
    assert called.out == f"run {waiting} (RUNNING) has signal 'paid'\n"
    ended = minuet("resume", waiting, "--json").json
    assert ended["nodes"]["payment"]["output"] == {"amount": 5}


def test_a_signal_that_nobody_waits_for_is_kept_and_the_command_says_so(
    minuet: Any, waiting: str
) -> None:
    called = minuet("signal", waiting, "piad")

    assert called.code == 0
    assert "No node waits for it now: the run keeps it" in called.err


def test_the_run_is_printed_as_json(minuet: Any, waiting: str) -> None:
    printed = minuet("signal", waiting, "paid", "-o", "json").json

    assert (printed["run_id"], printed["status"]) == (waiting, "RUNNING")


def test_data_comes_from_a_file(folder: Any, minuet: Any, waiting: str) -> None:
    folder.write("data.json", '{"amount": 7}')

    assert minuet("signal", waiting, "paid", "-d", "@data.json").code == 0

    assert minuet("resume", waiting, "--json").json["nodes"]["payment"]["output"] == {"amount": 7}


def test_the_same_key_is_one_signal(minuet: Any, waiting: str) -> None:
    for _ in range(2):
        assert minuet("signal", waiting, "paid", "--idempotency-key", "k").code == 0

    events = minuet("runs", "events", waiting, "--json").json
    assert [event["type"] for event in events].count("signal.received") == 1


def test_data_that_is_not_json_is_refused_with_the_place(minuet: Any, waiting: str) -> None:
    called = minuet("signal", waiting, "paid", "-d", '{"amount": }')

    assert called.code == 2
    assert """data '{"amount": }' is not valid JSON""" in called.err
    assert "(byte 11)" in called.err
    assert "write JSON or @FILE" in called.err


def test_a_run_that_is_over_refuses_signals(minuet: Any, waiting: str) -> None:
    minuet("runs", "cancel", waiting)

    called = minuet("signal", waiting, "paid")

    assert called.code == 1
    assert "is CANCELLED and cannot receive signals" in called.err


def test_an_unknown_run_is_refused(minuet: Any, waiting: str) -> None:
    called = minuet("signal", "nowhere", "paid")

    assert called.code == 2
    assert "nowhere" in called.err


def test_show_says_what_the_run_waits_for_and_prints_a_command_that_works(
    minuet: Any, waiting: str
) -> None:
    shown = minuet("runs", "show", waiting).out
    record = minuet("runs", "show", waiting, "--json").json["nodes"]

    assert "waits for signal 'paid' until " in shown
    found = record["payment"]["waiting_for"]
    assert (found["kind"], found["key"]) == ("signal", "paid")
    assert found["since"] < found["until"]
    assert record["ship"]["waiting_for"] is None
    (line,) = [line for line in shown.splitlines() if line.startswith("Send signal 'paid' with: ")]
    command = shlex.split(line.partition(": ")[2])
    assert command[0] == "minuet"
    assert minuet(*command[1:]).code == 0
    assert minuet("resume", waiting).code == 0


def test_why_says_what_the_run_waits_for_and_prints_a_command_that_works(
    minuet: Any, waiting: str
) -> None:
    said = minuet("runs", "why", waiting, "payment").out

    assert "'payment' has waited for signal 'paid' since " in said
    command = shlex.split(said.splitlines()[-1].removeprefix("Send it with: "))
    assert minuet(*command[1:]).code == 0
    assert minuet("resume", waiting).code == 0


def test_a_name_that_looks_like_an_option_is_printed_so_that_it_works(
    folder: Any, minuet: Any
) -> None:
    folder.write("odd.yaml", "name: o\nnodes:\n  - {id: w, type: wait, config: {signal: -d x}}\n")
    run = minuet("run", "odd.yaml", "--timeout", "0.05", "--json").json["run_id"]

    shown = minuet("runs", "show", run).out
    command = shlex.split(shown.splitlines()[-1].partition(" with: ")[2])

    assert minuet(*command[1:]).code == 0
    assert minuet("resume", run).code == 0


def test_the_history_says_what_came_and_who_received_it(minuet: Any, waiting: str) -> None:
    minuet("signal", waiting, "paid", "-d", "5")

    told = minuet("runs", "events", waiting).out

    assert "paid: 5" in told
    assert "received the signal of event 4" in told
