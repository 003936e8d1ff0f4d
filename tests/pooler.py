"""A real PgBouncer between a store and its PostgreSQL server: each transaction of a client may run
on another connection of the server, and there are fewer of those than clients."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tools.services import HOST, UNPACKED, Postgres, Server

#: Connections to the server: fewer than a store opens, so that they really change hands.
POOL_SIZE = 4


def program() -> Path | None:
    """PgBouncer, if it is to be had here."""
    places = (Path("/usr/sbin/pgbouncer"), UNPACKED / "usr" / "sbin" / "pgbouncer")
    return next((place for place in places if place.exists()), None)


class PgBouncer(Server):
    """A pooler in front of a server."""

    def __init__(self, folder: Path, server: Postgres, **settings: str) -> None:
        super().__init__(folder)
        self._server = server
        self._settings = {
            "pool_mode": "transaction",
            "default_pool_size": str(POOL_SIZE),
            "max_client_conn": "500",
            **settings,
        }

    def url(self, schema: str, *, pooler: str = "&pooler=transaction") -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres?schema={schema}{pooler}"

    def _prepare(self) -> None:
        """It runs as the user of the server, who may not enter our folders: it gets a copy."""
        found = program()
        assert found is not None
        own = self.folder / "pgbouncer"
        shutil.copy(found, own)
        for library in UNPACKED.glob("usr/lib/*/*.so*"):
            shutil.copy(library, self.folder)
        (self.folder / "users").write_text('"postgres" ""\n')
        settings = "\n".join(f"{name} = {value}" for name, value in self._settings.items())
        (self.folder / "settings").write_text(
            f"""
            [databases]
            * = host={HOST} port={self._server.port}
            [pgbouncer]
            listen_addr = {HOST}
            listen_port = {self.port}
            unix_socket_dir =
            auth_type = trust
            auth_file = {self.folder}/users
            server_login_retry = 1
            """
            + settings
        )
        if self._server.user is not None:
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, self._server.user, -1)

    def _spawn(self) -> None:
        command = [str(self.folder / "pgbouncer"), str(self.folder / "settings")]
        self._run(command, self._server.user, {"LD_LIBRARY_PATH": str(self.folder)})
