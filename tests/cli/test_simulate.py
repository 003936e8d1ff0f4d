"""`minuet simulate`: what can happen to a workflow is told, with a seed that shows it again."""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHOP = """
name: shop
nodes:
  - {id: quote, handler: quote}
  - {id: pay, handler: pay, dependencies: [quote], config: {amount: "{{ quote.amount }}"}}
  - {id: receipt, handler: receipt, dependencies: [pay]}
"""

SHOP_HANDLERS = """
import asyncio
import minuet

@minuet.task(effects="none")
def quote() -> dict:
    return {"amount": 7}

@minuet.task
async def pay(amount: int) -> dict:
    await asyncio.sleep(0.2)
    return {"paid": amount}

@minuet.task(effects="idempotent")
def receipt(ctx: minuet.Context) -> dict:
    number = ctx.step("number", lambda: 41) + 1
    print("receipt", number)
    return {"number": number}
"""

#: Handlers have no troubles of their own.
WELL = [word for name in ("fail", "retry", "slow", "crash") for word in ("--without", name)]


def findings(called: Any, code: str) -> list[dict[str, Any]]:
    return [found for found in called.json["findings"] if found["code"] == code]


@pytest.fixture
def shop(folder: Any) -> Any:
    folder.write("shop.yaml", SHOP)
    folder.write("shop_handlers.py", SHOP_HANDLERS)
    return folder


# ── repeated handlers ───────────────────────────────────────────────────────────────────────


def test_a_payment_that_may_be_made_twice_is_told_with_a_seed_that_shows_it(
    shop: Any, minuet: Any
) -> None:
    real = ["simulate", "shop.yaml", "--handlers", "shop_handlers.py"]

    called = minuet(*real, "--seeds", "40", "--json")

    (found,) = findings(called, "repeated")
    assert (found["node"], found["severity"]) == ("pay", "warning")
    assert "it had returned" in found["message"]
    assert "idempotency_key" in found["hint"]

    again = minuet(*real, "--seed", str(found["seed"]))
    assert "warning[repeated]: pay: handler 'pay' ran" in again.out
    assert len(re.findall("starts the handler of pay", again.out)) >= 2
    assert again.out.count("pay                   COMPLETED") == 1


def test_what_handlers_declare_counts_for_their_stubs(shop: Any, minuet: Any) -> None:
    called = minuet(
        *("simulate", "shop.yaml", "--handlers", "shop_handlers.py", "--stubs"),
        *("--seeds", "40", "--json"),
    )

    assert [found["node"] for found in findings(called, "repeated")] == ["pay"]


def test_without_declarations_every_handler_that_runs_twice_is_told(shop: Any, minuet: Any) -> None:
    called = minuet("simulate", "shop.yaml", "--seeds", "60", "--json")

    told = [found["node"] for found in findings(called, "repeated")]
    assert told == ["quote", "pay", "receipt"]


def test_nothing_runs_twice_where_nothing_goes_wrong(shop: Any, minuet: Any) -> None:
    troubles = ("fail", "retry", "slow", "crash", "kill", "pause", "network", "store", "clock")
    without = [word for name in troubles for word in ("--without", name)]

    called = minuet("simulate", "shop.yaml", "--seeds", "20", "--strict", *without)

    assert called.code == 0
    assert called.out == (
        "shop: 20 seeds (0 to 19): 20 COMPLETED; 3 of 3 turns taken; 0 errors, 0 warnings\n"
    )


