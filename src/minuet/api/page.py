"""The web page: the files that `make page` has built, under `/ui/`.

They hold no data, so everybody may load them; what the page shows it asks the API for.
"""

from __future__ import annotations

import mimetypes
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

#: Where the files are.
FOLDER = Path(__file__).resolve().parent.parent / "page"

#: Files below this have a hash of their content in their names.
_HASHED = "assets/"

#: Only what this server sends is run or shown, and nothing that is written into a document.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self'; worker-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'self'"
)

_ABSENT = """\
The web page was not built.

From a clone of the repository: make page
From a package index: pip install 'minuet[server]' has it built in.

The API works without it: /api/v1, described by /openapi.json
"""

#: What a client may accept, the smallest first, and how such a file ends.
_ENCODINGS = (("br", ".br"), ("gzip", ".gz"))


class Page:
    """Serves the files of the page."""

    def __init__(self) -> None:
        self._files: dict[str, Path] = {}
        self._built = 0

    async def answer(self, request: Request) -> Response:
        """A file, or the page itself for each of its own paths."""
        name = request.path_params.get("path", "")
        files = self._look()
        if "index.html" not in files:
            return PlainTextResponse(_ABSENT, 503)
        if name not in files:
            if name.startswith(_HASHED):
                return PlainTextResponse("this file is not part of the page; load it again", 404)
            name = "index.html"
        keeps = "public, max-age=31536000, immutable" if name.startswith(_HASHED) else "no-cache"
        headers = {
            "Cache-Control": keeps,
            "Content-Security-Policy": POLICY,
            "Vary": "Accept-Encoding",
        }
        path = files[name]
        accepted = request.headers.get("accept-encoding", "")
        for encoding, ending in _ENCODINGS:
            if encoding in accepted and (name + ending) in files:
                path, headers["Content-Encoding"] = files[name + ending], encoding
                break
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(path.read_bytes(), media_type=kind, headers=headers)

    def _look(self) -> dict[str, Path]:
        """The files by their names. Only what is in this table is ever read."""
        try:
            built = (FOLDER / "index.html").stat().st_mtime_ns
        except OSError:
            return {}
        if built != self._built:
            found = (path for path in FOLDER.rglob("*") if path.is_file())
            self._files = {path.relative_to(FOLDER).as_posix(): path for path in found}
            self._built = built
        return self._files


async def lead_there(request: Request) -> Response:
    """The bare address leads to the page."""
    return RedirectResponse("/ui/", 307)
