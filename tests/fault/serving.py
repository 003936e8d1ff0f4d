"""Servers that die at a border of a call to their store."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from tests.fault.tasks import Mortal

from minuet.api.application import Api, make_routes
from minuet.api.serving import serving
from minuet.app.app import App
from minuet.store.sqlite import SqliteStore

# FastAPI works out its routes when they are first used: here, and not in every child.
make_routes().openapi()

#: Every call that changes a store.
CHANGES = (
    *("exchange", "sweep", "create_runs", "change_run", "resolve", "record_steps"),
    *("discard_dead_letter", "delete_runs", "mark_reported", "mark_noted", "put_run"),
    *("register_worker", "drain_worker", "remove_worker", "forget_idle", "deploy_workflow"),
    *("write_cells", "put_blob", "touch_blobs", "delete_blobs"),
)


async def serve(db: str, path: str, dies_at: int, **options: Any) -> None:
    """Serve a store at a socket in the file system, until the border or a signal."""
    store: Any = Mortal(SqliteStore(db), dies_at, CHANGES)
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    async with App(store, worker=False, **options) as app, serving(Api(app), sock):
        await asyncio.get_running_loop().create_future()
