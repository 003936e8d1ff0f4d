"""Certificates that a test makes for its servers, and an authority that signed them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from tools.services import UNPACKED, environment_of

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """Signs certificates; `certificate` is the file of those who trust it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self.certificate = folder / "authority.crt"
        self._key = folder / "authority.key"
        _openssl(
            *("req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=authority"),
            *("-keyout", self._key, "-out", self.certificate),
        )

    def sign(self, name: str, owner: int | None = None) -> tuple[Path, Path]:
        """The certificate of a server (`IP:127.0.0.1`) and its key, which its owner may read."""
        request, extension = self._folder / "request", self._folder / "extension"
        certificate, key = self._folder / "server.crt", self._folder / "server.key"
        extension.write_text(f"subjectAltName={name}\n")
        _openssl("req", *_KEY, "-subj", "/CN=server", "-keyout", key, "-out", request)
        _openssl(
            *("x509", "-req", "-in", request, "-days", "2", "-extfile", extension),
            *("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
            *("-out", certificate),
        )
        if owner is not None:
            os.chown(key, owner, -1)
        key.chmod(0o600)
        return certificate, key


def _openssl(*words: str | Path) -> None:
    program = shutil.which("openssl") or str(UNPACKED / "usr" / "bin" / "openssl")
    environment = {**os.environ, **environment_of(program)}
    subprocess.run([program, *words], check=True, capture_output=True, env=environment)
