"""The settings that a command works with, and `minuet settings`, which shows them."""

from __future__ import annotations

import os
from argparse import Namespace

from minuet import outcomes
from minuet.cli.output import clean, note, print_json, print_table
from minuet.settings import Settings, find_unknown, masked, read_settings
from minuet.settings.table import TABLE


def settle(arguments: Namespace) -> None:
    """Read the settings and fill in the store that the command line left open.

    ConfigError lists all problems.
    """
    given = ("MINUET_STORE",) if arguments.store else ()
    settings = _read(given)
    arguments.settings = settings
    arguments.store = settings.complete_store(arguments.store or settings.store)


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
