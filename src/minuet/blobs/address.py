"""Where a process keeps large contents: from the text of MINUET_BLOBS to a blob store."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from minuet.blobs.base import BlobStore
from minuet.errors import ConfigError

#: URL schemes of blob stores.
SCHEMES = ("file", "s3")

#: What may follow the `?` of an S3 URL.
OPTIONS = ("endpoint", "region")


def make_blob_store(url: str) -> BlobStore:
    """A blob store that is not open yet; ConfigError for a URL that is not valid."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise _wrong(url, "use file:///FOLDER or s3://BUCKET/PREFIX?endpoint=…")
    if scheme == "file":
        if not rest.startswith("/") or len(rest) == 1:
            raise _wrong(url, "write the whole path of the folder, as in file:///var/lib/blobs")
        from minuet.blobs.folder import FolderBlobs

        return FolderBlobs(Path(unquote(rest)))
    parts = urlsplit(url)
    if not parts.hostname or parts.netloc != parts.hostname:
        raise _wrong(
            "s3://…", "write s3://BUCKET/PREFIX; credentials come from AWS_ACCESS_KEY_ID, …"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - set(OPTIONS))
    if unknown:
        raise _wrong(url, f"there is no option {unknown[0]!r}; there are {', '.join(OPTIONS)}")
    if find_spec("obstore") is None:
        raise ConfigError("MINUET_BLOBS: S3 needs obstore: pip install 'minuet[s3]'")
    from minuet.blobs.bucket import BucketBlobs

    return BucketBlobs(parts.netloc, unquote(parts.path).strip("/"), options)


def _wrong(url: str, hint: str) -> ConfigError:
    return ConfigError(f"MINUET_BLOBS={url!r} is not the URL of a blob store: {hint}")
