"""`minuet deploy`, `minuet workflows` and `minuet start NAME`: what they say, and exit codes."""

from __future__ import annotations

from typing import Any

import pytest

from .test_worker import HANDLERS, start_worker, stop

ORDER = """\
name: order
description: Doubles a number.
nodes:
  - id: twice
    handler: double
    config: {number: "{{ input.number }}"}
"""

WRONG = "name: wrong\nnodes:\n  - {id: a, type: noop, dependencies: [b]}\n  - {id: a, type: noop}\n"


@pytest.fixture
def deployed(folder: Any, minuet: Any) -> Any:
    """A store with two versions of `order`; `canary` names the second."""
    folder.write("order.yaml", ORDER)
    assert minuet("deploy", "order.yaml", "-m", "first").code == 0
    folder.write("order.yaml", ORDER.replace("Doubles", "Now doubles"))
    assert minuet("deploy", "order.yaml", "--tag", "canary").code == 0
    return folder


@pytest.mark.shows("C-01")
def test_a_deployed_workflow_is_started_by_name_and_done_by_a_worker(
    deployed: Any, minuet: Any, spawn: Any, finish: Any
) -> None:
    worker = start_worker(spawn, *HANDLERS)

    ended = minuet("start", "order", "-i", "number=21", "--wait", "-o", "json")

    assert (ended.code, ended.json["output"]) == (0, {"twice": 42})
    shown = minuet("runs", "show", ended.json["run_id"], "--json").json
    assert (shown["workflow"], shown["version"], shown["tag"]) == ("order", 1, "main")
    assert minuet("runs", "show", "latest").out.startswith("order@1: COMPLETED in ")
    assert stop(worker, finish).code == 0


def test_start_leaves_a_run_to_workers_and_says_how_to_follow_it(
    deployed: Any, minuet: Any
) -> None:
    started = minuet("start", "order@canary", "-i", "number=1")

    assert started.code == 0
    assert f"minuet runs show {started.out.strip()}" in started.err
    (run,) = minuet("runs", "list", "--workflow", "order", "--json").json
    assert (run["status"], run["version"], run["tag"]) == ("RUNNING", 2, "canary")
    assert minuet("runs", "list", "--workflow", "other", "--json").json == []


def test_a_deployed_workflow_is_simulated_by_name(deployed: Any, minuet: Any) -> None:
    options = ("--seeds", "3", "-i", "number=1", "--json")
    of_file = minuet("simulate", "order.yaml", *options)
    deployed.write("order.yaml", "name: another\nnodes: [{id: a, type: noop}]\n")

    played = minuet("simulate", "order@canary", *options)

    assert played.json["workflow"] == "order"
    assert (played.code, played.json) == (of_file.code, of_file.json)
    assert minuet("runs", "list", "--json").json == []
    unknown = minuet("simulate", "ordr", "--seeds", "3")
    assert unknown.code == 2
    assert "ordr" in unknown.err
    assert unknown.err == minuet("start", "ordr").err
    nowhere = minuet("simulate", "order", "--store", "sqlite:///none.db")
    assert nowhere.code == 2
    assert "there is no store at none.db, so no workflow 'order' is deployed" in nowhere.err


def test_deploying_says_the_version_and_the_tag(folder: Any, minuet: Any) -> None:
    folder.write("order.yaml", ORDER)

    first = minuet("deploy", "order.yaml")
    again = minuet("deploy", "order.yaml", "--tag", "stable")

    assert (first.code, first.out) == (0, "order: version 1 deployed as main\n")
    assert first.err == "Start a run of it with: minuet start order\n"
    assert again.out == "order: version 1 was there already; stable names it\n"
    assert again.err == "Start a run of it with: minuet start order@stable\n"


def test_deploying_as_json_is_a_list_of_workflows(folder: Any, minuet: Any) -> None:
    folder.write("order.yaml", ORDER)
    folder.write("other.json", '{"name": "other", "nodes": [{"id": "a", "type": "noop"}]}')

    answer = minuet("deploy", "order.yaml", "other.json", "-m", "both", "-o", "json")

    assert answer.code == 0
    assert [
        (one["name"], one["version"], one["tags"], one["message"], one["is_new"])
        for one in answer.json
    ] == [("order", 1, {"main": 1}, "both", True), ("other", 1, {"main": 1}, "both", True)]
    assert minuet("workflows", "show", "order", "--json").json == {
        name: value
        for name, value in answer.json[0].items()
        if name not in ("is_new", "source_changed")
    }


