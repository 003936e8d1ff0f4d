"""Every command works through a server as it works on the store, and prints the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from minuet.cli.arguments import every_command

from .test_runs import FIXED
from .test_server_stores import GATES, HELD
from .test_worker import DOUBLE, HANDLERS

STORE = ("--store", "sqlite:///minuet.db")

#: Commands with `--url`, which are not compared here: they go on until they are stopped.
LIVE = {"worker", "runs watch", "top"}

#: In this order: what differs between two calls although they say the same.
DIFFERENCES = (
    (r" --store \S+| --url \S+", ""),
    # What a process beside the store can do, and a client cannot.
    (r"(goes|go) on with (it|the run|them)(\.|, or: minuet resume.*)?$", "goes on"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "RUN"),
    (r"mnt_\w+", "KEY"),
    (r"(Its id is|revoked) [a-z2-7]{12}", "ID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
    (r"\d\d:\d\d:\d\d\.\d{3}", "CLOCK"),
    (r"\+?\d+(\.\d+)? (ms|s|min|h)( \d+ s)?( ago)?", "AGE"),
    (r'"(silent|duration)_ms": \d+', "AGE"),
    (r" +", " "),
)


def alike(text: str) -> str:
    for pattern, word in DIFFERENCES:
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


@pytest.fixture
def server(folder: Any, spawn: Any) -> Iterator[str]:
    """The address of a server of the folder's store."""
    child = spawn("server", *STORE, "--port", "0")
    for line in child.stderr:
        if found := re.search(r"http://[^/\s]+", line):
            yield found[0]
            return
    raise AssertionError("the server has not started")


@pytest.fixture
def both(folder: Any, minuet: Any, server: str) -> Callable[..., Any]:
    """Call a command on the store and through the server: both say the same. With two runs (or
    letters, …), each call changes another one."""
    used: set[str] = both_used
    used.clear()

    def call(*words: str, twins: tuple[str, str] | None = None, code: int = 0) -> Any:
        groups = ("runs", "workers", "workflows", "blobs", "approvals", "dlq", "webhooks", "keys")
        used.add(" ".join(words[:2]) if words[0] in groups else words[0])
        one, other = twins or ("", "")
        here = minuet(*(word.replace("TWIN", one) for word in words), *STORE)
        there = minuet(*(word.replace("TWIN", other) for word in words), "--url", server)
        assert alike(there.out).splitlines() == alike(here.out).splitlines()
        assert alike(there.err).splitlines() == alike(here.err).splitlines()
        assert here.code == there.code == code, here
        return here

    return call


#: The commands that were called.
both_used: set[str] = set()


