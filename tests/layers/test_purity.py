"""The inner layers compute: same arguments, same result, and nothing happens on the side.

Time, randomness, ids, the environment, files, other threads and logging are the business of
the layers around them, which pass in what is needed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest

PURE = {"kernel", "plan", "model", "conditions", "templates"}

#: Modules whose only use is to look at the world or to change it.
IMPURE_MODULES = {
    *("time", "random", "secrets", "uuid", "asyncio", "threading", "logging", "anyio", "uvloop"),
    *("concurrent", "multiprocessing", "subprocess", "signal", "socket", "ssl", "http", "select"),
    *("tempfile", "shutil", "glob", "sqlite3", "apsw", "platform", "getpass", "locale"),
}
IMPURE_NAMES = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
    *("os.environ", "os.getenv", "os.urandom", "os.getpid", "os.getcwd"),
}
#: `hash` differs from process to process for strings.
IMPURE_CALLS = {"open", "print", "input", "hash"}
IMPURE_METHODS = {"read_text", "read_bytes", "write_text", "write_bytes"}
ASYNCHRONOUS = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)

#: The one function that reads a workflow document from a file.
MAY_READ_A_FILE = ("model", "read_file")

#: Ways to run data as code, unwanted in every layer.
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
UNSAFE_CALLS = {"eval", "exec", "yaml.load", "yaml.unsafe_load", "yaml.full_load"}


#: The border to the processes that run sandboxed code. What they decide follows from code and data
#: alone: their clock stands still, and they have no randomness.
SANDBOX = "minuet.conditions.sandbox.process"


def test_the_inner_layers_are_pure(modules: list[Any]) -> None:
    problems = [
        f"{module.name}:{line} uses {what}"
        for module in modules
        if (layer := layer_of(module.name)) in PURE and module.name != SANDBOX
        for line, what in impurities(layer, module.nodes)
    ]

    assert not problems, "\n".join(problems)


#: Text that becomes code when the package is imported: no data takes part in it.
COMPILED_AT_IMPORT = {
    # The functions between rows and records, from the fields that the records declare.
    ("minuet.store.fields", "exec"),
}


def test_nothing_runs_data_as_code(modules: list[Any]) -> None:
    problems = [
        f"{module.name}:{line} uses {what}"
        for module in modules
        for line, what in unsafe_uses(module.nodes)
        if (module.name, what) not in COMPILED_AT_IMPORT
    ]

    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import time", "time"),
        ("def f():\n    from random import choice", "random"),
        ("import concurrent.futures", "concurrent"),
        ("import datetime\ndatetime.datetime.now()", "datetime.now"),
        ("from datetime import date\ndate.today()", "date.today"),
        ("import os\nos.environ['X']", "os.environ"),
        ("from os import environ", "os.environ"),
        ("open('x')", "open"),
        ("print(1)", "print"),
        ("hash('x')", "hash"),
        ("def read_other(path):\n    return path.read_text()", "read_text"),
        ("async def f(): ...", "async"),
    ],
)
def test_an_impurity_is_found(source: str, what: str) -> None:
    assert [what for _, what in impurities("model", nodes_of(source))] == [what]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import pickle", "pickle"),
        ("from marshal import loads", "marshal"),
        ("eval('1')", "eval"),
        ("exec('1')", "exec"),
        ("import yaml\nyaml.load(text, Loader=yaml.SafeLoader)", "yaml.load"),
    ],
)
def test_running_data_as_code_is_found(source: str, what: str) -> None:
    assert [what for _, what in unsafe_uses(nodes_of(source))] == [what]


def test_only_the_model_reads_a_file_and_only_in_one_function() -> None:
    nodes = nodes_of("def read_file(path):\n    return path.read_text() + open(path).read()")

    assert not list(impurities("model", nodes))
    assert [what for _, what in impurities("plan", nodes)] == ["read_text", "open"]


def test_a_harmless_module_is_not_reported() -> None:
    nodes = nodes_of("import re, datetime\nprogram.eval(x)\nself.open()\ndatetime.timedelta(1)")

    assert not list(impurities("model", nodes))
    assert not list(unsafe_uses(nodes))


def impurities(layer: str, nodes: list[Any]) -> Iterator[tuple[int, str]]:
    """Give line and name of everything in a pure module that is not."""
    exempt = set(file_reads(layer, nodes[0]))
    for node in nodes:
        for name in imported_modules(node):
            if name.split(".")[0] in IMPURE_MODULES:
                yield node.lineno, name.split(".")[0]
        for name in sorted(used_names(node) & IMPURE_NAMES):
            yield node.lineno, name
        if isinstance(node, ASYNCHRONOUS):
            yield node.lineno, "async"
        if isinstance(node, ast.Call) and node not in exempt:
            match node.func:
                case ast.Name(id=name) if name in IMPURE_CALLS:
                    yield node.lineno, name
                case ast.Attribute(attr=name) if name in IMPURE_METHODS:
                    yield node.lineno, name


def file_reads(layer: str, tree: ast.Module) -> Iterator[ast.Call]:
    """Give the calls inside the one function that may read a file."""
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and (layer, function.name) == MAY_READ_A_FILE:
            yield from (node for node in ast.walk(function) if isinstance(node, ast.Call))


def unsafe_uses(nodes: list[Any]) -> Iterator[tuple[int, str]]:
    """Give line and name of everything that could run data as code."""
    for node in nodes:
        for name in imported_modules(node):
            if name.split(".")[0] in UNSAFE_MODULES:
                yield node.lineno, name.split(".")[0]
        if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in UNSAFE_CALLS:
            yield node.lineno, name


def nodes_of(source: str) -> list[Any]:
    return list(ast.walk(ast.parse(source)))


def imported_modules(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
        case _:
            return []


def used_names(node: ast.AST) -> set[str]:
    """The last two parts of a dotted name that is used, or imported from a module."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
            return {f"{owner}.{name}"}
        case ast.ImportFrom(module=str(module), names=aliases):
            return {f"{module}.{alias.name}" for alias in aliases}
        case _:
            return set()


def layer_of(name: str) -> str:
    return name.split(".")[1] if "." in name else name
