"""Where the values of secrets come from.

Documents, plans and events hold the names of secrets only. A worker asks its provider for a value
when a node reads it. MINUET_SECRETS chooses the provider of a command:

    env:API_KEY,DB_*            these environment variables, and no others
    env                         any environment variable
    folder:/run/secrets         the files of a folder, one for each secret
    python:package.vault:VAULT  an object, or a function of a name, in a Python module
    none                        no secrets
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from minuet.errors import ConfigError
from minuet.nodes.loading import load_module

#: Longest file that is read as a secret.
FILE_BYTES_MAX = 64 * 1024

_FILE_NAME = re.compile(r"[A-Za-z0-9_][\w.-]*", re.ASCII)


class SecretProvider(Protocol):
    """Knows the values of secrets.

    It is asked whenever a node reads a secret, and when what a node returns, logs or raises is
    masked. It may be called from several threads, and on the event loop: a provider that reads
    over the network should keep what it has read.
    """

    def get(self, name: str) -> str:
        """The value of a secret; LookupError if there is no secret of this name."""
        ...


class NoSecret(LookupError):
    """A provider of ours does not have a secret. Its text says why, and names no other secret."""


class EnvironmentSecrets:
    """Secrets are environment variables of the worker's process."""

    def __init__(self, allowed: Sequence[str] | None = None) -> None:
        """`allowed` are the names that may be read, with `*` for any characters; None: all."""
        self._allowed = None if allowed is None else tuple(allowed)

    def get(self, name: str) -> str:
        """The value of the environment variable of this name."""
        allowed = self._allowed
        if allowed is not None and not any(fnmatch.fnmatchcase(name, one) for one in allowed):
            raise NoSecret(f"MINUET_SECRETS does not allow it: add it, as in env:{name}")
        value = os.environ.get(name)
        if value is None:
            raise NoSecret("the worker has no environment variable of this name")
        return value


class FolderSecrets:
    """Each secret is a file of this name in a folder. Line breaks at its end do not count."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> str:
        """The content of the file of this name."""
        if _FILE_NAME.fullmatch(name) is None:
            raise NoSecret("its name cannot be the name of a file with a secret")
        try:
            with (self._folder / name).open("rb") as file:
                data = file.read(FILE_BYTES_MAX + 1)
            if len(data) > FILE_BYTES_MAX:
                raise NoSecret(f"its file has more than {FILE_BYTES_MAX:,} bytes")
            return data.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise NoSecret("its file is not UTF-8 text") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise NoSecret(f"it cannot be read from {self._folder}: {reason}") from None


class NoSecrets:
    """There are no secrets."""

    def get(self, name: str) -> str:
        """Never a value."""
        raise NoSecret(f"this worker has no secrets: set MINUET_SECRETS, for example to env:{name}")


class _FunctionSecrets:
    """A function of a secret's name."""

    def __init__(self, function: Callable[[str], str]) -> None:
        self.get = function


def known_values(names: Iterable[str], read: Callable[[str], str]) -> Iterator[str]:
    """The values of those secrets that can be read, to be masked. What cannot be read now cannot
    have been given to a handler now."""
    for name in names:
        try:
            yield read(name)
        except Exception:
            continue


def read_provider(text: str) -> SecretProvider:
    """The provider that a setting describes; ConfigError if it describes none."""
    kind, colon, rest = text.strip().partition(":")
    names = [name.strip() for name in rest.split(",") if name.strip()]
    if kind == "none" and not colon:
        return NoSecrets()
    if kind == "env" and (names or not colon):
        return EnvironmentSecrets(names if colon else None)
    if kind == "folder" and rest:
        folder = Path(rest)
        if not folder.is_dir():
            raise ConfigError(f"MINUET_SECRETS: there is no folder {rest!r}")
        return FolderSecrets(folder)
    if kind == "python" and rest:
        return _read_hook(rest)
    raise ConfigError(
        f"MINUET_SECRETS={text!r:.200} names no provider of secrets: expected env, env:NAME,…, "
        "folder:PATH, python:MODULE:NAME or none"
    )


def _read_hook(text: str) -> SecretProvider:
    module_name, _, name = text.rpartition(":")
    if not module_name:
        raise ConfigError("MINUET_SECRETS: a hook is written python:MODULE:NAME")
    found: Any = vars(load_module(module_name)).get(name)
    if isinstance(found, type):
        found = found()
    if callable(getattr(found, "get", None)):
        provider: SecretProvider = found
        return provider
    if callable(found):
        return _FunctionSecrets(found)
    raise ConfigError(
        f"MINUET_SECRETS: {module_name!r} has no {name!r} that is a function of a secret's name, "
        "or an object with a method get(name)"
    )
