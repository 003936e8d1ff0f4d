"""Who runs a command."""

from __future__ import annotations

import getpass


def user_name() -> str:
    """The user, as the operating system says; "" if it does not."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
