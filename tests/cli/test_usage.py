"""What can go wrong before anything runs is told in one clear sentence, with exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from minuet.nodes.catalog import NODE_TYPES

HELLO = "name: hello\nnodes:\n  - {id: greet, type: noop}\n"
NEEDS_NAME = "name: w\ninput: {type: object, required: [name]}\nnodes:\n  - {id: a, type: noop}\n"


def test_help_lists_the_commands_and_exit_codes(minuet: Any) -> None:
    called = minuet("--help")

    assert called.code == 0
    for command in ("run", "resume", "validate", "graph", "demo", "node-types", "runs", "doctor"):
        assert f"\n    {command}" in called.out
    assert "exit codes:" in called.out
    assert minuet().out == called.out


def test_version_is_printed(minuet: Any) -> None:
    from minuet import __version__

    assert minuet("--version").out == f"minuet {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rnu"], "minuet: there is no command 'rnu': did you mean 'run'?"),
        (["valdate", "x.yaml"], "minuet: there is no command 'valdate': did you mean 'validate'?"),
        (["xyzzy"], "minuet: there is no command 'xyzzy'"),
        (["runs", "shwo"], "minuet runs: there is no command 'shwo': did you mean 'show'?"),
        (
            ["run", "x.yaml", "--handler", "y"],
            "minuet run: unknown option '--handler': did you mean '--handlers'?",
        ),
        (["run"], "minuet run: missing argument: FILE"),
        (["graph", "a", "b"], "minuet graph: unknown argument 'b'"),
        (["run", "x.yaml", "--timeout", "soon"], "'soon' is not a number of seconds above 0"),
        (["run", "x.yaml", "--concurrency", "0"], "'0' is not a whole number of 1 or more"),
        (["runs", "list", "--status", "DONE"], "invalid choice: 'DONE'"),
    ],
)
def test_wrong_usage_is_told_with_a_suggestion(
    minuet: Any, arguments: list[str], told: str
) -> None:
    called = minuet(*arguments)

    assert called.code == 2
    assert called.out == ""
    assert told in called.err.splitlines()[0]
    assert called.err.splitlines()[1].startswith("See minuet")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["run", "none.yaml"],
            "none.yaml: error[unreadable-file]: the file cannot be read: No such",
        ),
        (["run", "."], ".: error[unreadable-file]: the file cannot be read: Is a directory"),
        (["run", "w.yaml", "-i", "{"], "minuet: input '{' is not valid JSON"),
        (["run", "w.yaml", "-i", "word"], "minuet: input 'word' is not valid JSON"),
        (["run", "w.yaml", "-i", "@none"], "minuet: the input file 'none' cannot be read: No such"),
        (
            ["run", "w.yaml", "-i", "@."],
            "minuet: the input file '.' cannot be read: Is a directory",
        ),
        (["run", "w.yaml", "-i", "[1]", "a=2"], "minuet: input '[1]' is not an object"),
        (["run", "w.yaml", "-i", "[" * 10_000], "is not valid JSON"),
        (["run", "needs.yaml"], 'the input does not fit the workflow: input: "name" is a required'),
        (["run", "w.yaml", "--handlers", "none.py"], "there is no file 'none.py'"),
        (["run", "w.yaml", "--handlers", "no_such"], "there is no module 'no_such'"),
        (["run", "w.yaml", "--handlers", "broken_handlers.py"], "SyntaxError"),
        (["run", "w.yaml", "--store", "mysql://x"], "there is no store of kind 'mysql'"),
        (["run", "w.yaml", "--store", "redis://127.0.0.1:1"], "does not answer"),
        (["run", "w.yaml", "--store", "sqlite:///none/x.db"], "does not exist"),
        (["run", "w.yaml", "--store", "sqlite:///text.txt"], "text.txt is not a SQLite file"),
        (["resume"], "there is no store at minuet.db"),
        (["runs", "list"], "there is no store at minuet.db"),
        (["runs", "show", "latest", "--store", "memory://"], "memory:// is a new store"),
        (["doctor", "--store", "sqlite:///x.db"], "there is no store at x.db"),
        (["node-types", "taks"], "there is no node type 'taks': did you mean 'task'?"),
        (["demo", "--keep", "full"], "full holds a demo already"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_no_store_is_made(
    folder: Any, minuet: Any, arguments: list[str], told: str
) -> None:
    folder.write("w.yaml", HELLO)
    folder.write("needs.yaml", NEEDS_NAME)
    folder.write("broken_handlers.py", "def (")
    folder.write("text.txt", "This is just text. " * 100)
    (folder.path / "full").mkdir()
    folder.write("full/demo.db", "")

    called = minuet(*arguments)

    assert called.code == 2
    assert told in called.err
    assert "Traceback" not in called.err
    assert not folder.store.exists()
    assert not folder.exists("x.db")


def test_a_file_that_may_not_be_read_is_told_so(minuet: Any, ordinary_user: Path) -> None:
    path = ordinary_user / "w.yaml"
    path.write_text(HELLO)
    path.chmod(0)

    assert "Permission denied" in minuet("validate", str(path)).err


def test_with_json_the_error_is_json_too(folder: Any, minuet: Any) -> None:
    folder.write("needs.yaml", NEEDS_NAME)

    called = minuet("run", "needs.yaml", "--json")

    assert called.code == 2
    assert called.json["error"]["code"] == "invalid-input"
    assert "required" in called.json["error"]["message"]


def test_a_traceback_is_shown_to_those_who_ask_for_it(
    folder: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINUET_DEBUG", "1")

    assert "Traceback" in minuet("run", "none.yaml").err


def test_graph_is_mermaid_or_json(folder: Any, minuet: Any) -> None:
    folder.write("w.yaml", HELLO)

    assert minuet("graph", "w.yaml").out.startswith("flowchart TD\n")
    assert minuet("graph", "w.yaml", "--format", "json").json["nodes"][0]["id"] == "greet"
    assert minuet("graph", "w.yaml", "--json").json["name"] == "hello"


def test_node_types_are_listed_and_each_is_shown_with_schema_and_example(minuet: Any) -> None:
    listed = minuet("node-types", "--json").json

    assert {found["name"] for found in listed} >= {"task", "transform", "decision", "noop", "wait"}
    # Types that other tests have registered need not have an example.
    for found in (one for one in listed if one["name"] in NODE_TYPES):
        text = minuet("node-types", found["name"]).out
        assert found["summary"] in text
        assert '"type": "object"' in text
        assert f'"id": "{found["example"]["id"]}"' in text
        assert f"{found['name']} " in minuet("node-types").out
