"""Where the values of secrets come from.

Documents, plans and events hold the names of secrets only. A worker asks its provider for a value
when a node reads it.
"""

from __future__ import annotations

import os
from typing import Protocol


class SecretProvider(Protocol):
    """Knows the values of secrets.

    It is asked whenever a node reads a secret, and when a node fails, so that its secrets can be
    masked in the error. It may be called from several threads, and on the event loop: a provider
    that reads over the network should keep what it has read.
    """

    def get(self, name: str) -> str:
        """The value of a secret; LookupError if there is no secret of this name."""
        ...


class EnvironmentSecrets:
    """Secrets are environment variables of the worker's process."""

    def get(self, name: str) -> str:
        """The value of the environment variable of this name."""
        return os.environ[name]
