"""Common base of the documents: their Struct settings, header and hash functions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

FORMAT: Final = 1
"""Version of the document format. The number only increases if an old reader would misread a new document."""


def current_format() -> int:
    """Default of every document's `version`: a factory, because a plain default would be omitted from the JSON."""
    return FORMAT


class DocumentStruct(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Base of all objects in a document: camelCase in JSON, defaults omitted, unknown members ignored."""


class Header(msgspec.Struct, frozen=True):
    """The two members that a reader needs to decide how to decode the rest."""

    kind: str
    version: int


def sha256(*chunks: bytes) -> str:
    """Hex SHA-256 over length-prefixed chunks, so that moving a byte from one chunk to the next changes the hash."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(len(chunk).to_bytes(8, "big"))
        digest.update(chunk)
    return digest.hexdigest()


def sha256_of_set(hashes: Iterable[str]) -> str:
    """Hex SHA-256 over the sorted hashes, so that equal sets have equal hashes."""
    return hashlib.sha256("\n".join(sorted(hashes)).encode()).hexdigest()
