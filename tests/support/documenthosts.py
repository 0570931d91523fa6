"""Hosts of client documents: a real server under https names that the test's resolver resolves to this machine.

async with document_host(tmp_path) as host:
    host.answer = http(DOCUMENT)
    await host.fetch()
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from certificates import Authority
from clientdocuments import CLAUDE
from fairlead_authorization.clients.client_ids import document_address
from fairlead_authorization.clients.documents import MAX_DOCUMENT_BYTES
from fairlead_authorization.clients.fetching import DocumentFetcher, FetchedMetadata
from fairlead_mcp.http.dial import Address

HOSTS = ("claude.ai", "chatgpt.com")
URL = CLAUDE["client_id"]
DOCUMENT = json.dumps(CLAUDE).encode()


@dataclass
class DocumentHost:
    """A host of client documents. `answer` is what it sends, or a coroutine function that writes it."""

    authority: Authority
    port: int = 0
    answer: bytes | Callable[[asyncio.StreamWriter], object] = b""
    documents: dict[str, bytes] = field(default_factory=dict)
    requests: list[bytes] = field(default_factory=list)
    lookups: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(request)
        path = request.split(b" ")[1].decode()
        if callable(self.answer):
            await self.answer(writer)  # type: ignore[misc]  # a coroutine function
        else:
            writer.write(self.documents.get(path, self.answer))
        writer.close()

    async def resolve(self, host: str, port: int) -> list[Address]:
        """Resolver that returns this host for every name."""
        self.lookups.append(host)
        return [("127.0.0.1", self.port)]

    async def make_tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.bundle)

    def fetcher(self) -> DocumentFetcher:
        return DocumentFetcher(self.resolve, self.make_tls)

    async def fetch(self, url: str = URL) -> FetchedMetadata:
        return await self.fetcher()(document_address(url), MAX_DOCUMENT_BYTES)


@asynccontextmanager
async def document_host(folder: Path, *names: str) -> AsyncIterator[DocumentHost]:
    host = DocumentHost(Authority())
    context = host.authority.server_context(folder, *(names or HOSTS))
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0, ssl=context)
    host.port = server.sockets[0].getsockname()[1]
    try:
        yield host
    finally:
        server.close()


def http(body: bytes, *headers: str, status: int = 200, kind: str = "application/json") -> bytes:
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body)}", f"Content-Type: {kind}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body
