"""Content of stored OpenAPI documents: which key of a ConfigMap contains the document, and whether it is compressed.
Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.errors import McpError
from fairlead_openapi.compiling.reading import MAX_DOCUMENT_BYTES
from fairlead_operator.openapi.api_source import ConfigMapPlace

_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
"""`wbits` of zlib that expects the header of gzip (RFC 1952)."""


class DocumentUnusable(McpError):
    """A document is missing, or no tools can be made of it."""

    reason = Cause.DOCUMENT_UNUSABLE


def chosen_key(location: ConfigMapPlace, keys: Collection[str]) -> str:
    """The key of the document. Raises DocumentUnusable."""
    if not keys:
        raise DocumentUnusable(f"the ConfigMap {location.name} is empty: put the document under one of its keys")
    names = ", ".join(sorted(keys))
    if location.key is None and len(keys) != 1:
        raise DocumentUnusable(
            f"the ConfigMap {location.name} has {len(keys)} keys ({names}): set openapi.configMapRef.key to the one "
            "with the document"
        )
    key = next(iter(keys)) if location.key is None else location.key
    if key not in keys:
        raise DocumentUnusable(f"the ConfigMap {location.name} has no key {key}, but {names}")
    return key


def unpacked(data: bytes, location: object) -> bytes:
    """`data`, decompressed if it begins like gzip. Raises DocumentUnusable."""
    plain, complete = data, True
    if data.startswith(_GZIP):
        decompressor = zlib.decompressobj(_GZIP_WINDOW)
        try:
            plain = decompressor.decompress(data, MAX_DOCUMENT_BYTES + 1)
        except zlib.error as error:
            raise DocumentUnusable(f"{location} begins like gzip and cannot be decompressed: {error}") from error
        complete = decompressor.eof
    if len(plain) > MAX_DOCUMENT_BYTES:
        raise DocumentUnusable(f"{location} has more than {MAX_DOCUMENT_BYTES >> 20} MiB")
    if not complete:
        raise DocumentUnusable(f"{location} is compressed, and its end is missing")
    return plain
