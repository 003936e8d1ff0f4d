"""What PostgreSQL's errors mean for callers: try again at once, repeat the call, or give up.

Messages name the server without user and password.
"""

from __future__ import annotations

from minuet.errors import MinuetError, StoreError, StoreUnavailableError, StoreUnusableError
from minuet.store.certificate import find_untrusted

#: Nothing was written, and another try may well succeed: serialization failure, deadlock, lock
#: not available, shutting down or starting up, too many connections, a plan that went stale.
_TRANSIENT = frozenset(
    {"40001", "40P01", "55P03", "57P01", "57P02", "57P03", "53300", "25P03", "57P05", "0A000"}
)

#: Another call inserted the same row a moment earlier: the next try finds it.
_RIVAL = "23505"

#: Classes of states that are the server's fault and not the call's: connection,
#: resources, operator intervention, system error.
_UNAVAILABLE = ("08", "53", "57", "58", "25P")

#: A server that is no longer the primary, or a damaged one.
_READ_ONLY = "25006"
_DAMAGED = ("XX001", "XX002")

#: What to do when connections change between transactions, and the URL does not say so.
POOLER_BETWEEN = (
    "there is a pooler in between that gives each transaction another connection: "
    "add pooler=transaction to the URL, or set the pooler to session mode"
)

#: Why a server does not let us in, in words.
_REFUSED = {
    "28P01": "the password was refused: check user and password",
    "28000": "this user may not connect: check user, password and pg_hba.conf",
    "3D000": "there is no such database: create it first",
    "42501": "this user may not create or use the schema: grant it, or use another user",
    # A statement is prepared already, or no longer: it was on another connection of the server.
    "42P05": POOLER_BETWEEN,
    "26000": POOLER_BETWEEN,
}


def sqlstate(error: BaseException) -> str:
    """PostgreSQL's code for an error; "": it did not come from the server."""
    return str(getattr(error, "sqlstate", None) or "")


def is_lost(error: BaseException) -> bool:
    """Whether the connection is of no further use."""
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        state = sqlstate(error)
        return state.startswith(("08", "57P", "25P")) or state == _READ_ONLY
    if not isinstance(error, Exception):
        return True  # Interrupted in the middle of something.
    return isinstance(error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError))


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed if it is made again at once."""
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        state = sqlstate(error)
        return state in _TRANSIENT or state.startswith("08") or state in (_READ_ONLY, _RIVAL)
    if isinstance(error, asyncpg.InterfaceError):
        return "closed" in str(error)
    return isinstance(error, OSError) and not isinstance(error, TimeoutError)


def meaning(error: Exception, shown: str) -> Exception:
    """The error that a caller gets to see for this one."""
    if isinstance(error, MinuetError):
        return error
    import asyncpg

    if isinstance(error, asyncpg.PostgresError):
        return _of_state(sqlstate(error), _words(error), shown)
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return StoreUnavailableError(f"{shown}: none of these servers is a primary at present")
    if isinstance(error, TimeoutError):
        return StoreUnavailableError(f"{shown} did not answer in time")
    untrusted = find_untrusted(error)
    if untrusted is not None:
        return StoreUnavailableError(f"{shown} {untrusted}")
    if isinstance(error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError)):
        return StoreUnavailableError(
            f"{shown} cannot be reached: {_words(error)}; is it running, and is the address right?"
        )
    return error


def _of_state(state: str, words: str, shown: str) -> StoreError:
    if state in _REFUSED:
        return StoreUnusableError(f"{shown}: {_REFUSED[state]}")
    if state == _READ_ONLY:
        return StoreUnavailableError(f"{shown} takes no changes at present: {words}")
    if state in _DAMAGED:
        return StoreUnusableError(f"{shown} is damaged ({state}): {words}: restore a backup")
    if state in _TRANSIENT or state.startswith(_UNAVAILABLE):
        return StoreUnavailableError(f"{shown}: {words} ({state})")
    return StoreError(f"{shown}: {words} ({state})")


def _words(error: Exception) -> str:
    if "another operation" in str(error):
        return "the connection broke"  # The driver reports what it was doing when that happened.
    return str(error).splitlines()[0] if str(error) else type(error).__name__
