"""Blob stores of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.s3 import s3_server

from minuet.blobs.address import make_blob_store
from minuet.blobs.base import BlobStore


@pytest.fixture(params=["folder", "bucket"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """What MINUET_BLOBS says."""
    if request.param == "folder":
        yield f"file://{tmp_path}/blobs"
        return
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with s3_server() as bucket:
        yield bucket.url


@pytest.fixture
async def blobs(url: str) -> BlobStore:
    store = make_blob_store(url)
    await store.open()
    return store