def test_every_command_says_the_same_through_a_server(
    folder: Any, minuet: Any, both: Any, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for name, text in {"double": DOUBLE, "fixed": FIXED, "gates": GATES, "held": HELD}.items():
        folder.write(f"{name}.yaml", text)

    def twins(*words: str, code: int = 0) -> tuple[str, str]:
        """Two runs that are alike."""
        first, second = (minuet(*words, *STORE, "--json", "--log-level", "error") for _ in range(2))
        assert first.code == second.code == code, first
        return first.json["run_id"], second.json["run_id"]

    # Workflows and blobs.
    minuet("deploy", "double.yaml", "-m", "first", *STORE)
    both("deploy", "double.yaml")
    both("deploy", "double.yaml", "--json")
    both("workflows", "list")
    both("workflows", "tag", "double@1", "live")
    both("workflows", "show", "double@live")
    both("workflows", "show", "nothing", "--json", code=2)
    both("workflows", "delete", "nothing", code=2)
    both("workflows", "delete", "double@1", code=2)
    reference = both("blobs", "put", "double.yaml").out.strip()
    both("blobs", "get", reference, "copy.yaml", "--json")

    # Starting, and waiting in vain.
    both("start", "double", "-i", "{}")
    both("start", "double.yaml", "--wait", "--timeout", "0.1", code=3)
    both("start", "nothing", "--json", code=2)
    both("queues")

    # A run that failed, and its dead letters.
    failed = twins("run", "fixed.yaml", *HANDLERS, code=1)
    both("runs", "list", "--limit", "3")
    both("runs", "list", "--stalled", "--json")
    both("runs", "list", "--filter", "status:failed age<1h", "--json")
    both("runs", "list", "--filter", "status:nothing", code=2)
    both("runs", "histogram", "--since", "1h", "--buckets", "2")
    for options in ((), ("--json",)):
        both("runs", "show", failed[0], *options)
        both("runs", "show", failed[0], "--all", *options)
        both("runs", "show", failed[0], "second", *options)
        both("runs", "why", failed[0], "second", *options)
        both("runs", "attempts", failed[0], "second", *options)
        both("runs", "events", failed[0], *options)
        both("runs", "tree", failed[0], *options)
        both("runs", "replay", failed[0], "--at", "3", *options)
        both("runs", "logs", failed[0], *options)
        both("runs", "logs", failed[0], "-f", *options)
        both("dlq", "list", *options)
        both("dlq", "list", "--group", *options)
        both("dlq", "show", f"{failed[0]}.1", *options)
    both("runs", "show", failed[0][:30])
    both("runs", "show", "latest")
    both("runs", "show", "nothing", "--json", code=2)
    both("runs", "why", failed[0], "nothing", code=2)
    both("runs", "export", failed[0])
    both("dlq", "edit", "TWIN.1", "-i", '{"a": 1}', "--as", "ann", twins=failed)
    both("dlq", "retry", "TWIN.1", twins=failed)
    both("runs", "cancel", "TWIN", "--reason", "twice", twins=failed)
    both("runs", "cancel", "TWIN", twins=failed, code=1)
    both("runs", "retry", "TWIN", "--json", twins=failed)
    both("runs", "cancel", "TWIN", "--json", twins=failed)
    failed = twins("run", "fixed.yaml", *HANDLERS, code=1)
    both("dlq", "reprocess", "--run-id", "TWIN", "--node-id", "second", twins=failed)
    minuet("resume", *failed, *HANDLERS, *STORE)
    both("dlq", "discard", "TWIN.2", "--why", "no use", "--as", "ann", twins=failed)
    both("dlq", "redrives")
    redrives = [
        httpx2.post(f"{server}/api/v1/dlq/redrives", json={"ids": ["gone.1"]}).json()["id"]
        for _ in range(2)
    ]
    while any(
        one["state"] == "running" for one in minuet("dlq", "redrives", *STORE, "--json").json
    ):
        pass
    both("dlq", "redrives")
    both("dlq", "redrives", "--json")
    both("dlq", "stop", "TWIN", twins=(redrives[0], redrives[1]))
    both("dlq", "stop", "TWIN", "--json", twins=(redrives[0], redrives[1]))
    both("dlq", "stop", "nothing", "--json", code=2)

    # Runs that nobody works on.
    idle = twins("start", "double.yaml")
    both("runs", "pause", "TWIN", twins=idle)
    both("runs", "resume", "TWIN", "--if-seq", "1", twins=idle, code=1)
    both("runs", "skip", "TWIN", "first", "--why", "no", "--if-seq", "1", twins=idle, code=1)
    both("runs", "resume", "TWIN", twins=idle)
    both("runs", "pause", *idle, "--dry-run")
    both("runs", "cancel", "--filter", "status:open", "--dry-run", "--json")
    both("runs", "cancel", "TWIN", "--dry-run", twins=idle)
    both("signal", "TWIN", "hello", "--dry-run", "--json", twins=idle)
    both("runs", "skip", "TWIN", "first", "--why", "no", "--dry-run", twins=idle)
    both("signal", "TWIN", "hello", "-d", '{"a": 1}', twins=idle)
    both("runs", "skip", "TWIN", "first", "--why", "no", twins=idle)

    # People, and what is held.
    asked = twins("run", "gates.yaml", "--timeout", "1", code=3)
    both("approvals", "list", "--run", asked[0])
    both("approvals", "show", f"{asked[0]}:yes", "--json")
    both("approvals", "approve", "TWIN:yes", "--dry-run", twins=asked)
    both("approvals", "approve", "TWIN:yes", "--as", "ann", twins=asked)
    both("approvals", "approve", "TWIN:yes", "--as", "ben", "--json", twins=asked, code=1)
    both("approvals", "reject", "TWIN:no", "--comment", "too dear", "--as", "ann", twins=asked)
    held = twins("run", "held.yaml", *HANDLERS, "--timeout", "1", code=3)
    both("runs", "set-output", "TWIN", "one", "-d", "1", "--why", "by hand", twins=held)
    both("runs", "take-back", "TWIN", "two", "--why", "it hangs", twins=held, code=1)
    minuet("resume", *held, *HANDLERS, "--timeout", "1", *STORE)
    both("runs", "skip", "TWIN", "two", "--why", "not needed", twins=held)
    minuet("resume", *held, *HANDLERS, *STORE)
    both("runs", "rollback", "TWIN", twins=held)

    # Those who call.
    both("keys", "create", "ada", "--role", "viewer")
    made = minuet("keys", "list", "--json", *STORE).json
    both("keys", "list")
    both("keys", "revoke", "TWIN", twins=(made[0]["id"], made[1]["id"]))
    both("keys", "revoke", "nothing", code=2)
    both("audit", "--limit", "3")
    both("audit", "--json")

    # The rest.
    both("workers", "list")
    both("workers", "leases")
    both("overview")
    both("workflows", "stats")
    both("workflows", "stats", "double", "--json")
    both("doctor")
    both("doctor", "--json")
    both("workers", "drain", "nobody", code=2)
    both("webhooks", "list")
    both("webhooks", "test", "nobody", code=2)
    both("runs", "delete", "TWIN", "--yes", twins=idle, code=1)
    both("runs", "cancel", "TWIN", twins=idle)
    both("runs", "delete", "TWIN", "--yes", twins=idle)
    both("runs", "delete", "--older-than", "0s", "--dry-run", "--json")

    assert (
        both_used
        == {
            command.prog.removeprefix("minuet ")
            for command in every_command()
            if any("--url" in action.option_strings for action in command._actions)
            and not is_refused(command)
        }
        - LIVE
    )


def is_refused(command: Any) -> bool:
    return any(hasattr(action, "_why") for action in command._actions)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("gc",), "--url does not work here: it removes what belongs to the whole store"),
        (("run", "double.yaml"), "it runs nodes in this process, on the store itself; use --store"),
        (("resume",), "it runs nodes in this process"),
        (("server",), "it is a server itself"),
        (("runs", "list", "--store", "x.db"), "--store and --url both say where to look"),
    ],
)
def test_what_needs_the_store_says_so(minuet: Any, words: tuple[str, ...], told: str) -> None:
    called = minuet(*words, "--url", "http://127.0.0.1:1")

    assert (called.code, called.out) == (2, "")
    assert told in called.err


