"""Lists the tools of HTTP APIs: reads a document, compiles it if it has changed, and caches the result.

Only one document is compiled at a time, because a compilation takes up to a gigabyte of memory. Few documents are read
at once, because each may have 32 MiB. APIs whose last listing failed wait only for each other, not for healthy ones.
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
from fairlead_mcp.server_listing import PackedListing, RawListing
from fairlead_openapi.compiling.compile import CompileOptions
from fairlead_openapi.compiling.reading import DocumentRefused
from fairlead_openapi.compiling.worker import compile_in_worker
from fairlead_operator.off_loop import pack_listing, unpack_listing
from fairlead_operator.openapi.api_source import ApiSource, DocumentLocation, UrlLocation
from fairlead_operator.openapi.compiled_listing import build_listing
from fairlead_operator.openapi.document_content import DocumentUnusable
from fairlead_operator.openapi.document_fetch import DocumentVersion, fetch_document

MAX_CONCURRENT_READS: Final = 3
"""Maximum number of documents in memory, plus one of an API whose last listing failed."""
REFUSED_SECONDS: Final = 600.0
"""Seconds after which a refused document is compiled again, because a busy machine may have caused the refusal."""
ReadDocument: TypeAlias = Callable[[DocumentLocation], Awaitable[bytes]]
"""Reads a document that is not at a URL. Raises DocumentUnusable."""


@dataclass(frozen=True)
class _CompiledVersion:
    """Result of the compilation of one version of a document: its listing, or the problem."""

    source: ApiSource
    digest: str
    """SHA-256 of the document, hexadecimal."""
    etag: bytes
    listing: PackedListing | None
    problem: str = ""
    expires_at: float = float("inf")
    """Monotonic time until which the document is not compiled again."""

    async def unpack(self) -> RawListing:
        """The listing. Raises DocumentUnusable."""
        if self.listing is None:
            raise DocumentUnusable(self.problem)
        return await unpack_listing(self.listing)


class ApiListings:
    """Listings of all HTTP APIs. Implements `ports.ApiLister`.

    `read` reads documents that are not at a URL. `resolve` maps host names to addresses; the default is DNS. `egress`
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
        self._compiled_documents: dict[ServerKey, _CompiledVersion] = {}
        self._monotonic = monotonic
        self._failed_servers: set[ServerKey] = set()
        """APIs whose last listing failed."""
        self._read_slots = asyncio.Semaphore(MAX_CONCURRENT_READS)
        self._failed_read_slots = asyncio.Semaphore(1)
        self._compile_lock = asyncio.Lock()

    async def list(self, key: ServerKey, source: ApiSource) -> RawListing:
        """The tools of an API. Raises McpError."""
        async with self._failed_read_slots if key in self._failed_servers else self._read_slots:
            try:
                listing = await self._list(key, source)
            except McpError:
                self._failed_servers.add(key)
                raise
        self._failed_servers.discard(key)
        return listing

    def forget(self, key: ServerKey) -> None:
        """Drop the state of a deleted server."""
        self._compiled_documents.pop(key, None)
        self._failed_servers.discard(key)

    async def _list(self, key: ServerKey, source: ApiSource) -> RawListing:
        previous = self._compiled_documents.get(key)
        if previous is not None and (previous.source != source or previous.expires_at <= self._monotonic()):
            previous = None
        version = await self._read_if_changed(key, source, b"" if previous is None else previous.etag)
        if version is None:
            assert previous is not None  # a document can be unchanged only if it was read before
            return await previous.unpack()
        digest = await asyncio.to_thread(_sha256, version.data)
        if previous is not None and previous.digest == digest:
            return await previous.unpack()
        options = CompileOptions(source.include, source.exclude, version.url)
        try:
            async with self._compile_lock:
                compiled = await compile_in_worker(version.data, options)
            listing = await asyncio.to_thread(build_listing, compiled, digest, source)
        except (DocumentRefused, DocumentUnusable) as error:
            problem = f"{source.location}: {error}" if isinstance(error, DocumentRefused) else str(error)
            expires_at = self._monotonic() + REFUSED_SECONDS
            self._compiled_documents[key] = _CompiledVersion(source, digest, version.etag, None, problem, expires_at)
            raise DocumentUnusable(problem) from error
        self._compiled_documents[key] = _CompiledVersion(source, digest, version.etag, await pack_listing(listing))
        return listing

    async def _read_if_changed(self, key: ServerKey, source: ApiSource, etag: bytes) -> DocumentVersion | None:
        """The current version of the document; None if it still has this `etag`."""
        if not isinstance(source.location, UrlLocation):
            return DocumentVersion(await self._read(source.location))
        resolve = self._egress.guard(self._resolve, key.namespace)
        return await fetch_document(source.location.url, resolve, etag=etag)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
