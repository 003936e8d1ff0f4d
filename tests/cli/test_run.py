"""`minuet run`: exit codes, output, input, handlers."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

HELLO = """
name: hello
input: {type: object, properties: {name: {type: string}}}
nodes:
  - id: greet
    type: transform
    config: {value: "Hello {{ input.name }}"}
"""

DOUBLE = """
name: double
nodes:
  - id: first
    handler: double
    config: {number: "{{ input.number }}"}
  - id: second
    handler: double
    dependencies: [first]
    config: {number: "{{ first.output }}"}
  - id: third
    handler: double
    dependencies: [second]
    config: {number: "{{ second.output }}"}
"""

EXPLODE = """
name: explode
nodes:
  - {id: fine, type: noop}
  - {id: bad, handler: explode, dependencies: [fine]}
  - {id: never, type: noop, dependencies: [bad]}
"""

WAIT = "name: w\nnodes:\n  - {id: long, type: wait, config: {seconds: 3600}}\n"


@pytest.mark.shows("Y-01", "Y-39")
def test_a_run_that_completes_exits_with_0_and_prints_json_of_this_shape(
    folder: Any, minuet: Any
) -> None:
    folder.write("w.yaml", DOUBLE)

    called = minuet("run", "w.yaml", "-i", "number=3", "--handlers", "work_handlers", "--json")

    assert called.code == 0
    record = called.json
    duration_ms, run_id = record.pop("duration_ms"), record.pop("run_id")
    assert isinstance(duration_ms, int)
    assert len(run_id) == 36
    assert record == {
        "workflow": "double",
        "status": "COMPLETED",
        "output": {"third": 24},
        "nodes": {
            "first": {"status": "COMPLETED", "output": 6, "attempts": 1, "error": None},
            "second": {"status": "COMPLETED", "output": 12, "attempts": 1, "error": None},
            "third": {"status": "COMPLETED", "output": 24, "attempts": 1, "error": None},
        },
        "error": None,
        "compensated": None,
    }
    assert "doubling" in called.err


def test_a_run_that_fails_exits_with_1_and_names_node_and_error(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", EXPLODE)

    called = minuet("run", "w.yaml", "--handlers", "work_handlers.py", "-o", "json")

    assert called.code == 1
    record = called.json
    assert (record["status"], record["output"]) == ("FAILED", None)
    assert record["error"]["node"] == "bad"
    assert record["error"]["type"] == "ValueError"
    assert record["nodes"]["bad"]["attempts"] == 1
    assert record["nodes"]["bad"]["error"]["message"].startswith("no such luck")
    assert record["nodes"]["never"]["status"] == "FAILED"


def test_a_handlers_message_cannot_command_the_terminal(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", EXPLODE)

    called = minuet("run", "w.yaml", "--handlers", "work_handlers.py")

    assert "no such luck" in called.err
    assert "\x1b" not in called.out + called.err


def test_the_text_for_people_has_status_output_and_how_to_go_on(folder: Any, minuet: Any) -> None:
    folder.write("hello.yaml", HELLO)
    folder.write("w.yaml", EXPLODE)

    good = minuet("run", "hello.yaml", "-i", "name=Ann")
    bad = minuet("run", "w.yaml", "--handlers", "work_handlers")

    assert good.out.startswith("hello: COMPLETED in ")
    assert '"greet": "Hello Ann"' in good.out
    assert bad.out.startswith("explode: FAILED in ")
    assert "node bad: ValueError: no such luck" in bad.err
    assert "minuet runs retry" in bad.err


def test_progress_is_one_plain_line_for_each_change_when_there_is_no_terminal(
    folder: Any, minuet: Any
) -> None:
    folder.write("w.yaml", EXPLODE)

    lines = minuet("run", "w.yaml", "--handlers", "work_handlers").err.splitlines()

    words = [line.split() for line in lines if line[2:3] == ":"]
    assert [(found[1], found[2]) for found in words[1:-1]] == [
        ("fine", "COMPLETED"),
        ("bad", "FAILED"),
    ]
    assert words[0][-1] == "starts"
    assert "FAILED" in words[-1]


def test_a_cancelled_run_exits_with_3(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", WAIT + "limits: {deadline_s: 0.05}\n")

    called = minuet("run", "w.yaml", "--json")

    assert called.code == 3
    assert called.json["status"] == "CANCELLED"


def test_a_timeout_exits_with_3_and_leaves_a_run_that_can_be_resumed(
    folder: Any, minuet: Any
) -> None:
    folder.write("w.yaml", WAIT)

    called = minuet("run", "w.yaml", "--timeout", "0.05", "--json")

    assert called.code == 3
    record = called.json
    assert record["status"] == "RUNNING"
    assert record["error"]["code"] == "run-timeout"
    assert f"Go on with: minuet resume {record['run_id']}\n" in called.err
    assert minuet("resume", record["run_id"], "--timeout", "0.05").code == 3


def test_the_store_is_chosen_by_option_then_environment_then_default(
    folder: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("hello.yaml", HELLO)

    minuet("run", "hello.yaml", "-i", "name=Ann")
    monkeypatch.setenv("MINUET_STORE", "sqlite:///second.db")
    minuet("run", "hello.yaml", "-i", "name=Ann")
    minuet("run", "hello.yaml", "-i", "name=Ann", "--store", "sqlite:///third.db")
    minuet("run", "hello.yaml", "-i", "name=Ann", "--store", "memory://")

    assert sorted(file.name for file in folder.path.glob("*.db")) == [
        *("minuet.db", "second.db", "third.db"),
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-i", '{"name": "Ann"}'], {"name": "Ann"}),
        (["-i", "@input.json"], {"name": "Bob", "age": 7}),
        (["-i", "name=Ann", "age=8"], {"name": "Ann", "age": 8}),
        (["-i", "name=Ann", "-i", "tags=[1, 2]"], {"name": "Ann", "tags": [1, 2]}),
        (["-i", "@input.json", "age=9"], {"name": "Bob", "age": 9}),
        (["-i", "name=a=b"], {"name": "a=b"}),
        (["-i", 'name="7"'], {"name": "7"}),
        (["-i", "name="], {"name": ""}),
        (["-i", "@-"], {"name": "standard"}),
        ([], {}),
    ],
)
def test_input_is_json_a_file_or_pairs(
    folder: Any,
    minuet: Any,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: dict[str, Any],
) -> None:
    folder.write("echo.yaml", "name: echo\nnodes:\n  - {id: back, handler: input}\n")
    folder.write("input.json", '{"name": "Bob", "age": 7}')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"name": "standard"}')))

    called = minuet("run", "echo.yaml", *arguments, "--json")

    assert called.json["output"] == {"back": expected}


def test_the_file_may_stand_behind_the_input(folder: Any, minuet: Any) -> None:
    folder.write("hello.yaml", HELLO)

    called = minuet("run", "-i", "name=Ann", "hello.yaml")

    assert called.code == 0
    assert "Hello Ann" in called.out


def test_handlers_are_found_beside_the_workflow_file(folder: Any, minuet: Any) -> None:
    folder.write("doubling.yaml", DOUBLE)
    folder.write("doubling.py", "import helpers_beside\nfrom work_handlers import double\n")
    folder.write("helpers_beside.py", "")

    called = minuet("run", "doubling.yaml", "-i", "number=1", "--json")

    assert called.code == 0
    assert "handlers: doubling.py\n" in called.err


def test_warnings_of_the_compiler_are_shown(folder: Any, minuet: Any) -> None:
    folder.write(
        "w.yaml",
        "name: w\nnodes:\n  - {id: a, type: noop}\n  - {id: b, type: noop, dependencies: [a, a]}\n",
    )

    called = minuet("run", "w.yaml")

    assert called.code == 0
    assert "w.yaml:4:43: warning[duplicate-edge]: " in called.err


def test_an_open_run_whose_handler_is_elsewhere_is_left_alone(folder: Any, minuet: Any) -> None:
    """Each handler has a queue of its own: who does not have it does not get its tokens."""
    folder.write("hello.yaml", HELLO)
    folder.write(
        "open.yaml",
        "name: open\nnodes:\n  - {id: long, type: wait, config: {seconds: 0.3}}\n"
        "  - {id: then, handler: double, config: {number: 1}, dependencies: [long]}\n",
    )
    run = ("run", "open.yaml", "--handlers", "work_handlers", "--timeout", "0.01", "--json")
    left = minuet(*run).json["run_id"]
    sys.modules.pop("work_handlers")
    from minuet.nodes.handler import REGISTERED

    REGISTERED._tasks.pop("double")

    done = minuet("run", "hello.yaml", "-i", "name=Ann")
    refused = minuet("resume", left)

    assert done.code == 0
    assert minuet("runs", "show", left, "--json").json["status"] == "RUNNING"
    assert refused.code == 2
    assert left in refused.err
    assert "'double'" in refused.err


EACH = """
name: each
nodes:
  - {id: each, type: noop, foreach: {items: "{{ input.list }}", need: 3}}
