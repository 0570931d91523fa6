"""Content of stored OpenAPI documents: finds the document's key in a ConfigMap, and decompresses it. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_mcp.errors import McpError
from fairlead_openapi.compiling.reading import MAX_DOCUMENT_BYTES
from fairlead_operator.openapi.api_source import ConfigMapLocation

_GZIP: Final = b"\x1f\x8b"
_GZIP_WINDOW: Final = 31
"""`wbits` of zlib that expects the header of gzip (RFC 1952)."""


class DocumentUnusable(McpError):
    """A document is missing, or cannot be converted to tools."""

    reason = Cause.DOCUMENT_UNUSABLE


def document_key(location: ConfigMapLocation, keys: Collection[str]) -> str:
    """The key of the ConfigMap that contains the document. Raises DocumentUnusable."""
    if not keys:
        raise DocumentUnusable(f"the ConfigMap {location.name} is empty: put the document under one of its keys")
    names = ", ".join(sorted(keys))
    if location.key is None and len(keys) != 1:
        raise DocumentUnusable(
            f"the ConfigMap {location.name} has {len(keys)} keys ({names}): set openapi.configMapRef.key to the "
            "key with the document"
        )
    key = next(iter(keys)) if location.key is None else location.key
    if key not in keys:
        raise DocumentUnusable(f"the ConfigMap {location.name} has no key {key}; it has {names}")
    return key


def decompress(data: bytes, location: object) -> bytes:
    """`data`, decompressed if it begins like gzip. Raises DocumentUnusable."""
    content, is_complete = data, True
    if data.startswith(_GZIP):
        decompressor = zlib.decompressobj(_GZIP_WINDOW)
        try:
            content = decompressor.decompress(data, MAX_DOCUMENT_BYTES + 1)
        except zlib.error as error:
            raise DocumentUnusable(f"{location} begins like gzip and cannot be decompressed: {error}") from error
        is_complete = decompressor.eof
    if len(content) > MAX_DOCUMENT_BYTES:
        raise DocumentUnusable(f"{location} has more than {MAX_DOCUMENT_BYTES >> 20} MiB")
    if not is_complete:
        raise DocumentUnusable(f"{location} is compressed, and its end is missing")
    return content
