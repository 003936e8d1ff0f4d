"""Filters for runs: what a text means, and which runs fit it."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.app.filters import make_query, quoted, read_filter
from minuet.errors import InputError
from minuet.store.records import Run

NOW = 1_800_000_000_000
HOUR = 3_600_000


def run(**fields: Any) -> Run:
    made = {"run": "01ab-1", "tenant": "t", "workflow": "order", "plan": "p", "created_ms": NOW}
    return Run(**{**made, **fields})


def fits(query: str, **fields: Any) -> bool:
    return read_filter(query, NOW).fits_row(run(**fields)) == []


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("status:failed", {"status": "FAILED"}),
        ("status:failed,Cancelled", {"status": "CANCELLED"}),
        ("status:open", {"status": "PAUSED"}),
        ("is:over", {"status": "FAILED"}),
        ("-is:open", {"status": "FAILED"}),
        ("is:child", {"parent": "x"}),
        ("workflow:order", {}),
        ("workflow:ord*", {}),
        ("workflow:order@3", {"version": 3}),
        ("workflow:order@main", {"tag": "main"}),
        ('workflow:"a b,c"', {"workflow": "a b,c"}),
        ("tag:main", {"tag": "main"}),
        ("tag:customer:acme", {"tags": {"customer": "acme"}}),
        ("tag:customer:a*", {"tags": {"customer": "acme"}}),
        ("tag:size:3", {"tags": {"size": 3}}),
        ("by:ada", {"tags": {"submitted_by": "ada"}}),
        ("run:01ab", {}),
        ("parent:x", {"parent": "x"}),
        ("age<1h", {"created_ms": NOW - HOUR + 1}),
        ("age>1h", {"created_ms": NOW - HOUR - 1}),
        ("since:1h", {"created_ms": NOW - HOUR}),
        ("since:2027-01-15", {"created_ms": NOW}),
        ("until:2027-01-15T08:00:00Z", {"created_ms": NOW}),
        ("took>5s", {"ended_ms": NOW + 6_000, "status": "FAILED"}),
        ("took<5s", {"ended_ms": NOW + 4_000, "status": "FAILED"}),
        ('error:"no card"', {"error": {"message": "No card at all"}, "status": "FAILED"}),
        ("input:acme", {"input": b'{"customer":"ACME"}'}),
        ("acme", {"input": b'{"customer":"ACME"}'}),
        ("acme order", {"tags": {"x": "acme"}}),
        ("-acme", {}),
        ("http://acme", {"input": b'"http://acme/x"'}),
        ('"status:failed"', {"input": b'"status:failed"'}),
    ],
)
def test_a_run_fits(query: str, fields: dict[str, Any]) -> None:
    assert fits(query, **fields)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("status:failed", {}),
        ("status:failed -status:failed", {"status": "FAILED"}),
        ("is:child", {}),
        ("workflow:orders", {}),
        ('workflow:"ord*"', {}),
        ("tag:customer:acme", {"tags": {"customer": "other"}}),
        ("tag:main", {"tags": {"main": "x"}}),
        ("age<1h", {"created_ms": NOW - HOUR - 1}),
        ("age>1h", {"created_ms": NOW - HOUR + 1}),
        ("age>1h age<2h", {"created_ms": NOW - 3 * HOUR}),
        ("took>5s", {"ended_ms": NOW + 4_000, "status": "FAILED"}),
        ("acme", {}),
        ("-acme", {"tags": {"x": "acme"}}),
        ("acme missing", {"tags": {"x": "acme"}}),
        ("run:1ab", {}),
    ],
)
def test_a_run_does_not_fit(query: str, fields: dict[str, Any]) -> None:
    assert not fits(query, **fields)


def test_what_a_completed_run_does_not_have_in_its_row_may_be_in_its_output() -> None:
    wanted = read_filter("order acme output:paid", NOW)

    left = wanted.fits_row(run(status="COMPLETED"))

    assert left is not None
    assert [term.values for term in left] == [("acme",), ("paid",)]
    assert wanted.fits_row(run(status="FAILED")) is None


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("status:fialed", "status:fialed: expected one of pending"),
        ("stauts:failed", "did you mean status?"),
        ("age:1h", "expected age< or age>"),
        ("age<soon", "expected a duration"),
        ("since:yesterday", "expected a duration such as 45m, or a time"),
        ("status<failed", "expected status:"),
        ('error:"no end', "character 7 has no end"),
        ("is:odd", "expected one of open, over, child, stalled"),
        ("x" * 2_001, "at most 2,000"),
    ],
)
def test_a_filter_with_a_mistake_says_what_is_expected(query: str, told: str) -> None:
    with pytest.raises(InputError, match="q") as refused:
        read_filter(query, NOW)

    assert told in str(refused.value)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(InputError) as refused:
        read_filter("status:x age<y", NOW)

    assert len(refused.value.problems) == 2


def test_statuses_and_the_workflow_are_left_to_the_store() -> None:
    found = read_filter("status:open -status:paused workflow:order", NOW)

    assert found.statuses == ("PENDING", "RUNNING", "COMPENSATING")
    assert found.workflow == "order"
    assert read_filter("workflow:a,b", NOW).workflow is None


@pytest.mark.parametrize("name", ["order", "a b", 'with "quotes"', "a,b", "a*b", "a\\b", "ä"])
def test_a_quoted_text_stands_for_itself(name: str) -> None:
    query = make_query("x", workflow=name)

    assert query == f"x workflow:{quoted(name)}"
    assert read_filter(query, NOW).workflow == name
    assert fits(make_query(workflow=name), workflow=name)


def test_options_become_words_of_the_filter() -> None:
    query = make_query(" acme ", statuses=["FAILED", "PAUSED"], tag="a:b", since="1h", stalled=True)

    assert query == "acme status:FAILED,PAUSED tag:a:b since:1h is:stalled"
