"""Columns and codecs of rows follow from the records."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from minuet.store import records
from minuet.store.fields import Dialect, builder, decoder, encoder, names
from minuet.store.postgres import columns as postgres
from minuet.store.records import FREE_TEXT, Arrival, DeadLetter, Join, Run, Token
from minuet.store.sql_files import fill
from minuet.store.sqlite import columns as sqlite

DIALECTS = [sqlite.DIALECT, postgres.DIALECT]

RECORDS: list[msgspec.Struct] = [
    Run("r", "t", "w", "p"),
    Run("r", "t", "w", "p", tags={"a": [1]}, idempotency_key="\0k", error={"code": "x"}),
    Token("r", "n", "s", "t", "q"),
    Token("r", "n", "s", "t", "q", skip=True, wait_key="\0", slot="é", lost=("a", ""), due_ms=None),
    Token("r", "n", "s", "t", "q", reads=(records.Read("m", "p", 3),), resolution=b"{}"),
    Join("r", "n", "s", 1, 2, fired=True),
    Arrival("r", "n", "s", "m", "", live=True, late=False),
    DeadLetter("r", "n", "s", 1, "t", "q", "why", {"code": "x"}, "f", 1, 2),
    DeadLetter("r", "n", "s", 1, "t", "q", "x", {}, "f", 1, 2, "discarded", "w", 3, "\0why"),
]


@pytest.mark.parametrize("dialect", DIALECTS, ids=["sqlite", "postgres"])
@pytest.mark.parametrize("record", RECORDS, ids=repr)
def test_a_record_comes_back_from_its_row(record: Any, dialect: Dialect) -> None:
    columns = names(type(record))
    row = encoder(type(record), columns, dialect)(record)

    found = decoder(type(record), columns, dialect)(row)

    assert found == record
    # A flag that is kept as a number is a flag again.
    assert [type(value) for value in msgspec.structs.astuple(found)] == [
        type(value) for value in msgspec.structs.astuple(record)
    ]


class Sample(msgspec.Struct):
    """A record with a field of each sort."""

    name: str
    count: int = 3
    flag: bool = False
    text: Annotated[str, FREE_TEXT] = ""
    key: Annotated[str, FREE_TEXT] | None = None
    tags: dict[str, Any] = {}
    error: dict[str, Any] | None = None
    parts: tuple[str, ...] = ()


def test_a_row_is_kept_as_its_store_keeps_values() -> None:
    full = Sample("n", 1, True, "a", "b", {"c": 1}, {"d": 2}, ("e",))
    in_sqlite = encoder(Sample, names(Sample), sqlite.DIALECT)
    in_postgres = encoder(Sample, names(Sample), postgres.DIALECT)

    assert in_sqlite(full) == ("n", 1, True, "a", "b", '{"c":1}', '{"d":2}', '["e"]')
    assert in_postgres(full) == ("n", 1, True, b"a", b"b", '{"c":1}', '{"d":2}', '["e"]')
    assert in_sqlite(Sample("n")) == ("n", 3, False, "", None, "{}", None, None)
    assert in_postgres(Sample("n")) == ("n", 3, False, b"", None, "{}", None, None)


def test_an_empty_list_of_a_column_without_null_is_kept_as_the_store_says() -> None:
    encode = encoder(Sample, ("parts",), Dialect(empty={"parts": ""}))

    assert encode(Sample("n")) == ("",)


def test_columns_may_come_in_any_order_with_others_between_and_after_them() -> None:
    decode = decoder(Sample, ("flag", "id", "name"), Dialect(), given=("count",), is_open=True)

    assert decode((True, 7, "n", "later"), 5) == Sample("n", 5, True)
    assert decode((True, 7, "n", "later"), 5).tags is not decode((True, 7, "n"), 5).tags


def test_a_row_without_a_field_that_has_no_default_is_refused() -> None:
    with pytest.raises(ValueError, match="a row of Sample must have the field name"):
        decoder(Sample, ("count",), Dialect())


def test_an_exception_that_names_no_field_is_refused() -> None:
    with pytest.raises(ValueError, match="Sample has no field nmae"):
        names(Sample, without=("nmae",))


def test_damaged_json_becomes_a_stand_in_and_costs_no_other_field() -> None:
    decode = decoder(Sample, ("name", "tags", "error", "parts"), Dialect())

    found = decode(("n", "{", "[", "{"))

    assert found.name == "n"
    assert "not readable" in found.tags["unreadable"]
    assert found.error is not None
    assert found.error["code"] == "unreadable"
    assert found.parts == ()


def test_names_of_lists_in_sql_become_columns() -> None:
    lists = {"pair": ("a", "b")}

    assert fill("SELECT {pair} FROM t", lists) == "SELECT a, b FROM t"
    assert fill("SELECT {x.pair}, '{}'", lists) == "SELECT x.a, x.b, '{}'"
    assert fill("VALUES ({? pair})", lists) == "VALUES (?, ?)"
    assert fill("SET {pair = x}", lists) == "SET a = x.a, b = x.b"
    assert fill("SET {pair = ?}", lists) == "SET a = ?, b = ?"


def test_a_list_that_does_not_exist_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match=r"\{x\.pear\}: no list of columns has the name pear"):
        fill("SELECT {x.pear}", {"pair": ("a",)})


class Shown(msgspec.Struct):
    """A record that is made from a `Sample`."""

    flag: bool
    name: str
    size: int = 0


def test_a_record_is_built_from_another_and_from_arguments_by_name() -> None:
    build = builder(Shown, Sample, given=("size",))

    assert build(Sample("n", flag=True), 7) == Shown(flag=True, name="n", size=7)
    assert builder(Shown, given=("name", "size", "flag"))("n", 7, True) == Shown(
        flag=True, name="n", size=7
    )


def test_a_field_that_nothing_fills_is_noticed_when_the_function_is_made() -> None:
    with pytest.raises(ValueError, match="size"):
        builder(Shown, Sample)
    with pytest.raises(ValueError, match="colour"):
        builder(Shown, Sample, given=("size", "colour"))
