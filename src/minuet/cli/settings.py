"""The settings that a command works with, and `minuet settings`, which shows them."""

from __future__ import annotations

import os
from argparse import Namespace

from minuet import outcomes
from minuet.cli.output import clean, note, print_json, print_table
from minuet.cli.places import is_server
from minuet.errors import ConfigError
from minuet.settings import Settings, find_unknown, masked, read_settings
from minuet.settings.table import TABLE


def settle(arguments: Namespace) -> None:
    """Read the settings and fill in the store, or the server, that the command line left open.

    A server takes the place of the store: `cli.stores` opens a client for it. ConfigError lists all
    problems.
    """
    url = _server(arguments)
    given = ("MINUET_STORE",) if arguments.store or url else ()
    settings = _read(given)
    arguments.settings = settings
    arguments.store = url or settings.complete_store(arguments.store or settings.store)


def _server(arguments: Namespace) -> str | None:
    """The server that a command goes to; None: to no server."""
    if "url" not in arguments:
        return None
    if arguments.url is not None and arguments.store is not None:
        raise ConfigError("--store and --url both say where to look: give one of them")
    url: str | None = arguments.url
    if url is None and arguments.store is None:
        url = os.environ.get("MINUET_URL", "").strip() or None
    if url is not None and not is_server(url):
        raise ConfigError(f"{url!r:.200} is not the URL of a server: write http://HOST:PORT")
    return url


def show(arguments: Namespace) -> int:
    """Show every setting, its value and where that comes from."""
    # A user who shows the settings may not have chosen a store yet.
    settings = _read(("MINUET_STORE",))
    rows = _rows(settings)
    store = masked(settings.store or "")
    if arguments.output == "json":
        print_json({"environment": settings.environment, "store": store, "settings": rows})
        return outcomes.COMPLETED
    titles = ("setting", "value", "from", "default")
    cells = [[clean(str(row[title] or "")) for title in titles] for row in rows]
    print_table(titles, cells, names=("value", "from"))
    print(f"The store is {store or 'not chosen'}.")
    print("(no effect): accepted, and checked; docs/reference/settings.md says why.")
    return outcomes.COMPLETED


def _read(given: tuple[str, ...]) -> Settings:
    for unknown in find_unknown(os.environ):
        note(f"minuet: {unknown}")
    return read_settings(os.environ, given=given)


def _rows(settings: Settings) -> list[dict[str, str | bool]]:
    rows: list[dict[str, str | bool]] = []
    for source in settings.sources.values():
        where = "environment" if source.is_set else f"default ({settings.environment})"
        rows.append(
            {
                "setting": source.name,
                "value": source.shown,
                "from": f"{where} (no effect)" if source.setting.unused else where,
                "default": source.default_shown(settings.environment),
                "has_effect": not source.setting.unused,
                "help": source.setting.help,
            }
        )
    known = {source.setting.name for source in settings.sources.values()}
    for setting in TABLE:
        if setting.is_family and setting.name not in known:
            row = {"setting": setting.name, "value": "", "from": "not set", "default": ""}
            rows.append({**row, "has_effect": True, "help": setting.help})
    return rows
