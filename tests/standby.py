"""A real standby of a PostgreSQL server: a copy that follows it, and can take over."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import asyncpg
from tools.services import HOST, Postgres

#: What a server is started with whose disk is not the point.
FAST = {"fsync": "off", "full_page_writes": "off"}


class Standby(Postgres):
    """Follows another server from its first start on."""

    def __init__(self, folder: Path, primary: Postgres, **settings: str) -> None:
        super().__init__(folder, **settings)
        self._primary = primary

    def _make_data(self, data: Path) -> None:
        subprocess.run(
            [
                *(str(self._programs / "pg_basebackup"), "-D", str(data), "-U", "postgres"),
                *("-h", HOST, "-p", str(self._primary.port)),
                # What is written meanwhile comes too; it then goes on following.
                *("--wal-method=stream", "--checkpoint=fast", "--write-recovery-conf"),
            ],
            cwd=self.folder,
            check=True,
            capture_output=True,
            user=self.user,
        )

    async def catch_up(self) -> None:
        """Wait for all that its primary has written by now."""
        ((written,),) = await ask(self._primary, "SELECT pg_current_wal_flush_lsn()::text")
        question = f"SELECT pg_last_wal_replay_lsn() >= '{written}' AS has_all"
        while not (await self._ask(question))[0]["has_all"]:
            pass

    async def stop_following(self) -> None:
        """From now on nothing arrives that its primary does."""
        await self._ask("ALTER SYSTEM SET primary_conninfo = ''")
        await self._ask("SELECT pg_reload_conf()")
        while await self._ask("SELECT 1 FROM pg_stat_wal_receiver"):
            pass

    async def promote(self) -> None:
        """Become a primary."""
        await self._ask("SELECT pg_promote(true, 60)")

    async def _ask(self, question: str) -> list[Any]:
        return await ask(self, question)


async def ask(server: Postgres, question: str) -> list[Any]:
    """A question to a server, past all stores."""
    connection = await asyncpg.connect(server.url)
    try:
        found: list[Any] = await connection.fetch(question)
        return found
    finally:
        await connection.close()
