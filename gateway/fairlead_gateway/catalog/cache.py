"""Caches the last documents on disk, so that a gateway can serve them if it starts while their source is unreachable.

Reads and writes block, and run in a thread. If the cache cannot be read or written, the gateway logs a warning and
continues without it. The cache has the documents of the source, such as catalogs and rules, but no credentials.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Final

import msgspec

log = logging.getLogger(__name__)

FILE: Final = "documents.cache"
_FORMAT: Final = 2
"""Version of the file's format; files of other versions are ignored."""


class CachedDocuments(msgspec.Struct, frozen=True):
    """Content of the cache file."""

    saved_at: float
    """When the source of the documents was last reached, in seconds since the epoch."""
    documents: dict[str, bytes]
    """Encoded documents by name."""


class _FileHeader(msgspec.Struct, frozen=True):
    """First line of the file, as JSON; the bytes of the documents follow unchanged.

    The documents are not encoded together with this line, because encoding all of them would hold the GIL and delay
    calls.
    """

    saved_at: float
    lengths: dict[str, int]
    """Bytes of each document, in the order of the documents."""
    format: int = _FORMAT


_read_header = msgspec.json.Decoder(_FileHeader).decode


class SnapshotCache:
    """Cache file in a directory. The directory is created if it is missing."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / FILE

    def read(self) -> CachedDocuments | None:
        """Read the documents of the last write; None if the file is missing or unusable."""
        try:
            with self._file.open("rb") as file:
                header = _read_header(file.readline())
                documents = {name: file.read(length) for name, length in header.lengths.items()}
                trailing = file.read(1)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("The cached catalog %s is not used: %s", self._file, error)
            return None
        if header.format != _FORMAT:
            log.warning("The cached catalog %s is not used: its format is %d", self._file, header.format)
            return None
        if trailing or any(len(documents[name]) != length for name, length in header.lengths.items()):
            log.warning("The cached catalog %s is not used: the file is incomplete", self._file)
            return None
        cached = CachedDocuments(header.saved_at, documents)
        age = time.time() - cached.saved_at
        log.info(
            "Serving %d cached documents, %.0f s old, until the source of the catalog is reached",
            len(cached.documents),
            age,
        )
        return cached

    def write(self, documents: dict[str, bytes], seen_at: float) -> None:
        """Replace the file atomically. `seen_at`: when the source was last reached, in seconds since the epoch."""
        temporary = self._file.with_suffix(".tmp")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                lengths = {name: len(data) for name, data in documents.items()}
                file.write(msgspec.json.encode(_FileHeader(seen_at, lengths)) + b"\n")
                for data in documents.values():
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._file)
        except OSError as error:
            log.warning("The catalog cannot be cached in %s: %s", self._file, error)
