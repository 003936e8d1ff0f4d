"""The store or the server that a command works on, and the run in it that the user names."""

from __future__ import annotations

import asyncio
import os
import shlex
from argparse import Namespace
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack

from minuet.app.app import App, Facade
from minuet.app.options import OptionArguments, Options
from minuet.cli.places import is_memory as is_memory
from minuet.cli.places import is_server as is_server
from minuet.errors import ConfigError, RunNotFoundError
from minuet.settings import masked, read_settings
from minuet.settings.table import DEFAULT_STORE

if TYPE_CHECKING:
    from minuet.client.client import AsyncClient

Answer = TypeVar("Answer")

#: What a command works with.
Place: TypeAlias = "App | AsyncClient"

#: Names of the newest run.
LATEST = ("latest", "last")


def command_line(url: str, *words: str) -> str:
    """A `minuet` command on this store or server, to be pasted into a shell."""
    if is_server(url):
        return shlex.join(["minuet", *words, "--url", url])
    # The store that the environment chooses. It is named all the same, because the shell that the
    # command is pasted into may have another environment; but not if it holds a password.
    chosen = read_settings(os.environ, given=("MINUET_STORE",)).store or DEFAULT_STORE
    implied = url == chosen and (url == DEFAULT_STORE or masked(url) != url)
    return shlex.join(["minuet", *words, *([] if implied else ["--store", masked(url)])])


def file_of(url: str) -> Path | None:
    """The file of a SQLite store; None for other stores, and for URLs that name no file."""
    if url.startswith("sqlite:///"):
        return Path(url.removeprefix("sqlite:///").partition("?retention_s=")[0])
    return None if ":" in url else Path(url)


def exists(url: str) -> bool:
    """Whether there can be runs in the store already."""
    if is_server(url):
        return True
    file = file_of(url)
    return not is_memory(url) and (file is None or file.exists())


def check_names(url: str, name: str) -> None:
    """ConfigError if the store cannot have a deployed workflow of this name: there is no store."""
    if not exists(url):
        raise ConfigError(
            f"there is no store at {file_of(url)}, so no workflow {name!r} is "
            "deployed: deploy it with `minuet deploy FILE`, or name a file by its path (./FILE)"
        )


def open_place(url: str, **options: Unpack[OptionArguments]) -> Place:
    """An App without a worker on a store, or the client of a server."""
    if is_server(url):
        from minuet.client.client import AsyncClient

        return AsyncClient(url)
    chosen: OptionArguments = {**options, "worker": False}
    return App(url, **chosen)


def open_to_read(url: str, **options: Unpack[OptionArguments]) -> Place:
    """As `open_place`, on a store that exists; ConfigError when it does not."""
    if is_memory(url):
        raise ConfigError("memory:// is a new store in every process: there is nothing in it")
    if not exists(url):
        raise ConfigError(
            f"there is no store at {file_of(url)} yet: `minuet run` or `minuet start` makes it. "
            "Name another one with --store or MINUET_STORE"
        )
    return open_place(url, **options)


def with_app(
    arguments: Namespace,
    ask: Callable[[Facade], Coroutine[Any, Any, Answer]],
    **options: Unpack[OptionArguments],
) -> Answer:
    """Open the store or the server of a command, do something with it, and close it."""

    async def work() -> Answer:
        async with open_to_read(arguments.store, **options) as app:
            return await ask(app)

    return asyncio.run(work())


def of_tenant(app: Facade, tenant: str) -> Facade:
    """The facade of a tenant. Through a server, it is that of the API key."""
    if isinstance(app, App):
        return app.for_tenant(tenant)
    if tenant != Options().tenant:
        raise ConfigError("--tenant does not go with --url: an API key belongs to one tenant")
    return app


async def find_run(app: Facade, text: str) -> str:
    """The id of the run with this id or this beginning of an id; or `latest`, which is never a
    child run."""
    if text not in LATEST:
        return await app.runs.find(text)
    newest = await app.runs.list(limit=1)
    if not newest:
        raise ConfigError("there are no runs in this store yet")
    # The ids of a family begin alike, so the newest run is one of the newest family.
    run = newest[0]
    while run.parent is not None:
        try:
            run = await app.runs.get(run.parent)
        except RunNotFoundError:  # It was deleted, and its child runs were not.
            break
    return run.run


async def find_to_change(app: Facade, text: str) -> str:
    """As `find_run`, but `latest` is refused: it may not be the run that the user means."""
    if text in LATEST:
        raise ConfigError(
            f"{text!r} may not be the run that you mean: name it by its id, or the beginning of "
            f"its id (`minuet runs show {text}` prints it)"
        )
    return await app.runs.find(text)