"""


@pytest.mark.parametrize("given", ["list=7", "list=[1, 2]"])
def test_a_retry_is_not_suggested_when_it_would_fail_in_the_same_way(
    folder: Any, minuet: Any, given: str
) -> None:
    folder.write("each.yaml", EACH)

    called = minuet("run", "each.yaml", "-i", given)

    assert called.code == 1
    assert "runs retry" not in called.err
    assert "A retry would fail in the same way" in called.err


def test_a_retry_is_not_suggested_for_a_run_in_memory(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", EXPLODE)

    called = minuet("run", "w.yaml", "--handlers", "work_handlers", "--store", "memory://")

    assert called.code == 1
    assert "runs retry" not in called.err


def test_an_output_that_cannot_be_rendered_is_not_the_error_of_a_hidden_node(
    folder: Any, minuet: Any
) -> None:
    folder.write("w.yaml", "name: w\noutput: '{{ a.x }}'\nnodes:\n  - {id: a, type: noop}\n")

    called = minuet("run", "w.yaml")

    assert called.code == 1
    assert "\noutput: TemplateError: there is no field 'x'" in called.err
    assert "$" not in called.err + called.out + minuet("runs", "events", "latest").out


@pytest.mark.shows("S-36")
@pytest.mark.parametrize("command", ["run", "start"])
def test_a_run_is_given_limits_of_its_own(folder: Any, minuet: Any, command: str) -> None:
    folder.write("w.yaml", "name: w\nnodes:\n  - {id: a, type: noop, loop: {condition: 'true'}}\n")

    limits = ("--limit", "max_hops=4", "--limit", "deadline_s=60")
    called = minuet(command, "w.yaml", *limits, "--json")
    if command == "start":
        called = minuet("resume", "--json")

    assert called.code == 1
    assert called.json["error"]["code"] == "exceeded_max_hops"
    assert "max_hops is 4" in called.json["error"]["message"]


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (["max_hops"], "--limit 'max_hops': write NAME=VALUE"),
        (["max_hop=3"], 'did you mean "max_hops"?'),
        (["max_hops=none"], "max_hops: expected a whole number"),
        (["max_hops=1", "max_hops=2"], "--limit max_hops is given twice"),
    ],
)
def test_a_limit_that_is_not_one_is_refused(
    folder: Any, minuet: Any, limits: list[str], message: str
) -> None:
    folder.write("w.yaml", "name: w\nnodes:\n  - {id: a, type: noop}\n")

    called = minuet("run", "w.yaml", *(word for one in limits for word in ("--limit", one)))

    assert called.code == 2
    assert message in called.err
