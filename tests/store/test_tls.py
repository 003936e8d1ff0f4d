"""Servers that are talked to over TLS: with the right authority everything works, with another one,
or another name, the server is refused in one sentence."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.fault import workload
from tests.standby import FAST
from tools.services import HOST, Postgres, Redis, Server, free_port, redis_programs

from minuet.app.app import App
from minuet.app.stores import make_store
from minuet.errors import ConfigError, StoreUnavailableError

#: Valkey, as a wheel brings it along, cannot encrypt.
KINDS = ["postgres", *(["redis"] if "redis" in redis_programs() else [])]


@dataclass
class Guarded:
    """A server, and how to name it."""

    folder: Path
    url: str
    authority: Authority

    def at(self, host: str = HOST, authority: Path | None = None) -> str:
        return f"{self.url.replace(HOST, host)}{authority or self.authority.certificate}"


@pytest.fixture(scope="module", params=KINDS)
def guarded(request: pytest.FixtureRequest) -> Iterator[Guarded]:
    """A server whose certificate is made out to 127.0.0.1."""
    folder = Path(tempfile.mkdtemp(prefix="minuet-"))
    os.chmod(folder, 0o755)
    authority = Authority(folder / "authority")
    server: Server
    if request.param == "postgres":
        server = Postgres(folder / "server", ssl="on", **FAST)
        certificate, key = authority.sign(f"IP:{HOST}", server.user)
        server.settings |= {"ssl_cert_file": str(certificate), "ssl_key_file": str(key)}
        url = f"{server.url}?sslmode=verify-full&sslrootcert="
    else:
        certificate, key = authority.sign(f"IP:{HOST}")
        port = free_port()
        server = Redis(
            folder / "server",
            program=redis_programs()["redis"],
            tls_port=str(port),
            tls_cert_file=str(certificate),
            tls_key_file=str(key),
            tls_ca_cert_file=str(authority.certificate),
            tls_auth_clients="no",
        )
        url = f"rediss://{HOST}:{port}/0?sslrootcert="
    server.start()
    yield Guarded(folder, url, authority)
    server.kill()
    shutil.rmtree(folder)


async def refusal(url: str) -> str:
    store = make_store(url)
    with pytest.raises(StoreUnavailableError) as refused:
        await store.open()
    return str(refused.value)


async def test_with_the_right_authority_runs_complete(guarded: Guarded) -> None:
    async with App(guarded.at(), handlers=[workload]) as app:
        result = await app.run(workload.small(), {"seed": 1}, timeout=60)

    assert result.status == "COMPLETED"


async def test_a_server_that_another_authority_has_signed_is_refused(guarded: Guarded) -> None:
    other = Authority(guarded.folder / "other")

    said = await refusal(guarded.at(authority=other.certificate))

    assert "is not trusted: " in said
    assert "name the file with the right authority with sslrootcert=" in said
    assert "\n" not in said


async def test_a_server_by_another_name_is_refused(guarded: Guarded) -> None:
    said = await refusal(guarded.at(host="localhost"))

    assert "is not trusted: Hostname mismatch" in said


async def test_a_file_that_is_not_there_is_named(guarded: Guarded) -> None:
    missing = guarded.folder / "missing.crt"

    with pytest.raises(ConfigError, match=r"missing\.crt: there is no such file"):
        await make_store(guarded.at(authority=missing)).open()


def test_files_for_tls_are_refused_without_it() -> None:
    with pytest.raises(ConfigError, match="write rediss:// instead of redis://"):
        make_store("redis://127.0.0.1/0?sslrootcert=some.crt")