def test_the_environment_names_the_server(
    minuet: Any, folder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("double.yaml", DOUBLE)
    monkeypatch.setenv("MINUET_URL", "http://127.0.0.1:1")

    there = minuet("runs", "list")
    here = minuet("start", "double.yaml", *STORE)
    run = minuet("run", "double.yaml", *HANDLERS)

    assert there.code == 2
    assert "the server at http://127.0.0.1:1 cannot be reached" in there.err
    assert (here.code, run.code) == (0, 0)


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://ann:hunter2@x"])
def test_an_address_that_is_none_is_refused(minuet: Any, url: str) -> None:
    called = minuet("runs", "list", "--url", url)

    assert called.code == 2
    assert "is not the URL of a server" in called.err
    assert "hunter2" not in called.err


@pytest.mark.shows("R-03", "R-04")
def test_a_replica_answers_when_the_first_server_cannot_be_reached(
    folder: Any, minuet: Any, spawn: Any
) -> None:
    folder.write("double.yaml", DOUBLE)
    run = minuet("start", "double.yaml", "--json", *STORE).json["run_id"]
    replica = spawn("server", *STORE, "--port", "0", "--read-only", "--json")
    urls = f"http://127.0.0.1:1,{json.loads(replica.stdout.readline())['url']}"

    listed = minuet("runs", "list", "--json", "--url", urls)
    shown = minuet("runs", "show", run, "--url", urls)
    refused = minuet("runs", "cancel", run, "--url", urls)

    assert [one["run_id"] for one in listed.json] == [run]
    assert "RUNNING" in shown.out
    assert refused.code == 2
    assert "http://127.0.0.1:1 cannot be reached" in refused.err
