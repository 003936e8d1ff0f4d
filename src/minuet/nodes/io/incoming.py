"""An answer that comes in: its head, and its body in portions of bounded size."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import TYPE_CHECKING

from minuet.errors import ServiceError, ServiceRefusedError, ServiceUnavailableError

if TYPE_CHECKING:
    import httpcore2

#: Decompressed at once: a small chunk may become a thousand times as large.
INFLATED_BYTES = 64 * 1024


class Answer:
    """What a service has answered; its body comes when it is read."""

    def __init__(self, response: httpcore2.Response, url: str) -> None:
        self._response = response
        #: Where it comes from, as it may be kept.
        self.url = url
        self.status: int = response.status
        self.headers: dict[str, str] = {}
        for name, value in response.headers:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def header(self, name: str) -> str:
        """The value of a header; "" if it is missing."""
        return self.headers.get(name, "")

    @property
    def redirects(self) -> bool:
        """Whether it says where to look instead."""
        return self.status in (301, 302, 303, 307, 308) and "location" in self.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, decompressed, part by part."""
        encoding = self.header("content-encoding").strip().lower()
        inflate = _inflater(encoding)
        details = {"url": self.url, "status": self.status}
        stream = self._response.stream
        assert isinstance(stream, AsyncIterable)
        async for chunk in stream:
            if inflate is None:
                yield chunk
                continue
            try:
                for part in inflate.parts(chunk):
                    yield part
            except zlib.error as error:
                raise ServiceRefusedError(
                    f"the answer of {self.url} is not {encoding}: {error}",
                    code="invalid-answer",
                    details=details,
                ) from None
        if inflate is not None:
            yield inflate.rest()
            if inflate.is_cut:
                raise ServiceUnavailableError(
                    f"the answer of {self.url} ends too early",
                    code="answer-cut",
                    details=details,
                )

    async def read(self, bytes_max: int) -> bytes:
        """The whole body; ServiceRefusedError if it is larger than this, decompressed."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > bytes_max:
                raise ServiceRefusedError(
                    f"the answer of {self.url} is larger than {bytes_max} bytes",
                    code="answer-too-large",
                    details={"url": self.url, "status": self.status},
                )
        return bytes(body)

    async def read_start(self, bytes_max: int) -> bytes:
        """The beginning of the body, of an answer that is an error."""
        body = bytearray()
        with contextlib.suppress(ServiceError):
            async for chunk in self.chunks():
                body += chunk
                if len(body) >= bytes_max:
                    break
        return bytes(body[:bytes_max])

    async def close(self) -> None:
        await self._response.aclose()


class _Inflater:
    """Decompresses in small parts, so that no chunk can fill the memory."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._inflate = zlib.decompressobj(window)
        self._is_first = True

    def parts(self, chunk: bytes) -> Iterable[bytes]:
        while chunk:
            try:
                part = self._inflate.decompress(chunk, INFLATED_BYTES)
            except zlib.error:
                # `deflate` has a header in the standard, and none from some servers.
                if not (self._is_first and self._window == zlib.MAX_WBITS):
                    raise
                self._window = -zlib.MAX_WBITS
                self._inflate = zlib.decompressobj(self._window)
                continue
            self._is_first = False
            if part:
                yield part
            chunk = self._inflate.unconsumed_tail
            if self._inflate.eof:
                return

    def rest(self) -> bytes:
        """What was still to come out when everything has gone in."""
        return self._inflate.flush()

    @property
    def is_cut(self) -> bool:
        """Whether something came, and not all of it."""
        return not self._is_first and not self._inflate.eof


def _inflater(encoding: str) -> _Inflater | None:
    """None: what comes is the body, or cannot be decompressed here."""
    if encoding in ("gzip", "x-gzip"):
        return _Inflater(zlib.MAX_WBITS | 16)
    return _Inflater(zlib.MAX_WBITS) if encoding == "deflate" else None
