"""Every example runs through the real command, and does what its text says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .. import programs

EXAMPLES: dict[str, tuple[list[str], Any]] = {
    "hello/hello.yaml": (["-i", "name=Ann"], "Hello Ann!"),
    "order/order.yaml": (
        ["-i", "@{folder}/order.json"],
        {"ship": {"status": "shipped", "customer": "Ann", "boxes": 2, "total": 560}},
    ),
    "fan_out/fan_out.yaml": (
        ["-i", "text=to be or not to be"],
        {"report": {"words": 6, "letters": 13, "longest": "not"}},
    ),
    "foreach/foreach.yaml": (
        ["-i", "@{folder}/orders.json"],
        {"total": {"orders": ["A1: 7", "B2: 10"], "sum": 17}},
    ),
    "wait/wait.yaml": (["-i", "seconds=0.1"], {"go": "Then let us go."}),
    "placement/placement.yaml": (
        ["--name", "gpu-1", "--capability", "gpu=1", "--label", "ssd"],
        {"report": "trained on 1000 rows in 3 epochs"},
    ),
    "node_type/node_type.yaml": (
        ["-i", "text=My parcel is late"],
        {"escalate": "a person reads: My parcel is late"},
    ),
    "child_run/child_run.yaml": (
        ["-i", "customer=Ann", "-i", "weight=1200"],
        {"confirm": "Dear Ann, your parcel costs 9."},
    ),
    "large_file/large_file.yaml": (
        ["-i", "rows=50000"],
        {"summarize": {"bytes": 792_641, "sum": 41_665_416_675_000}},
    ),
    "documents/documents.yaml": (
        ["-i", "@{folder}/contract.json"],
        {
            "filed": {
                "pages": 3,
                "words": 14,
                "summary": "The parties agree / The price is fixed / The parties sign",
                "seals": ["52bde2c9d2dd4c87", "5cdb1d9e6399066b", "75f42af6ec138009"],
            }
        },
    ),
    "payment/payment.yaml": (
        ["-i", "order=A-1", "-i", "seconds=0.01"],
        {"give_up": "A-1 is cancelled."},
    ),
    "approval/refund.yaml": (
        ["-i", "customer=Ann", "-i", "amount=20"],
        {"pay": "20 EUR go to Ann"},
    ),
    "isolation/isolation.yaml": (
        ["-i", '{{"pictures": ["cat", "crash", "slow"]}}'],
        [
            "cat converted",
            {
                "error": {
                    "code": "process_died",
                    "type": "ProcessDied",
                    "message": "the process of the attempt died: it was ended by signal 11 "
                    "(SIGSEGV)",
                }
            },
            "slow in a low resolution, after 1 attempt",
        ],
    ),
    "retry/retry.yaml": ([], {"answer": {"price": 42, "attempts": 3, "rating": "unknown"}}),
}


def run(root: Path, tmp_path: Path, *arguments: str) -> programs.Finished:
    environment = {**os.environ, "MINUET_STORE": "sqlite:///examples.db"}
    return programs.run(*arguments, folder=tmp_path, environment=environment)


@pytest.mark.shows("Y-02", "Y-17")
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_completes_with_its_output(root: Path, tmp_path: Path, name: str) -> None:
    arguments, expected = EXAMPLES[name]
    file = root / "examples" / name
    given = [argument.format(folder=file.parent) for argument in arguments]

    finished = run(root, tmp_path, "-m", "minuet", "run", str(file), *given, "--json")

    assert finished.returncode == 0, finished.stderr
    assert json.loads(finished.stdout)["output"] == expected


@pytest.mark.shows("Y-11")
@pytest.mark.parametrize(
    ("order", "status", "skipped"),
    [
        ({"price": 10, "quantity": 2}, "shipped", {"approve", "decline"}),
        ({"price": 900, "quantity": 1}, "shipped", {"accept", "decline"}),
        ({"price": 10, "quantity": 101}, "declined", {"approve", "accept", "pack", "ship"}),
    ],
)
def test_order_takes_the_branch_that_fits(
    root: Path, tmp_path: Path, order: dict[str, Any], status: str, skipped: set[str]
) -> None:
    file = root / "examples/order/order.yaml"
    given = json.dumps({"customer": "Bob", "items": [{"name": "x", **order}]})

    finished = run(root, tmp_path, "-m", "minuet", "run", str(file), "-i", given, "--json")

    record = json.loads(finished.stdout)
    (output,) = record["output"].values()
    assert output["status"] == status
    assert {
        name for name, node in record["nodes"].items() if node["status"] == "SKIPPED"
    } == skipped


def test_payment_ships_when_the_signal_comes(root: Path, tmp_path: Path) -> None:
    file = str(root / "examples/payment/payment.yaml")
    begun = run(
        *(root, tmp_path, "-m", "minuet", "run", file, "-i", "order=A-1"),
        *("--timeout", "0.05", "--json"),
    )
    run_id = json.loads(begun.stdout)["run_id"]

    sent = run(root, tmp_path, "-m", "minuet", "signal", run_id, "paid", "-d", '{"amount": 5}')
    ended = run(root, tmp_path, "-m", "minuet", "resume", run_id, "--json")

    assert sent.returncode == 0, sent.stderr
    record = json.loads(ended.stdout)
    assert record["output"] == {"ship": "A-1 is on its way."}
    assert record["nodes"]["payment"]["output"] == {"amount": 5}
    assert record["nodes"]["remind"]["status"] == "SKIPPED"


@pytest.mark.parametrize(
    ("verb", "output"),
    [("approve", {"pay": "250 EUR go to Ann"}), ("reject", {"refuse": "no refund: not now"})],
)
def test_refund_goes_where_the_decision_leads(
    root: Path, tmp_path: Path, verb: str, output: dict[str, str]
) -> None:
    file = str(root / "examples/approval/refund.yaml")
    begun = run(
        *(root, tmp_path, "-m", "minuet", "run", file, "-i", "customer=Ann", "amount=250"),
        *("--timeout", "0.05", "--json"),
    )
    run_id = json.loads(begun.stdout)["run_id"]

    decided = run(
        *(root, tmp_path, "-m", "minuet", "approvals", verb, run_id, "--as", "ada"),
        *("--comment", "not now", "-d", '{"account": "1-23"}'),
    )
    ended = run(root, tmp_path, "-m", "minuet", "resume", run_id, "--json")

    assert decided.returncode == 0, decided.stderr
    assert json.loads(ended.stdout)["output"] == output


def test_embedding_does_what_it_prints(root: Path, tmp_path: Path) -> None:
    program = str(root / "examples/embedding/orders.py")

    first = run(root, tmp_path, program, "sqlite:///orders.db")
    second = run(root, tmp_path, program, "sqlite:///orders.db")

    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert first.stdout.splitlines()[:3] == [
        "the same run: True",
        "2 pieces: {'total': 60, 'discount': 0}",
        "5 pieces: {'total': 150, 'discount': 10}",
    ]
    assert first.stdout.splitlines()[-1] == 'unknown-node-type - did you mean "noop"?'


def test_services_are_called_and_tried_again(root: Path, tmp_path: Path) -> None:
    folder = root / "examples/services"
    with subprocess.Popen(
        [sys.executable, str(folder / "server.py")], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        try:
            finished = run(
                *(root, tmp_path, "-m", "minuet", "run", str(folder / "services.yaml"), "--json"),
                *("-i", f"url={url}", "-i", "sku=tea", "-i", "review=I love it"),
            )
        finally:
            server.terminate()

    assert finished.returncode == 0, finished.stderr
    record = json.loads(finished.stdout)
    assert record["output"] == {"offer": 11, "key": 32}
    assert record["nodes"]["price"]["attempts"] == 2
    assert record["nodes"]["judge"]["output"]["json"] == {"likes": True}


def test_an_agent_uses_its_tools_and_chooses_the_next_node(root: Path, tmp_path: Path) -> None:
    folder = root / "examples/agent"
    ticket = {"customer": "Ann", "text": "Where is my parcel? I want a refund"}
    with subprocess.Popen(
        [sys.executable, str(folder / "model.py")], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        given = json.dumps({"url": server.stdout.readline().strip(), **ticket})
        try:
            finished = run(
                *(root, tmp_path, "-m", "minuet", "run", str(folder / "triage.yaml"), "--json"),
                *("-i", given),
            )
        finally:
            server.terminate()

    assert finished.returncode == 0, finished.stderr
    record = json.loads(finished.stdout)
    known = "order A-1 is lost; help: We refund what was lost."
    assert record["output"] == {"refund": f"refund for Ann: {known}"}
    agent = record["nodes"]["agent"]["output"]
    assert [call["tool"] for call in agent["tool_calls"]] == ["find_orders", "search_help"]
    assert agent["usage"]["total_tokens"] == 660
    assert record["nodes"]["answer"]["status"] == "SKIPPED"


def test_a_workflow_written_in_python_runs_and_prints_its_document(
    root: Path, tmp_path: Path
) -> None:
    program = str(root / "examples/in_python/order.py")

    ran = run(root, tmp_path, program)
    (tmp_path / "order.yaml").write_text(run(root, tmp_path, program, "--yaml").stdout)
    again = run(
        *(root, tmp_path, "-m", "minuet", "run", "order.yaml", "-i", "order_id=7"),
        *("--handlers", program, "--json"),
    )

    assert (ran.stdout, ran.stderr) == ("lamp-7\n", "")
    assert json.loads(again.stdout)["output"] == "lamp-7"


def test_every_example_is_in_the_list_and_is_tested(root: Path) -> None:
    folders = {path.name for path in (root / "examples").iterdir() if path.is_dir()}
    text = (root / "examples/README.md").read_text("utf-8")

    listed = set(re.findall(r"^\| \[(\w+)\]", text, re.MULTILINE))
    # In other tests here, those with services in test_services.py.
    elsewhere = {
        *("agent", "embedding", "services", "in_python", "patterns", "three_ways"),
        *("saga", "polling", "etl", "family", "undo"),
        # In tests/api.
        "workers",
    }
    tested = {name.split("/")[0] for name in EXAMPLES} | elsewhere
    assert folders - {"__pycache__"} == listed == tested
