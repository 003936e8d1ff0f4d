"""`minuet approvals`: what waits for people, and their decisions."""

from __future__ import annotations

import getpass
import shlex
from typing import Any

import pytest

REFUND = """
name: refund
nodes:
  - id: gate
    type: human
    human_config:
      title: "Refund {{ input.amount }} EUR?"
      description: for Ann
      approvers: [ada, finance]
      form: {type: object, required: [account]}
      timeout_hours: 48
    rejection_path: [sorry]
  - {id: pay, type: noop, dependencies: [gate]}
  - {id: sorry, type: noop}
"""


@pytest.fixture
def waiting(folder: Any, minuet: Any) -> str:
    """The id of an approval that is pending."""
    folder.write("refund.yaml", REFUND)
    run = minuet("run", "refund.yaml", "-i", "amount=5", "--timeout", "0.05", "--json").json
    return f"{run['run_id']}:gate"


def test_pending_approvals_are_listed(minuet: Any, waiting: str) -> None:
    (listed,) = minuet("approvals", "list", "--json").json

    assert (listed["id"], listed["run_id"]) == (waiting, waiting.partition(":")[0])
    assert (listed["node_id"], listed["scope"], listed["workflow"]) == ("gate", [], "refund")
    assert (listed["title"], listed["description"]) == ("Refund 5 EUR?", "for Ann")
    assert (listed["approvers"], listed["quorum"]) == (["ada", "finance"], 1)
    assert (listed["status"], listed["decision"], listed["decisions"]) == ("pending", None, [])
    assert listed["payload"] == {"amount": 5}
    assert listed["leads_to"] == {"approve": ["pay"], "reject": ["sorry"]}
    assert listed["created_at"] < listed["timeout_at"]
    assert "Refund 5 EUR?" in minuet("approvals", "list").out
    assert minuet("approvals", "list", "--status", "decided").out == "There is none.\n"


def test_a_decision_lets_the_run_go_on(minuet: Any, waiting: str) -> None:
    run = waiting.partition(":")[0]
    command = shlex.split(f"approvals approve {waiting} --as ada --comment fine")
    called = minuet(*command, "-d", '{"account": 1}')

    assert (called.code, called.out) == (0, f"{waiting}: approve by ada\n")
    assert f"minuet resume {run}" in called.err
    ended = minuet("resume", run, "--json").json
    assert ended["nodes"]["gate"]["output"]["comments"] == "fine"
    (shown,) = minuet("approvals", "list", "--run", run, "--status", "all", "--json").json
    assert shown["decisions"][0]["by"] == "ada"
    assert minuet("approvals", "list").out == "Nothing waits for a decision.\n"


def test_the_first_decision_wins_and_a_later_one_learns_of_it(minuet: Any, waiting: str) -> None:
    shown = minuet("approvals", "reject", waiting, "--as", "ada", "-d", '{"account": 1}', "--json")
    assert (shown.code, shown.json["decision"]) == (0, "reject")
    late = minuet("approvals", "approve", waiting, "--as", "eve", "--group", "finance", "--json")

    assert late.code == 1
    assert late.json["error"]["code"] == "already-decided"
    assert late.json["error"]["approval"]["decisions"][0]["by"] == "ada"
    assert "ada has decided: reject" in late.err


def test_the_user_of_the_machine_decides_and_must_be_an_approver(minuet: Any, waiting: str) -> None:
    called = minuet("approvals", "approve", waiting)

    assert called.code == 1
    assert f"is for ada, finance: {getpass.getuser()} is not one of them" in called.err
    assert "--as NAME" in called.err
    account = ("-d", '{"account": 1}')
    assert minuet("approvals", "approve", waiting, "--group", "finance", *account).code == 0


def test_data_that_does_not_fit_the_form_is_refused(minuet: Any, waiting: str) -> None:
    called = minuet("approvals", "approve", waiting, "--as", "ada", "-d", "{}")

    assert called.code == 2
    assert "account" in called.err


def test_an_approval_that_does_not_exist_is_not_found(minuet: Any, waiting: str) -> None:
    called = minuet("approvals", "show", waiting.replace("gate", "gat"))

    assert called.code == 2
    assert f"the run has {waiting}" in called.err


def test_show_says_what_is_asked_of_whom_and_how_to_decide(minuet: Any, waiting: str) -> None:
    shown = minuet("approvals", "show", waiting).out

    assert "Refund 5 EUR?: pending\nfor Ann\n" in shown
    assert "who may decide: ada, finance" in shown
    assert "approve leads to: pay; reject to: sorry" in shown
    assert f"minuet approvals approve {waiting}" in shown


def test_the_commands_about_runs_say_who_must_decide_and_how(
    minuet: Any, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run = waiting.partition(":")[0]

    assert f"minuet approvals approve {waiting}" in minuet("runs", "show", run).out
    why = minuet("runs", "why", run, "gate").out
    assert "'gate' has waited for a decision of ada or finance since" in why
    assert "Who may decide: ada, finance" in why
    assert f"minuet approvals approve {waiting}" in why
    minuet("approvals", "approve", waiting, "--as", "ada", "--comment", "ok", "-d", '{"account":1}')
    events = minuet("runs", "events", run).out
    assert "asks ada, finance: Refund 5 EUR? for 2 d" in events
    assert "approve by ada (ok)" in events
