"""TLS: the files that a store's URL names, and certificates that are not trusted, in words."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

from minuet.errors import ConfigError

#: Options that name files: the authority to trust, our certificate and its key.
FILES = ("sslrootcert", "sslcert", "sslkey")


def check_files(options: Mapping[str, str]) -> None:
    """Refuse a file that does not exist. Drivers say so less clearly, or much later."""
    for name in FILES:
        file = options.get(name)
        if file is not None and not Path(file).is_file():
            raise ConfigError(f"{name}={file}: there is no such file")


def find_untrusted(error: BaseException | None) -> str | None:
    """Why a server's certificate is not trusted, if that is why a connection failed."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return (
                f"is not trusted: {error.verify_message.rstrip('.')}; name the file with the right "
                "authority with sslrootcert=, and the server as its certificate does"
            )
        error = error.__cause__ or error.__context__
    return None
