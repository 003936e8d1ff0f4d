"""Requests that are refused for what they are, whatever they ask for.

Errors of the engine are in `minuet.errors`, and `minuet.outcomes` says which status each has. These
have their outcome with them: they are never raised outside a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from minuet.errors import MinuetError, RunConflictError
from minuet.outcomes import FAILED, INVALID, Outcome


class RequestError(MinuetError):
    """The request is not one that this server takes."""

    code = "bad-request"
    outcome = Outcome(INVALID, 400, "Bad request")

    #: Headers of the answer.
    headers: Mapping[str, str] = MappingProxyType({})


class NotFoundError(RequestError):
    """There is nothing under this path."""

    code = "not-found"
    outcome = Outcome(INVALID, 404, "Not found")


class MethodNotAllowedError(RequestError):
    """The path does not know this method."""

    code = "method-not-allowed"
    outcome = Outcome(INVALID, 405, "Method not allowed")

    def __init__(self, method: str, allowed: str) -> None:
        self.headers = {"Allow": allowed}
        super().__init__(f"{method} is not possible here; use {allowed}")


class BodyTooLargeError(RequestError):
    """The body has more bytes than this server reads."""

    code = "body-too-large"
    outcome = Outcome(INVALID, 413, "Body too large")

    def __init__(self, limit: int) -> None:
        # What is left of the body is not read.
        self.headers = {"Connection": "close"}
        super().__init__(
            f"the body is larger than the {limit:,} bytes that this server reads; keep large "
            "data as a blob (PUT /api/v1/blobs) and send its reference"
        )


class EncodingError(RequestError):
    """The body is compressed."""

    code = "unsupported-encoding"
    outcome = Outcome(INVALID, 415, "Encoding not supported")

    def __init__(self, encoding: str) -> None:
        super().__init__(f"bodies are not decompressed: send it without {encoding!r:.50}")


class HeadTooLargeError(RequestError):
    """The headers have more bytes than this server reads."""

    code = "head-too-large"
    outcome = Outcome(INVALID, 431, "Headers too large")

    def __init__(self, limit: int) -> None:
        super().__init__(f"the headers are larger than {limit:,} bytes")


class SlowRequestError(RequestError):
    """The request takes too long to arrive."""

    code = "request-timeout"
    outcome = Outcome(FAILED, 408, "Request too slow")


class BusyError(RequestError):
    """The server holds as much as it can."""

    code = "server-busy"
    outcome = Outcome(FAILED, 503, "Server busy")
    headers = MappingProxyType({"Retry-After": "1"})


class UnauthenticatedError(RequestError):
    """The request has no key, or a wrong one."""

    code = "unauthenticated"
    outcome = Outcome(INVALID, 401, "Authentication required")

    def __init__(
        self, message: str = "send an API key that is valid as `Authorization: Bearer KEY`"
    ) -> None:
        self.headers = {"WWW-Authenticate": 'Bearer realm="minuet"'}
        super().__init__(message)


class IssuerUnavailableError(RequestError):
    """Nobody can tell whether a token is valid."""

    code = "issuer-unavailable"
    outcome = Outcome(FAILED, 503, "Issuer unavailable")

    def __init__(self, issuer: str) -> None:
        self.headers = {"Retry-After": "10"}
        super().__init__(f"the keys of {issuer} cannot be fetched; try again later")


class ForbiddenError(RequestError):
    """The sender may not do this: it needs another role, or a page of another site has sent it."""

    code = "forbidden"
    outcome = Outcome(INVALID, 403, "Forbidden")


class ReadOnlyError(RequestError):
    """The server only answers questions."""

    code = "read-only"
    outcome = Outcome(FAILED, 405, "Server is read-only")

    def __init__(self, primary: str | None) -> None:
        self.headers = {"Allow": "GET, HEAD", **({"Minuet-Primary": primary} if primary else {})}
        where = f"send it to {primary}" if primary else "send it to another server of the store"
        super().__init__(f"this server changes nothing: {where}")


class UnknownHostError(RequestError):
    """The request is for another host."""

    code = "unknown-host"
    outcome = Outcome(INVALID, 421, "Unknown host")


class TooManyRequestsError(RequestError):
    """The server is busy with as much as it takes on at once."""

    code = "too-many-requests"
    outcome = Outcome(FAILED, 429, "Too many requests")

    def __init__(self, message: str, retry_after_s: int = 1) -> None:
        self.headers = {"Retry-After": str(retry_after_s)}
        super().__init__(message)


class TooManyRunsError(TooManyRequestsError):
    """The tenant has as many open runs as it may have."""

    code = "too-many-runs"
    outcome = Outcome(FAILED, 429, "Too many open runs")


class PreconditionError(RunConflictError):
    """The run is not in the state that `If-Match` names."""

    code = "precondition-failed"
    outcome = Outcome(FAILED, 412, "The run has changed")


class KeyReusedError(RunConflictError):
    """The idempotency key belongs to a run that was started with something else."""

    code = "idempotency-key-reused"
    outcome = Outcome(FAILED, 422, "Idempotency key used for another request")
