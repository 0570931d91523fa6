"""Lists the tools of HTTP APIs: reads a document, compiles it if it has changed, and keeps the result.

One document is compiled at a time, because compiling takes a process with up to a gigabyte of memory.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from fairlead_api.meta import ServerKey
from fairlead_mcp.egress import Egress
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_mcp.server_listing import KeptListing, RawListing
from fairlead_openapi.compiling.compile import CompileOptions
from fairlead_openapi.compiling.reading import DocumentRefused
from fairlead_openapi.compiling.worker import compile_in_worker
from fairlead_operator.off_loop import unpacked
from fairlead_operator.openapi.api_source import ApiSource, DocumentPlace, UrlPlace
from fairlead_operator.openapi.compiled_listing import listing_of
from fairlead_operator.openapi.document_content import DocumentUnusable
from fairlead_operator.openapi.document_fetch import DocumentVersion, fetch_document

ReadDocument: TypeAlias = Callable[[DocumentPlace], Awaitable[bytes]]
"""Reads a document that is not at a URL. Raises DocumentUnusable."""


@dataclass(frozen=True)
class _Compiled:
    """Listing of the version of a document with this digest and tag."""

    source: ApiSource
    digest: str
    etag: bytes
    listing: KeptListing


class ApiListings:
    """Listings of the HTTP APIs of one operator: implements `ports.ApiLister`.

    `read` reads documents that are not at a URL. `resolve` maps host names to addresses, by DNS if it is None; `egress`
    restricts the addresses.
    """

    def __init__(self, read: ReadDocument, egress: Egress | None = None, resolve: Resolve | None = None) -> None:
        self._read = read
        self._egress = egress or Egress()
        self._resolve = resolve or resolve_by_dns
        self._compiled: dict[ServerKey, _Compiled] = {}
        self._one_at_a_time = asyncio.Lock()

    async def list(self, key: ServerKey, source: ApiSource) -> RawListing:
        """The tools of an API. Raises McpError."""
        before = self._compiled.get(key)
        if before is not None and before.source != source:
            before = None
        read = await self._changed_document(key, source, b"" if before is None else before.etag)
        if read is None:
            assert before is not None  # only the version of `before` can be unchanged
            return await unpacked(before.listing)
        digest = await asyncio.to_thread(_sha256, read.data)
        if before is not None and before.digest == digest:
            return await unpacked(before.listing)
        options = CompileOptions(source.include, source.exclude, read.url)
        try:
            async with self._one_at_a_time:
                compiled = await compile_in_worker(read.data, options)
        except DocumentRefused as error:
            raise DocumentUnusable(f"{source.location}: {error}") from error
        listing = await asyncio.to_thread(listing_of, compiled, digest, source)
        self._compiled[key] = _Compiled(source, digest, read.etag, await asyncio.to_thread(KeptListing.of, listing))
        return listing

    def forget(self, key: ServerKey) -> None:
        """Drop what is kept of a deleted server."""
        self._compiled.pop(key, None)

    async def _changed_document(self, key: ServerKey, source: ApiSource, etag: bytes) -> DocumentVersion | None:
        """The document; None if it still is the version `etag`."""
        if not isinstance(source.location, UrlPlace):
            return DocumentVersion(await self._read(source.location))
        resolve = self._egress.guard(self._resolve, key.namespace)
        return await fetch_document(source.location.url, resolve, etag=etag)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
