"""Lists the tools of HTTP APIs: reads a document, compiles it if it has changed, and keeps the result.

One document is compiled at a time, because a compilation takes up to a gigabyte of memory. Few are read at once,
because each may have 32 MiB. APIs whose last listing failed wait only for each other.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fairlead_api.meta import ServerKey
from fairlead_mcp.egress import Egress
from fairlead_mcp.errors import McpError
from fairlead_mcp.http.dial import Resolve, resolve_by_dns
from fairlead_mcp.server_listing import KeptListing, RawListing
from fairlead_openapi.compiling.compile import CompileOptions
from fairlead_openapi.compiling.reading import DocumentRefused
from fairlead_openapi.compiling.worker import compile_in_worker
from fairlead_operator.off_loop import pack_listing, unpack_listing
from fairlead_operator.openapi.api_source import ApiSource, DocumentPlace, UrlPlace
from fairlead_operator.openapi.compiled_listing import listing_of
from fairlead_operator.openapi.document_content import DocumentUnusable
from fairlead_operator.openapi.document_fetch import DocumentVersion, fetch_document

READ_AT_ONCE: Final = 3
"""Maximum number of documents in memory, plus one of an API whose last listing failed."""
REFUSED_SECONDS: Final = 600.0
"""Seconds after which a refused document is compiled again: a busy machine may have caused the refusal."""
ReadDocument: TypeAlias = Callable[[DocumentPlace], Awaitable[bytes]]
"""Reads a document that is not at a URL. Raises DocumentUnusable."""


@dataclass(frozen=True)
class _Compiled:
    """Listing of the document version with this digest and tag, or why it has none."""

    source: ApiSource
    digest: str
    etag: bytes
    listing: KeptListing | None
    problem: str = ""
    until: float = float("inf")
    """Monotonic time until which the document is not compiled again."""

    async def unpack(self) -> RawListing:
        """The listing. Raises DocumentUnusable."""
        if self.listing is None:
            raise DocumentUnusable(self.problem)
        return await unpack_listing(self.listing)


class ApiListings:
    """Listings of the HTTP APIs of one operator: implements `ports.ApiLister`.

    `read` reads documents that are not at a URL. `resolve` maps host names to addresses, by DNS if it is None; `egress`
    restricts the addresses; `monotonic` is a clock in seconds.
    """

    def __init__(
        self,
        read: ReadDocument,
        egress: Egress | None = None,
        resolve: Resolve | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._egress = egress or Egress()
        self._resolve = resolve or resolve_by_dns
        self._compiled: dict[ServerKey, _Compiled] = {}
        self._monotonic = monotonic
        self._failed: set[ServerKey] = set()
        """APIs whose last listing failed."""
        self._reading = asyncio.Semaphore(READ_AT_ONCE)
        self._reading_failed = asyncio.Semaphore(1)
        self._one_at_a_time = asyncio.Lock()

    async def list(self, key: ServerKey, source: ApiSource) -> RawListing:
        """The tools of an API. Raises McpError."""
        async with self._reading_failed if key in self._failed else self._reading:
            try:
                listing = await self._list(key, source)
            except McpError:
                self._failed.add(key)
                raise
        self._failed.discard(key)
        return listing

    def forget(self, key: ServerKey) -> None:
        """Drop the state of a deleted server."""
        self._compiled.pop(key, None)
        self._failed.discard(key)

    async def _list(self, key: ServerKey, source: ApiSource) -> RawListing:
        before = self._compiled.get(key)
        if before is not None and (before.source != source or before.until <= self._monotonic()):
            before = None
        read = await self._changed_document(key, source, b"" if before is None else before.etag)
        if read is None:
            assert before is not None  # only the version of `before` can be unchanged
            return await before.unpack()
        digest = await asyncio.to_thread(_sha256, read.data)
        if before is not None and before.digest == digest:
            return await before.unpack()
        options = CompileOptions(source.include, source.exclude, read.url)
        try:
            async with self._one_at_a_time:
                compiled = await compile_in_worker(read.data, options)
            listing = await asyncio.to_thread(listing_of, compiled, digest, source)
        except (DocumentRefused, DocumentUnusable) as error:
            problem = f"{source.location}: {error}" if isinstance(error, DocumentRefused) else str(error)
            until = self._monotonic() + REFUSED_SECONDS
            self._compiled[key] = _Compiled(source, digest, read.etag, None, problem, until)
            raise DocumentUnusable(problem) from error
        self._compiled[key] = _Compiled(source, digest, read.etag, await pack_listing(listing))
        return listing

    async def _changed_document(self, key: ServerKey, source: ApiSource, etag: bytes) -> DocumentVersion | None:
        """The document; None if it still is the version `etag`."""
        if not isinstance(source.location, UrlPlace):
            return DocumentVersion(await self._read(source.location))
        resolve = self._egress.guard(self._resolve, key.namespace)
        return await fetch_document(source.location.url, resolve, etag=etag)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
