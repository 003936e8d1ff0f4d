"""Blobs as objects in a bucket of S3, or of anything that speaks its protocol.

Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, a role of the
machine, …), never from the URL. The library's calls run in threads: its own coroutines can abort
the interpreter at exit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, cast

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from minuet.errors import ConfigError, StoreUnavailableError

T = TypeVar("T")

#: Names in one request to delete.
STEP = 1000


class BucketBlobs:
    """Objects below a prefix of a bucket."""

    def __init__(self, bucket: str, prefix: str, options: dict[str, str]) -> None:
        self.name = f"s3://{bucket}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        allow_http = options.get("endpoint", "").startswith("http://")
        try:
            self._store = S3Store(
                bucket,
                config=cast(Any, options),
                client_options={"allow_http": allow_http, "timeout": "60s"},
                retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=20)},
            )
        except (BaseError, ValueError) as error:
            raise ConfigError(f"MINUET_BLOBS: {self.name} cannot be used: {_text(error)}") from None

    async def open(self) -> None:
        """Nothing is opened: the first call shows whether the bucket is there."""

    async def put(self, name: str, data: bytes) -> None:
        path = self._prefix + name
        await self._call(
            "written", lambda: obstore.put(self._store, path, data, use_multipart=False)
        )

    async def get(self, name: str) -> bytes | None:
        def read() -> bytes | None:
            try:
                return bytes(obstore.get(self._store, self._prefix + name).bytes())
            except (NotFoundError, FileNotFoundError) as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

        return await self._call("read", read)

    async def list(self, beginning: str = "") -> AsyncIterator[tuple[str, int]]:
        pages = obstore.list(self._store, self._prefix + beginning, chunk_size=STEP)
        while page := await self._call("listed", lambda: next(pages, [])):
            for entry in page:
                modified = round(entry["last_modified"].timestamp() * 1000)
                yield entry["path"].removeprefix(self._prefix), modified

    async def delete(self, names: Sequence[str]) -> None:
        for first in range(0, len(names), STEP):
            paths = [self._prefix + name for name in names[first : first + STEP]]
            await self._call("deleted", partial(obstore.delete, self._store, paths))

    async def _call(self, done: str, function: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(function)
        except (BaseError, OSError) as error:
            what = f"a blob cannot be {done} in {self.name}: {_text(error)}"
            raise StoreUnavailableError(what) from None


def _text(error: Exception) -> str:
    """The first line: the others are the library's inner state."""
    return str(error).strip().splitlines()[0][:500] if str(error).strip() else repr(error)
