"""Documents that try to call what a module of handlers has, and does not offer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import minuet
from minuet.app.app import App
from minuet.errors import DocumentError, HandlerError
from minuet.nodes.handler import Handlers

from ..scenario.harness import task, workflow

#: What an ordinary module of handlers looks like: it imports, wraps, aliases and hides things.
SHOP = """
import functools
import os
import shutil as sh
import subprocess
from os import system
from os.path import *
from subprocess import run

import minuet

DONE = []
remove = os.remove
spawn = subprocess.Popen
shell = functools.partial(subprocess.run, shell=True)
quick = lambda command: os.system(command)


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        DONE.append(function.__name__)
        return function(*args, **kwargs)

    return wrapper


def plain_wrapper(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


walk = logged(os.walk)
copy = plain_wrapper(sh.copytree)


@functools.wraps(subprocess.run)
def dressed_up(*args, **kwargs):
    return subprocess.run(*args, **kwargs)


class Shell:
    @staticmethod
    def run(command):
        os.system(command)

    def __call__(self, command):
        os.system(command)


shell_object = Shell()


def _private(path="x"):
    os.remove(path)


def __getattr__(name):
    return os.system


def price(number: int = 1) -> int:
    return number


alias = price


@logged
def total(number: int = 1) -> int:
    return number


async def later() -> int:
    return 1


@minuet.task(name="hostile_registered")
def registered() -> int:
    return 1
"""

OFFERED = ["later", "logged", "plain_wrapper", "price", "registered", "total"]

REFUSED = [
    # imported
    *("run", "system", "join", "os", "sh", "subprocess", "functools", "minuet"),
    # aliases and wrappers of what was imported
    *("remove", "spawn", "shell", "quick", "walk", "copy", "dressed_up", "alias"),
    # classes and objects that can be called
    *("Shell", "shell_object", "Shell.run", "shell_object.__call__"),
    # hidden, and ways around
    *("_private", "__getattr__", "__builtins__", "__class__", "__dict__", "__import__"),
    *("os.system", "os:system", "price.__globals__", "total.__wrapped__", "price.__call__"),
    *("DONE", "DONE.append", "anything", "", " price", "price ", "price\n", "PRICE", "ｐrice"),
]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "hostile_shop.py"
    path.write_text(SHOP, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", REFUSED, ids=repr)
async def test_what_a_module_only_has_cannot_be_named(shop: Path, name: str) -> None:
    async with App("memory://", handlers=[str(shop)]) as app:
        with pytest.raises(DocumentError) as refused:
            await app.start(workflow(task("n", handler=f"hostile_shop:{name}")))

        assert refused.value.diagnostics[0].path == "nodes[0].handler"
        assert await app.runs.list() == []
        with pytest.raises(HandlerError):
            app.handlers.find(f"hostile_shop:{name}")


@pytest.mark.parametrize("name", OFFERED)
def test_what_a_module_defines_or_registers_can_be_named(shop: Path, name: str) -> None:
    handlers = Handlers()
    handlers.load(str(shop))

    assert callable(handlers.find(f"hostile_shop:{name}"))


def test_a_worker_offers_what_can_be_named_and_nothing_else(shop: Path) -> None:
    handlers = Handlers()
    handlers.load(str(shop))

    assert handlers.functions() == [f"hostile_shop:{name}" for name in OFFERED]


def test_an_alias_says_how_to_make_it_a_handler(shop: Path) -> None:
    handlers = Handlers()
    handlers.load(str(shop))

    with pytest.raises(HandlerError, match=r"unless @minuet\.task registers it"):
        handlers.find("hostile_shop:run")


async def test_a_run_that_names_what_was_imported_is_not_taken_by_a_worker(
    shop: Path, tmp_path: Path
) -> None:
    """The process that starts a run need not have the handlers: the worker decides."""
    victim = tmp_path / "victim"
    victim.write_text("here")
    store = f"sqlite:///{tmp_path}/a.db"
    document = workflow(
        task("evil", handler="hostile_shop:remove", config={"path": str(victim)}),
        task("good", handler="hostile_ok"),
    )
    async with App(store, worker=False) as app:
        run = await app.start(document)

    @minuet.task(name="hostile_ok")
    def good() -> int:
        return 1

    async with App(store, handlers=[str(shop)]) as app:
        async for _, _, event in app.follow(run):
            if getattr(event, "node", None) == "good":
                break
        nodes: Any = (await app.runs.show(run)).nodes

    assert nodes["good"].status == "COMPLETED"
    assert nodes["evil"].status == "QUEUED"
    assert victim.read_text() == "here"
