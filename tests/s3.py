"""A small S3 server of the tests' own: what the client of `minuet.blobs.bucket` asks of a bucket.

It keeps objects in memory and checks no signatures. A test can make it fail, hold requests back,
and damage what it has.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

#: Names on one page of a list: few, so that lists have pages.
PAGE = 3


class Bucket:
    """The only bucket of a server."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: Bytes and time of the last change, by key.
        self.objects: dict[str, tuple[bytes, datetime]] = {}
        #: Requests that were answered: method and key.
        self.seen: list[tuple[str, str]] = []
        #: Answer this status to every request with one of these methods.
        self.failing: dict[str, int] = {}
        self.url = ""

    def put(self, key: str, data: bytes) -> None:
        self.objects[key] = (data, datetime.now(UTC))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: Bucket

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.bucket.seen.append((self.command, key))
        if self.command in self.bucket.failing:
            return self._refuse(self.bucket.failing[self.command], "InternalError")
        if bucket != self.bucket.name:
            return self._refuse(404, "NoSuchBucket")
        query = {name: values[0] for name, values in parse_qs(parts.query, True).items()}
        if self.command == "POST" and "delete" in query:
            return self._delete_many(body)
        if self.command == "GET" and not key:
            return self._list(query)
        if self.command == "PUT":
            self.bucket.put(key, body)
            return self._answer(200, ETag='"1"')
        if self.command == "DELETE":
            self.bucket.objects.pop(key, None)
            return self._answer(204)
        if key not in self.bucket.objects:
            return self._refuse(404, "NoSuchKey")
        data, at = self.bucket.objects[key]
        modified = at.strftime("%a, %d %b %Y %H:%M:%S GMT")
        return self._answer(200, data, ETag='"1"', Last_Modified=modified)

    def _list(self, query: dict[str, str]) -> None:
        prefix, token = query.get("prefix", ""), query.get("continuation-token", "")
        keys = sorted(k for k in self.bucket.objects if k.startswith(prefix) and k > token)
        page, more = keys[:PAGE], len(keys) > PAGE
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.bucket.objects[key][0])}</Size>"
            f"<LastModified>{self.bucket.objects[key][1].isoformat()}</LastModified>"
            '<ETag>"1"</ETag></Contents>'
            for key in page
        )
        rest = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        truncated = str(more).lower()
        self._answer(
            200,
            f"<ListBucketResult><Name>{self.bucket.name}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{truncated}</IsTruncated>"
            f"{contents}{rest}</ListBucketResult>".encode(),
        )

    def _delete_many(self, body: bytes) -> None:
        found = []
        for element in ElementTree.fromstring(body).iter():
            if element.tag.rpartition("}")[2] == "Key" and element.text:
                self.bucket.objects.pop(element.text, None)
                found.append(f"<Deleted><Key>{escape(element.text)}</Key></Deleted>")
        self._answer(200, f"<DeleteResult>{''.join(found)}</DeleteResult>".encode())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle


@contextmanager
def s3_server(name: str = "bucket") -> Iterator[Bucket]:
    """A server with one bucket; `bucket.url` is what MINUET_BLOBS says."""
    bucket = Bucket(name)
    handler = type("Handler", (_Handler,), {"bucket": bucket})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    port = server.server_address[1]
    bucket.url = f"s3://{name}/some/prefix?endpoint=http://127.0.0.1:{port}&region=us-east-1"
    try:
        yield bucket
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