def test_effects_that_do_not_exist_are_refused(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", "name: w\nnodes: [{id: a, handler: a}]\n")
    folder.write("odd.py", "import minuet\n@minuet.task(effects='twice')\ndef a(): ...\n")

    called = minuet("simulate", "w.yaml", "--handlers", "odd.py")

    assert called.code == 2
    assert "effects must be 'none', 'idempotent' or 'once', not 'twice'" in called.err


# ── failures ────────────────────────────────────────────────────────────────────────────────


def test_a_failure_that_nothing_handles_is_an_error(folder: Any, minuet: Any) -> None:
    folder.write(
        "w.yaml",
        "name: w\nnodes:\n"
        "  - {id: a, handler: a, timeout_seconds: 1}\n"
        "  - {id: b, handler: b, dependencies: [a]}\n",
    )

    called = minuet("simulate", "w.yaml", "--seeds", "60", "--json")

    assert called.code == 1
    told = [(found["node"], found["message"]) for found in findings(called, "unhandled-failure")]
    for node in ("a", "b"):
        assert (node, "the run fails: NonRetryable: simulated: it fails permanently") in told
        assert any(node == at and "workers died or hung" in text for at, text in told)
    assert any(node == "a" and "did not finish within 1 s" in text for node, text in told)
    assert not any(node == "b" and "did not finish within" in text for node, text in told)
    seed = findings(called, "unhandled-failure")[0]["seed"]
    assert minuet("simulate", "w.yaml", "--seed", str(seed)).code == 1


def test_a_failure_that_on_error_handles_is_none(folder: Any, minuet: Any) -> None:
    folder.write(
        "w.yaml",
        "name: w\nnodes:\n"
        "  - {id: a, handler: a, timeout_seconds: 1, on_error: [mend]}\n"
        "  - {id: b, handler: b, dependencies: [a], on_error: continue}\n"
        "  - {id: mend, type: noop}\n",
    )

    called = minuet("simulate", "w.yaml", "--seeds", "60", "--json")

    assert called.code == 0
    assert called.json["ends"] == {"COMPLETED": 60}
    assert called.json["turns_taken"] == called.json["turns"] == 5


def test_retries_that_do_not_suffice_are_an_error(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", "name: w\nnodes:\n  - {id: a, handler: a, retry: 1}\n")
    passing = ["--without", "fail", "--without", "crash", "--without", "slow"]

    once = minuet("simulate", "w.yaml", "--seeds", "40", "--json", *passing)
    folder.write("w.yaml", "name: w\nnodes:\n  - {id: a, handler: a, retry: 2}\n")
    twice = minuet("simulate", "w.yaml", "--seeds", "40", "--json", *passing)

    (found,) = findings(once, "unhandled-failure")
    assert "it fails at the first attempt" in found["message"]
    assert not findings(twice, "unhandled-failure")


def test_reading_the_output_of_a_node_that_may_be_skipped_is_found(
    folder: Any, minuet: Any
) -> None:
    folder.write(
        "w.yaml",
        """
name: w
nodes:
  - id: check
    handler: check
    branch: {rules: [{when: output.ok, next_nodes: [fast]}], default: [slow]}
  - {id: fast, handler: fast}
  - {id: slow, handler: slow}
  - {id: end, type: transform, dependencies: [fast, slow], config: {value: "{{ fast.price }}"}}
""",
    )

    called = minuet("simulate", "w.yaml", "--seeds", "20", "--json", *WELL)

    (found,) = findings(called, "unhandled-failure")
    assert found["node"] == "end"
    assert "node 'fast' has no output here" in found["message"]


def test_a_handler_that_never_returns_hangs_its_run(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", "name: w\nnodes: [{id: a, handler: a}]\n")
    folder.write(
        "slow.py",
        "import asyncio, minuet\n@minuet.task(effects='none')\n"
        "async def a():\n    await asyncio.Event().wait()\n",
    )

    called = minuet("simulate", "w.yaml", "--handlers", "slow.py", "--seeds", "2", "--json")

    assert called.code == 1
    (found,) = findings(called, "hang")
    assert (found["node"], found["seeds"]) == ("a", 2)
    assert called.json["ends"] == {"HANGS": 2}


def test_a_failure_of_a_real_handler_is_told_as_it_is(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", "name: w\nnodes: [{id: a, handler: a, config: {n: 3}}]\n")
    folder.write(
        "real.py",
        "import minuet\n@minuet.task(effects='none')\n"
        "def a(n: int):\n    print('noise')\n    raise ValueError(f'no {n}')\n",
    )

    called = minuet("simulate", "w.yaml", "--handlers", "real.py", "--seeds", "3", "--json")

    (found,) = findings(called, "unhandled-failure")
    assert found["message"] == "the run fails: ValueError: no 3"
    assert found["seeds"] == 3


def test_a_sync_handler_that_does_not_return_ends_the_simulation(
    folder: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minuet.rehearsal import lockstep

    monkeypatch.setattr(lockstep, "PATIENCE_S", 0.1)
    folder.write("w.yaml", "name: w\nnodes: [{id: a, handler: stuck}]\n")
    folder.write(
        "stuck_handlers.py",
        "import threading, minuet\nreleased = threading.Event()\n"
        "@minuet.task\ndef stuck():\n    released.wait()\n",
    )

    called = minuet("simulate", "w.yaml", "--handlers", "stuck_handlers.py")
    sys.modules.pop("stuck_handlers").released.set()

    assert called.code == 2
    assert "handler 'stuck' did not return within 0.1 s of real time" in called.err


def test_handlers_live_in_virtual_time(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", "name: w\nnodes: [{id: a, handler: nap, timeout_seconds: 900}]\n")
    folder.write(
        "naps.py",
        "import asyncio, random, minuet\n@minuet.task(effects='none')\nasync def nap():\n"
        "    began = asyncio.get_running_loop().time()\n"
        "    await asyncio.sleep(300)\n"
        "    return [asyncio.get_running_loop().time() - began, random.random()]\n",
    )
    command = ["simulate", "w.yaml", "--handlers", "naps.py", "--seed", "0", "--json"]

    first, second = minuet(*command), minuet(*command)

    (output,) = (
        line["event"]["output"]
        for line in first.json["story"]
        if line.get("event", {}).get("type") == "node.completed"
    )
    assert output[0] == pytest.approx(300)
    assert first.out == second.out


# ── limits ──────────────────────────────────────────────────────────────────────────────────

LOOP = """
name: w
nodes:
  - id: a
    handler: a
    loop: {{while: output.more, max_iterations: 4{path}}}
  - {{id: late, type: noop}}
"""


def test_a_loop_that_runs_out_of_iterations_is_found(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", LOOP.format(path=""))

    called = minuet("simulate", "w.yaml", "--seeds", "20", "--json", *WELL)

    assert called.code == 1
    (limit,) = findings(called, "limit")
    assert limit["message"].startswith("max_iterations is reached")
    (failure,) = findings(called, "unhandled-failure")
    assert "timeout_path" in failure["hint"]


def test_a_loop_with_a_timeout_path_only_says_that_it_is_taken(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", LOOP.format(path=", timeout_path: [late]"))

    called = minuet("simulate", "w.yaml", "--seeds", "20", "--json", *WELL)

    assert called.code == 0
    (limit,) = findings(called, "limit")
    assert limit["message"] == "max_iterations is reached: the loop takes its timeout_path"
    assert minuet("simulate", "w.yaml", "--seeds", "20", "--strict", *WELL).code == 1


@pytest.mark.parametrize(
    ("limits", "nodes", "told"),
    [
        ("max_hops: 2", "", "max_hops"),
        ("max_fanout: 1", "  - {id: d, type: noop, dependencies: [a]}\n", "max_fanout"),
        ("deadline_s: 60", "  - {id: d, type: wait, config: {seconds: 90}}\n", "deadline_s"),
        ("max_output_bytes: 9", "", "max_output_bytes"),
    ],
)
def test_a_limit_that_is_reached_is_named(
    folder: Any, minuet: Any, limits: str, nodes: str, told: str
) -> None:
    folder.write(
        "w.yaml",
        f"name: w\nlimits: {{{limits}}}\nnodes:\n"
        "  - {id: a, handler: input}\n"
        "  - {id: b, type: noop, dependencies: [a]}\n"
        "  - {id: c, type: noop, dependencies: [b]}\n" + nodes,
    )

    called = minuet("simulate", "w.yaml", "--seeds", "3", "--json", "-i", "text=0123456789")

    assert told in [found["message"].split()[0] for found in findings(called, "limit")]


# ── what is never reached ───────────────────────────────────────────────────────────────────


def test_a_branch_that_no_output_can_take_is_told(folder: Any, minuet: Any) -> None:
    folder.write(
        "w.yaml",
        """
name: w
nodes:
  - id: check
    handler: check
    branch:
      rules:
        - {when: output.amount > 1000, next_nodes: [large]}
        - {when: 'output.kind == "gift"', next_nodes: [gift]}
        - {when: output.amount > 5000, next_nodes: [huge]}
      default: [small]
  - {id: large, type: noop}
  - {id: gift, type: noop}
  - {id: huge, type: noop}
  - {id: small, type: noop}
""",
    )

    called = minuet("simulate", "w.yaml", "--seeds", "40", "--json", *WELL)

    assert called.code == 0
    (found,) = findings(called, "never-taken")
    assert found["message"] == (
        "rule 3 (output.amount > 5000) never decided, so it never went to huge"
    )
    assert not findings(called, "never-reached")


def test_a_run_that_is_too_long_is_cut_off_and_told(
    folder: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minuet.rehearsal import stage

    monkeypatch.setattr(stage, "EVENTS_MAX", 100)
    folder.write(
        "w.yaml",
        "name: w\nnodes:\n  - {id: a, type: noop, "
        "loop: {while: iteration >= 0, max_iterations: 9000}}\n",
    )

    called = minuet("simulate", "w.yaml", "--seeds", "1", "--json")

    assert called.code == 0
    (found,) = findings(called, "too-long")
    assert "max_iterations" in found["hint"]
    assert called.json["ends"] == {"TOO LONG": 1}


def test_a_long_wait_is_skipped(folder: Any, minuet: Any) -> None:
    folder.write(
        "w.yaml",
        "name: w\nnodes:\n  - {id: a, type: wait, config: {seconds: 31536000}}\n"
        "  - {id: b, type: noop, dependencies: [a]}\n",
    )

    called = minuet("simulate", "w.yaml", "--seeds", "10", "--json")

    assert called.json["ends"] == {"COMPLETED": 10}


# ── the same again ──────────────────────────────────────────────────────────────────────────


def test_the_same_seeds_print_the_same_in_every_interpreter(
    shop: Any, spawn: Any, finish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = []
    for number in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", number)
        many = finish(spawn("simulate", "shop.yaml", "--seeds", "25", "--json"))
        real = finish(
            spawn("simulate", "shop.yaml", "--handlers", "shop_handlers.py", "--seed", "4")
        )
        printed.append((many.code, many.out, real.code, real.out, real.err))

    assert printed[0] == printed[1]
    assert "receipt 42" in printed[0][-1]


def test_a_seed_is_the_same_alone_and_among_others(shop: Any, minuet: Any) -> None:
    one = minuet("simulate", "shop.yaml", "--seed", "7", "--json")
    started = minuet("simulate", "shop.yaml", "--start", "7", "--seeds", "1", "--json")
    other = minuet("simulate", "shop.yaml", "--seed", "8", "--json")

    assert one.json["history"] == started.json["history"] != other.json["history"]
    assert one.json["story"][0]["event"]["type"] == "run.created"


# ── telling ─────────────────────────────────────────────────────────────────────────────────


def test_plain_lines_tell_how_far_it_is(shop: Any, minuet: Any) -> None:
    called = minuet("simulate", "shop.yaml", "--seeds", "20", *WELL)

    lines = called.err.splitlines()
    assert len(lines) == 10
    assert re.fullmatch(r"20 of 20 seeds, \d findings?", lines[-1])
    assert "add --seed and the number" in called.out


def test_on_a_terminal_one_line_tells_how_far_it_is(shop: Any) -> None:
    mine, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "minuet", "simulate", "shop.yaml", "--seeds", "3", *WELL],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    seen = b""
    try:
        while data := os.read(mine, 65536):
            seen += data
    except OSError:
        pass  # how Linux says that the other end is closed
    os.close(mine)

    assert child.wait(timeout=60) == 0
    assert b"\r\x1b[K3 of 3 seeds, " in seen
    assert seen.endswith(b"\r\x1b[K")


def test_json_stands_alone_and_holds_everything(shop: Any, minuet: Any) -> None:
    called = minuet("simulate", "shop.yaml", "--start", "5", "--seeds", "10", "--json")

    assert called.err == ""
    assert called.json.keys() == {
        *("ok", "workflow", "start", "seeds", "ends", "findings"),
        *("turns", "turns_taken", "history"),
    }
    assert (called.json["start"], called.json["seeds"]) == (5, 10)
    assert sum(called.json["ends"].values()) == 10
    for found in called.json["findings"]:
        assert found.keys() == {
            *("severity", "code", "node", "message", "hint", "seed", "seeds"),
        }


def test_a_broken_rule_of_the_engine_is_not_blamed_on_the_workflow(
    shop: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.planted.bugs import BUGS

    from minuet.rehearsal import stage

    bug = BUGS["send-apart"]
    monkeypatch.setattr(
        stage, "ModelStore", lambda clock: bug.store(clock, transition=bug.transition)
    )

    with bug.patch():
        called = minuet("simulate", "shop.yaml", "--seeds", "5", "--json")

    assert called.code == 1
    found = findings(called, "engine")
    assert found
    assert "please report it" in found[0]["hint"]


# ── input ───────────────────────────────────────────────────────────────────────────────────

NEEDS_INPUT = """
name: w
input:
  type: object
  required: [kind, count]
  properties:
    kind: {enum: [a, b]}
    count: {type: integer, minimum: 1, maximum: 9}
nodes:
  - id: split
    type: decision
    branch: {rules: [{when: 'input.kind == "a"', next_nodes: [one]}], default: [other]}
  - {id: one, type: noop}
  - {id: other, type: noop}
"""


def test_without_an_input_each_seed_draws_one_that_fits(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", NEEDS_INPUT)

    drawn = minuet("simulate", "w.yaml", "--seeds", "10", "--json")
    given = minuet("simulate", "-i", "kind=a", "count=2", "w.yaml", "--seeds", "10", "--json")

    assert drawn.json["findings"] == []
    assert [found["node"] for found in findings(given, "never-taken")] == ["split"]


def test_an_input_that_cannot_be_drawn_is_asked_for(folder: Any, minuet: Any) -> None:
    schema = "{type: object, required: [x], properties: {x: {type: string, pattern: '^[0-9]{9}$'}}}"
    folder.write("w.yaml", f"name: w\ninput: {schema}\nnodes: [{{id: a, type: noop}}]\n")

    called = minuet("simulate", "w.yaml")

    assert called.code == 2
    assert "pass one with -i" in called.err
    assert minuet("simulate", "w.yaml", "-i", 'x="123456789"', "--seeds", "2").code == 0


def test_what_handlers_take_by_their_hints_is_drawn_through_nodes_that_pass_it_on(
    folder: Any, minuet: Any
) -> None:
    folder.write(
        "w.yaml",
        """
name: w
nodes:
  - {id: order, type: transform, config: {value: {count: "{{ input.order.count }}", tags: []}}}
  - {id: pack, handler: pack_some, dependencies: [order], config: {count: "{{ order.count }}"}}
""",
    )
    folder.write(
        "packing.py",
        "import minuet\n@minuet.task(effects='none')\n"
        "def pack_some(count: int) -> dict:\n    return {'packed': count}\n",
    )

    called = minuet("simulate", "w.yaml", "--handlers", "packing.py", "--seeds", "20", "--json")

    assert called.json["ends"] == {"COMPLETED": 20}
    assert called.json["findings"] == []


def test_the_troubles_that_can_be_left_out_are_those_that_there_are(root: Path) -> None:
    from minuet.cli.arguments import TROUBLES
    from minuet.rehearsal import scenario

    guide = (root / "docs/guides/simulate-your-workflow.md").read_text(encoding="utf-8")

    assert list(TROUBLES) == list(scenario.TROUBLES)
    assert [name for name in TROUBLES if f"| `{name}` |" not in guide] == []


# ── wrong usage ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "missing argument: WORKFLOW"),
        (["missing.yaml"], "missing.yaml"),
        (["broken.yaml"], "broken.yaml:2"),
        (["shop.yaml", "--seeds", "0"], "'0' is not a whole number of 1 or more"),
        (["shop.yaml", "--seed", "x"], "'x' is not a whole number of 0 or more"),
        (["shop.yaml", "--stubs"], "--stubs says what to do with --handlers"),
        (["shop.yaml", "--seed", "1", "--start", "2"], "give one of them"),
        (["shop.yaml", "--without", "rain"], "invalid choice: 'rain'"),
        (["shop.yaml", "--handlers", "absent.py"], "there is no file 'absent.py'"),
        (["odd.yaml", "--handlers", "work_handlers.py"], "there is no handler 'nobody'"),
        (["input.yaml", "-i", "kind=c", "count=2"], "the input does not fit the workflow"),
        (["shop.yaml", "-i", "{"], "is not valid JSON"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_simulated(
    shop: Any, minuet: Any, arguments: list[str], told: str
) -> None:
    shop.write("broken.yaml", "name: w\nnodes: [{id: a, handler: a, dependencies: [nobody]}]\n")
    shop.write("odd.yaml", "name: w\nnodes: [{id: a, handler: nobody}]\n")
    shop.write("input.yaml", NEEDS_INPUT)

    called = minuet("simulate", *arguments)

    assert called.code == 2
    assert called.out == ""
    assert told in called.err


# ── node types that reach outside ───────────────────────────────────────────────────────────

OUTSIDE = """
name: outside
nodes:
  - id: fetch
    type: http
    config: {url: "http://127.0.0.1:PORT/", params: {q: "{{ input.q }}"}}
    branch: {rules: [{condition: "output.status >= 500", next_nodes: [ask]}], default: [post]}
  - id: ask
    type: llm
    dependencies: [fetch]
    config: {model: m, base_url: "http://127.0.0.1:PORT/", prompt: "{{ fetch.body.text }}"}
  - id: post
    dependencies: [fetch]
    handler: call_external_service
    config: {url: "http://127.0.0.1:PORT/", json: "{{ fetch.body.amount }}"}
  - id: child
    type: workflow
    dependencies: [post]
    config: {workflow: shipping, input: "{{ post.status }}"}
  - id: pay
    handler: pay
    dependencies: [child]
    config: {amount: 3}
"""


@pytest.mark.parametrize("stubs", [(), ("--stubs",)])
def test_nothing_outside_is_called_and_every_turn_is_taken(
    folder: Any, minuet: Any, stubs: tuple[str, ...]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        folder.write("outside.yaml", OUTSIDE.replace("PORT", str(listener.getsockname()[1])))
        folder.write("handlers.py", SHOP_HANDLERS)
        called = minuet(
            *("simulate", "outside.yaml", "--handlers", "handlers.py", *stubs),
            *("-i", "q=1", "--seeds", "40", "--json", *WELL),
        )
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()

    report = called.json
    assert report["ends"] == {"COMPLETED": 40}
    assert {found["node"] for found in findings(called, "repeated")} <= {"pay"}
    assert not findings(called, "never-taken")


# ── signals ─────────────────────────────────────────────────────────────────────────────────

PAYMENT = """
name: payment
nodes:
  - {id: payment, type: wait, config: {signal: paid}}
  - {id: ship, type: noop, dependencies: [payment]}
"""

TIMED_PAYMENT = """
name: payment
nodes:
  - id: payment
    type: wait
    config: {signal: paid, timeout_seconds: 86400}
    on_error: [remind]
  - id: ship
    type: transform
    dependencies: [payment]
    config: {value: "{{ payment.output.amount }}"}
  - {id: remind, type: noop}
"""


def test_a_signal_comes_in_most_seeds_and_a_wait_without_end_is_reported(
    folder: Any, minuet: Any
) -> None:
    folder.write("payment.yaml", PAYMENT)

    called = minuet("simulate", "payment.yaml", "--seeds", "20", "--json")

    assert called.code == 0
    assert called.json["ends"].keys() == {"COMPLETED", "WAITS"}
    (found,) = called.json["findings"]
    assert (found["code"], found["node"]) == ("waits", "payment")
    assert "the run waits for signal 'paid'" in found["message"]


def test_both_ways_of_a_wait_with_a_timeout_are_taken(folder: Any, minuet: Any) -> None:
    folder.write("payment.yaml", TIMED_PAYMENT)

    called = minuet("simulate", "payment.yaml", "--seeds", "20", "--json")

    assert called.json["ends"] == {"COMPLETED": 20}
    assert called.json["findings"] == []


REFUND = """
name: refund
nodes:
  - id: gate
    type: human
    human_config: {approvers: [finance], quorum: 2, form: {type: integer}, timeout_hours: 48}
    rejection_path: [sorry]
  - {id: pay, type: noop, dependencies: [gate]}
  - {id: sorry, type: noop}
"""


def test_people_decide_both_ways_in_simulated_runs(folder: Any, minuet: Any) -> None:
    folder.write("refund.yaml", REFUND)

    called = minuet("simulate", "refund.yaml", "--seeds", "20", "--json")

    assert called.json["ends"] == {"COMPLETED": 20}
    assert called.json["findings"] == []


def test_a_rejection_without_a_path_and_an_approval_without_an_end_are_reported(
    folder: Any, minuet: Any
) -> None:
    folder.write("ask.yaml", "name: ask\nnodes: [{id: gate, type: human}]\n")

    called = minuet("simulate", "ask.yaml", "--seeds", "20", "--json")

    assert called.code == 1
    found = {one["code"]: one for one in called.json["findings"]}
    assert found.keys() == {"unhandled-failure", "waits"}
    assert "rejection_path" in found["unhandled-failure"]["hint"]


def test_nodes_that_are_held_are_tried_again_skipped_or_let_fail(folder: Any, minuet: Any) -> None:
    folder.write(
        "hold.yaml",
        "name: hold\non_dlq: hold\nnodes:\n  - {id: pay, handler: pay}\n"
        "  - {id: each, handler: each, foreach: {items: [1, 2]}, dependencies: [pay]}\n",
    )

    called = minuet("simulate", "hold.yaml", "--seeds", "30", "--json")

    # What people decide is not a mistake of the document.
    assert called.code == 0
    assert called.json["ends"].keys() == {"COMPLETED", "FAILED", "WAITS"}
    found = {one["code"]: one for one in called.json["findings"]}
    assert found.keys() == {"repeated", "waits"}
    assert "is held, and the run waits until somebody decides" in found["waits"]["message"]
    missing = {"tried again", "skipped by somebody", "it fails by somebody"}
    for seed in range(60):
        story = minuet("simulate", "hold.yaml", "--seed", str(seed)).out
        missing = {what for what in missing if what not in story}
        if not missing:
            break
    assert not missing


@pytest.mark.parametrize(
    "config",
    [
        "type: http, config: {url: 'https://x.example/{{ item }}'}",
        "type: workflow, config: {workflow: other}",
    ],
)
def test_a_list_of_calls_or_child_runs_is_played_by_stubs(
    folder: Any, minuet: Any, config: str
) -> None:
    folder.write(
        "w.yaml",
        f"name: w\nnodes:\n  - {{id: a, foreach: {{items: [1, 2]}}, {config}}}\n",
    )

    called = minuet("simulate", "w.yaml", "--seeds", "10", "--json")

    assert called.json["ends"].get("COMPLETED", 0) > 0
    assert "KeyError" not in called.out