def test_deploying_other_comments_replaces_the_text_and_says_so(folder: Any, minuet: Any) -> None:
    folder.write("order.yaml", ORDER)
    minuet("deploy", "order.yaml")
    folder.write("order.yaml", f"# Ours.\n{ORDER}")

    again = minuet("deploy", "order.yaml")

    said = "order: version 1 was there already; main names it, and its text is replaced\n"
    assert (again.code, again.out) == (0, said)
    shown = minuet("workflows", "show", "order@1", "--source")
    assert (shown.code, shown.out, shown.err) == (0, f"# Ours.\n{ORDER}", "")


def test_a_workflow_written_in_python_is_shown_as_a_text_that_can_be_deployed(
    folder: Any, minuet: Any
) -> None:
    folder.write(
        "shop.py", "import minuet\nwith minuet.Workflow('shop') as shop:\n    minuet.noop('a')\n"
    )
    assert minuet("deploy", "shop.py:shop").code == 0

    shown = minuet("workflows", "show", "shop", "--source")

    assert "deployed as data" in shown.err
    folder.write("shop.yaml", shown.out)
    assert "version 1 was there already" in minuet("deploy", "shop.yaml").out
    assert minuet("workflows", "show", "shop", "--source").out == shown.out


@pytest.mark.shows("B-10")
def test_if_one_file_has_problems_all_are_listed_and_nothing_is_deployed(
    folder: Any, minuet: Any
) -> None:
    folder.write("order.yaml", ORDER)
    folder.write("wrong.yaml", WRONG)
    folder.write("worse.yaml", "name: [")

    said = minuet("deploy", "order.yaml", "wrong.yaml", "worse.yaml", "gone.yaml")

    assert said.code == 2
    for place in ("wrong.yaml:3:", "wrong.yaml:4:", "worse.yaml:", "gone.yaml: error"):
        assert place in said.err
    assert said.err.endswith("errors in 3 of 4 files: nothing was deployed\n")
    assert not folder.store.exists()


def test_problems_are_listed_for_programs(folder: Any, minuet: Any) -> None:
    folder.write("wrong.yaml", WRONG)

    said = minuet("deploy", "wrong.yaml", "--json")

    assert said.code == 2
    error = said.json["error"]
    assert (error["code"], error["message"]) == (
        "invalid-document",
        "wrong.yaml: 2 errors: nothing was deployed",
    )
    assert [(one["file"], one["line"]) for one in error["diagnostics"]] == [
        ("wrong.yaml", 3),
        ("wrong.yaml", 4),
    ]


def test_two_files_of_one_name_are_refused(folder: Any, minuet: Any) -> None:
    folder.write("a.yaml", ORDER)
    folder.write("b.yaml", ORDER)

    said = minuet("deploy", "a.yaml", "b.yaml")

    assert said.code == 2
    assert "a.yaml and b.yaml have the same name, 'order': nothing was deployed" in said.err
    assert not folder.store.exists()


def test_a_wrong_tag_is_refused(folder: Any, minuet: Any) -> None:
    folder.write("order.yaml", ORDER)

    said = minuet("deploy", "order.yaml", "--tag", "3")

    assert (said.code, said.out) == (2, "")
    assert "expected a tag" in said.err
    assert "No workflows are deployed" in minuet("workflows", "list").out


