"""What the driver's errors mean to callers: repeat later, give up, or not ours."""

from __future__ import annotations

from minuet.errors import StoreError, StoreUnavailableError, StoreUnusableError
from minuet.store.certificate import find_untrusted

#: First words of answers that pass: the same call may succeed later.
_PASSING = frozenset(
    {
        *("BUSY", "LOADING", "OOM", "READONLY", "MISCONF", "TRYAGAIN", "MOVED", "ASK"),
        *("CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "UNBLOCKED", "EXECABORT"),
    }
)

#: How an answer begins when a function may not use a command: Valkey's, Redis's.
_FORBIDDEN = ("ACL failure in script", "The user executing the script can't")


def is_unknown_function(error: Exception) -> bool:
    """Whether the server does not have the library, and has done nothing."""
    return "Function not found" in str(error)


def is_lost(error: Exception) -> bool:
    """Whether it is not known if the call was made: the connection broke, or took too long."""
    from redis.exceptions import AuthenticationError, BusyLoadingError, ConnectionError
    from redis.exceptions import TimeoutError as DriverTimeoutError

    if isinstance(error, AuthenticationError | BusyLoadingError):
        return False
    return isinstance(error, ConnectionError | DriverTimeoutError | OSError | EOFError)


def is_passing(error: Exception) -> bool:
    """Whether the server refused the call for now, having changed nothing."""
    from redis.exceptions import (
        AskError,
        BusyLoadingError,
        ClusterDownError,
        MovedError,
        OutOfMemoryError,
        ReadOnlyError,
        TryAgainError,
    )

    passing = (
        *(AskError, BusyLoadingError, ClusterDownError, MovedError),
        *(OutOfMemoryError, ReadOnlyError, TryAgainError),
    )
    return isinstance(error, passing) or str(error).partition(" ")[0] in _PASSING


def translate(error: Exception, shown: str) -> StoreError:
    """The driver's error as one of ours."""
    from redis.exceptions import AuthenticationError, AuthorizationError, NoPermissionError

    if isinstance(error, AuthenticationError | AuthorizationError):
        return StoreUnusableError(f"the Redis server at {shown} does not accept the password")
    if isinstance(error, NoPermissionError) or str(error).startswith(_FORBIDDEN):
        return StoreUnusableError(f"the Redis user at {shown} may not do what is needed: {error}")
    untrusted = find_untrusted(error)
    if untrusted is not None:
        return StoreUnavailableError(f"the Redis server at {shown} {untrusted}")
    if is_lost(error):
        return StoreUnavailableError(
            f"the Redis server at {shown} does not answer: {str(error).rstrip('.')}; "
            "is it running, and is the address right?"
        )
    if is_passing(error):
        return StoreUnavailableError(f"the Redis server at {shown} refuses for now: {error}")
    return StoreError(f"the Redis server at {shown} could not do it: {error}")
