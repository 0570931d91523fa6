"""Static files of the console: style sheet, script, icon.

The URL of a file has a hash of the content, so that browsers can cache the file for ever and never use an outdated
version.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import msgspec

PREFIX: Final = "/console/static/"
_KINDS: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(msgspec.Struct, frozen=True):
    """Static file in memory."""

    url: str
    media_type: str
    body: bytes
    compressed: bytes
    """Gzip of `body`."""


class StaticFiles:
    """Files of the package's folder `static`, read once."""

    def __init__(self) -> None:
        self.by_name: dict[str, StaticFile] = {}
        """Files by their names in the folder."""
        for entry in sorted(files(__package__).joinpath("static").iterdir(), key=lambda path: path.name):
            stem, dot, ending = entry.name.rpartition(".")
            body = entry.read_bytes()
            digest = hashlib.blake2b(body, digest_size=8).hexdigest()
            url = f"{PREFIX}{stem}.{digest}.{ending}"
            self.by_name[entry.name] = StaticFile(url, _KINDS[dot + ending], body, gzip.compress(body, mtime=0))
        self.by_url = {file.url: file for file in self.by_name.values()}

    def url(self, name: str) -> str:
        """Return the URL of a file. Raises KeyError."""
        return self.by_name[name].url
