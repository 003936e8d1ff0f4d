"""The rules of `store/rules` and those in Lua: the same files, functions and order.

That they mean the same is shown by the conformance and the differential tests. This keeps them in a
form in which a reader can compare them.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from minuet import events
from minuet.store import rules
from minuet.store.exchange import Result
from minuet.store.redis import library
from minuet.store.redis.columns import FIELDS, RESULT_CODES

LUA = Path(library.__file__).parent / "lua"
PYTHON = Path(rules.__file__).parent

#: Functions that only one language has, and why.
ONLY_IN_PYTHON = {
    "leases": {
        "hold_open": (
            "a server runs one call at a time, so nobody else can take the token meanwhile"
        ),
        "lease_length": "a request has bounded the lengths before they are sent",
    },
    "runs": {"change": "a table leads from the kind of a change to its rule"},
    "repairs": {"change": "a table leads from the kind of a change to its rule"},
    "items": {"keep_letter": "in Lua, what is about dead letters has a file of its own"},
}
ONLY_IN_LUA: dict[str, dict[str, str]] = {
    "leases": {"begin_leases": "a call keeps the lengths of its request in the script's memory"},
    "signals": {
        "waiting_in": "in Python, the store finds them",
        "is_awaited": "in Python, it is beside the event of the wait, for the kernel as well",
    },
}

#: What is about rows, and not about rules, has files of its own.
NOT_RULES = {"__init__", "changes", "shared", "transition"}


def python_functions(name: str) -> list[str]:
    """The functions of a file, also those of its class, in their order."""
    tree = ast.parse((PYTHON / f"{name}.py").read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [node.name.lstrip("_") for node in sorted(found, key=lambda node: node.lineno)]


def lua_functions(name: str) -> list[str]:
    """The functions of a file that have a name, in their order."""
    text = (LUA / "rules" / f"{name}.lua").read_text(encoding="utf-8")
    return re.findall(r"^(?:local )?function (?:(?:undo|repairs)\.)?(\w+)", text, re.MULTILINE)


def test_the_rules_have_the_same_files_in_both_languages() -> None:
    python = {path.stem for path in PYTHON.glob("*.py")} - NOT_RULES

    assert python == set(library.RULES)
    assert {path.stem for path in (LUA / "rules").glob("*.lua")} == set(library.RULES)


@pytest.mark.parametrize("name", library.RULES)
def test_the_functions_of_a_file_are_the_same_in_both_languages(name: str) -> None:
    python = [one for one in python_functions(name) if one not in ONLY_IN_PYTHON.get(name, {})]
    lua = [one for one in lua_functions(name) if one not in ONLY_IN_LUA.get(name, {})]

    assert python
    assert python == lua


def test_a_difference_that_is_excused_is_there() -> None:
    for name, excused in ONLY_IN_PYTHON.items():
        assert excused.keys() <= set(python_functions(name)) - set(lua_functions(name))
    for name, excused in ONLY_IN_LUA.items():
        assert excused.keys() <= set(lua_functions(name)) - set(python_functions(name))


def lua_files() -> list[Path]:
    return sorted(LUA.rglob("*.lua"))


def test_events_are_written_in_one_lua_file_only() -> None:
    types = [str(kind.__struct_config__.tag) for kind in get_args(events.Event)]
    # A type in quotes, or the name of a field as JSON writes it.
    written = re.compile("|".join(re.escape(kind) for kind in types) + r'|"\w+"\s*:|"\s*:')
    found = {
        path.name: written.findall(code_of(path))
        for path in lua_files()
        if path.name != "event.lua"
    }

    assert not {name: what for name, what in found.items() if what}


def code_of(path: Path) -> str:
    """A file without its comments."""
    return re.sub(r"--.*", "", path.read_text(encoding="utf-8"))


def test_every_type_of_event_is_written_by_a_function_of_its_name() -> None:
    text = (LUA / "event.lua").read_text(encoding="utf-8")
    functions = set(re.findall(r"function events\.(\w+)", text))
    types = {str(kind.__struct_config__.tag) for kind in get_args(events.Event)}

    # The most frequent one is written with its record, in one go.
    assert "function completed_record" in text
    assert functions | {"node_completed"} == {kind.replace(".", "_") for kind in types}


def test_each_result_and_each_kind_of_field_has_a_byte_of_its_own() -> None:
    assert set(RESULT_CODES) == set(get_args(Result))
    for table in (RESULT_CODES, FIELDS):
        assert all(len(code.encode()) == 1 for code in table.values())
        assert len(set(table.values())) == len(table)


def test_no_script_writes_the_letter_of_a_field_itself() -> None:
    letters = "".join(FIELDS.values())
    # A letter alone, or before the rest of a field's name.
    written = re.compile(rf"(?:\[R_KEY\], |RUN \.\. \w+, )'[{letters}]'|'[{letters}]' \.\.")

    found = [path.name for path in lua_files() if written.search(code_of(path))]

    assert not found