def test_the_list_fits_a_terminal_of_80_columns(
    deployed: Any, minuet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed.write(
        "long.yaml",
        ORDER.replace("order", "a-workflow-with-a-long-name-" * 3).replace(
            "Doubles", "Says at length what it does and why, and doubles"
        ),
    )
    assert minuet("deploy", "long.yaml").code == 0
    monkeypatch.setenv("COLUMNS", "80")

    listed = minuet("workflows", "list")

    assert listed.code == 0
    lines = listed.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["workflow", "version", "tags", "age", "description"]
    assert any(line.startswith("order ") and "canary, main → 1" in line for line in lines)


def test_the_list_for_programs_has_the_shape_of_a_workflow(deployed: Any, minuet: Any) -> None:
    (found,) = minuet("workflows", "list", "--json").json

    assert list(found) == [
        *("name", "version", "newest", "digest", "tags", "created_at", "created_by", "message"),
        *("description", "document", "source"),
    ]
    assert (found["version"], found["tags"]) == (2, {"canary": 2, "main": 1})


def test_show_prints_the_version_and_its_document(deployed: Any, minuet: Any) -> None:
    shown = minuet("workflows", "show", "order")

    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[:2] == ["order, version 1 of 2", "tags: canary → 2, main"]
    assert "message: first" in lines
    document = shown.out.partition("\n\n")[2]
    assert document == ORDER
    assert minuet("workflows", "show", "order@2").out.startswith("order, version 2 of 2\n")


@pytest.mark.shows("C-18")
def test_a_tag_is_moved_back_to_an_older_version(deployed: Any, minuet: Any) -> None:
    moved = minuet("workflows", "tag", "order@2", "main")
    back = minuet("workflows", "tag", "order@1", "main", "--json")
    wrong = minuet("workflows", "tag", "order@1", "3")

    assert (moved.code, moved.out) == (0, "order: main names version 2\n")
    assert (back.code, back.json["version"], back.json["tags"]) == (0, 1, {"canary": 2, "main": 1})
    assert minuet("workflows", "show", "order").out.startswith("order, version 1 of 2\n")
    assert wrong.code == 2
    assert "expected a tag" in wrong.err


@pytest.mark.shows("C-16", "Q-24")
def test_a_workflow_is_deleted_and_its_name_used_again(deployed: Any, minuet: Any) -> None:
    one = minuet("workflows", "delete", "order@1")
    deleted = minuet("workflows", "delete", "order")
    again = minuet("workflows", "delete", "order", "--json")

    assert one.code == 2
    assert "all versions are deleted together: write 'order'" in one.err
    assert (deleted.code, deleted.out) == (
        0,
        "order: all 2 versions deleted; runs keep their plans\n",
    )
    assert (again.code, again.json["error"]["code"]) == (2, "workflow-not-found")
    assert minuet("start", "order").code == 2
    assert minuet("deploy", "order.yaml", "--json").json[0]["version"] == 1


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("ordr", "no deployed workflow has the name 'ordr': did you mean 'order'?"),
        ("order@9", "workflow 'order' has no version 9: it has versions 1 to 2"),
        (
            "order@prod",
            "workflow 'order' has no tag 'prod': it has canary (version 2), main (version 1)",
        ),
    ],
)
def test_what_is_not_deployed_is_refused_with_what_there_is(
    deployed: Any, minuet: Any, reference: str, said: str
) -> None:
    for command in (
        ("workflows", "show", reference),
        ("workflows", "tag", reference, "main"),
        ("start", reference),
    ):
        refused = minuet(*command)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == f"minuet: {said}\n"
    as_json = minuet("start", reference, "--json")
    assert as_json.json["error"] == {"code": "workflow-not-found", "message": said}


def test_starting_a_name_without_a_store_makes_none(folder: Any, minuet: Any) -> None:
    refused = minuet("start", "order")

    assert refused.code == 2
    assert "deploy it with `minuet deploy FILE`" in refused.err
    assert not folder.store.exists()


def test_an_input_that_does_not_fit_is_refused(deployed: Any, minuet: Any) -> None:
    deployed.write(
        "strict.yaml", ORDER.replace("order", "strict") + "input: {required: [number]}\n"
    )
    assert minuet("deploy", "strict.yaml").code == 0

    refused = minuet("start", "strict")

    assert refused.code == 2
    assert "number" in refused.err
    assert minuet("runs", "list", "--json").json == []


def test_a_store_that_ends_with_the_process_is_refused(folder: Any, minuet: Any) -> None:
    folder.write("order.yaml", ORDER)

    refused = minuet("deploy", "order.yaml", "--store", "memory://")

    assert refused.code == 2
    assert "memory://" in refused.err


def test_the_doctor_finds_a_version_without_its_plan(deployed: Any, minuet: Any) -> None:
    import apsw

    assert minuet("doctor").code == 0
    digest = minuet("workflows", "show", "order@1", "--json").json["digest"]
    db = apsw.Connection(str(deployed.store))
    db.execute("DELETE FROM blobs WHERE ref = ?", (digest,))
    db.close()

    found = minuet("doctor")
    repaired = minuet("doctor", "--repair", "--json")

    assert found.code == 1
    assert f"workflow order@1: [plan] its plan is missing ({digest})" in found.out
    assert repaired.code == 1
    (finding,) = repaired.json["findings"]
    assert (finding["run_id"], finding["workflow"], finding["id"]) == (None, "order@1", "plan")
    deployed.write("order.yaml", ORDER)
    assert minuet("deploy", "order.yaml").code == 0
    assert minuet("doctor").code == 0


def test_a_deployed_workflow_with_a_foreach_is_resumed(folder: Any, minuet: Any) -> None:
    """The nodes that the compiler adds for it were taken for node types that are missing."""
    node = '{id: twice, handler: double, foreach: {items: [1, 2]}, config: {number: "{{ item }}"}}'
    folder.write("each.yaml", f"name: each\nnodes:\n  - {node}\n")
    assert minuet("deploy", "each.yaml").code == 0
    assert minuet("start", "each").code == 0

    resumed = minuet("resume", *HANDLERS, "--json")

    assert (resumed.code, resumed.json["output"]) == (0, {"twice": [2, 4]})
