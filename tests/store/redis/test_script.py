"""Names in scripts become places in rows."""

from __future__ import annotations

import re

import msgspec
import pytest

from minuet.store.exchange import Delivery, Done, Waiting
from minuet.store.records import Token
from minuet.store.redis import library
from minuet.store.redis.columns import LAYOUTS, RUN, TOKEN, Layout
from minuet.store.redis.messages import ITEM, VALUES, Message
from minuet.store.redis.script import expand_names


def test_a_column_is_a_number_from_the_order_in_which_it_is_stored() -> None:
    first, second = (int(expand_names(name)) for name in ("T_DUE_MS", "T_TAKEN_MS"))

    assert second == first + 1


def test_a_new_row_has_the_defaults_of_its_record() -> None:
    row = expand_names("new_token{ queue = q, hop = f(a, b), state = 'x, }' }")

    values = [value.strip() for value in re.split(r",(?![^(]*\))(?! \})", row[1:-1])]
    assert values[int(expand_names("T_QUEUE")) - 1] == "q"
    assert values[int(expand_names("T_HOP")) - 1] == "f(a, b)"
    assert values[int(expand_names("T_STATE")) - 1] == "'x, }'"
    assert values[int(expand_names("T_ATTEMPT")) - 1] == str(Token("", "", "", "", "").attempt)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("new_token{ queue = q, colour = 1 }", "colour"),
        ("new_join{ need = 1 }", "total"),
        ("new_token{ queue = q", "does not end"),
    ],
)
def test_a_constructor_that_cannot_be_right_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        expand_names(text)


def test_a_column_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KeyError):
        expand_names("token[T_COLOUR]")


@pytest.mark.parametrize("text", ["item.colour", "held[HELD_COLOUR]", "ITEM_AT_COLOUR"])
def test_a_value_that_a_request_does_not_carry_is_refused(text: str) -> None:
    with pytest.raises(KeyError):
        expand_names(text)


def test_no_name_is_left_in_what_a_server_is_given() -> None:
    text = library.library().text.decode()

    assert not re.findall(r"\b[A-Z]_[A-Z_]+\b|\b(?:new|head)_\w+\s*\{", text)
    words = "|".join(VALUES)
    assert not re.findall(rf"\b(?:{words})\.\w|\b(?:{words.upper()})\b", text)


def test_a_value_of_a_request_is_one_of_the_variables_that_it_is_read_into() -> None:
    variables = expand_names("DELIVERY").split(", ")

    assert len(variables) == int(expand_names("DELIVERY_VALUES"))
    names = [*Delivery.__struct_fields__, "fragment"]
    assert [expand_names(f"delivery.{name}") for name in names] == variables


def test_what_is_written_of_an_item_is_at_the_places_that_scripts_read() -> None:
    done = Done("r", "n", "s", "lease", plan="p", cursor=3)
    waiting = Waiting("r", "n", "s", "lease", kind="signal", key="k", due_ms=5)

    for item, expected in (
        (done, {"type": "done", "lease": "lease", "plan": "p", "cursor": 3, "deliveries": 2}),
        (waiting, {"type": "waiting", "kind": "signal", "key": "k", "due_ms": 5, "flaw": None}),
    ):
        values = ITEM.write[type(item)](item, None, 2)
        assert len(values) == ITEM.length
        assert {name: values[ITEM.places[name] - 1] for name in expected} == expected


def test_a_field_that_a_record_gets_is_part_of_what_a_request_carries() -> None:
    wider = msgspec.defstruct("Wider", [("colour", int, 0)], bases=(Done,), frozen=True, tag="done")

    message = Message({wider: {}, Waiting: {}})

    written = message.write[wider](wider("r", "n", "s", "lease", colour=7))
    assert written[message.places["colour"] - 1] == 7
    places = [message.places[name] for name in ("type", *wider.__struct_fields__)]
    assert len(set(places)) == len(places)


def test_a_field_that_a_record_gets_comes_last_in_the_tail() -> None:
    wider = msgspec.defstruct("Wider", [("colour", int, 0)], bases=(Token,))
    before = {column.name for column in TOKEN.tail}

    layout = Layout(
        "T",
        wider,
        implied=("run", "node", "scope", "tenant"),
        numbers=TOKEN.numbers,
        strings=TOKEN.strings,
        tail=tuple(column.name for column in TOKEN.tail),
        extra={"source_event": int, "joined": bool},
    )

    assert layout.tail[:-1] == TOKEN.tail
    assert (layout.tail[-1].name, layout.tail[-1].kind, layout.tail[-1].default) == (
        *("colour", "number"),
        0,
    )
    assert "colour" not in before


def test_where_the_columns_of_layout_3_are_never_changes() -> None:
    assert RUN.format == ">dI4I4I4" + 4 * "I4c0"
    assert RUN.stored[:14] == (
        *("started_ms", "counter", "seq", "generation"),
        *("tenant", "workflow", "plan", "status", "tail"),
        *("deadline_ms", "scoped", "dead_letters", "ended_ms", "error"),
    )
    assert TOKEN.format == ">ddI4I4I4I4I4" + 6 * "I4c0"
    assert TOKEN.stored[:27] == (
        *("due_ms", "taken_ms", "hop", "attempt", "delivery", "event", "source_event"),
        *("state", "outcome", "lease", "session", "queue", "source", "tail"),
        *("skip", "source_scope", "reads", "joined", "lane", "expiry", "cursor"),
        *("wait", "wait_key", "resolution", "slot", "slot_limit", "lost"),
    )
    packed = {name: layout.stored for name, layout in LAYOUTS.items() if not layout.has_struct}
    assert packed["origin"][:6] == (
        *("workflow", "plan", "created_ms", "tags", "idempotency_key", "parent"),
    )
    assert packed["join"][:7] == ("need", "total", "live", "skipped", "fired", "hop", "listed")
    assert packed["arrival"][:3] == ("source_scope", "live", "late")
    assert packed["listed"] == ("source", "source_scope", "event")
    assert packed["dead_letter"][:11] == (
        *("node", "scope", "generation", "tenant", "queue", "reason", "error"),
        *("fingerprint", "attempts", "at_ms", "status"),
    )
