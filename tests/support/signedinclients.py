"""Third-party clients that sign in a user by themselves, given only the URL of an MCP endpoint.

client = SdkClient(f"{world.base}/mcp", LOGIN)      # the Python SDK
names = await client.tools()
names = await fastmcp_tools(url, LOGIN)
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

import fastmcp
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.types import TextContent
from pydantic import AnyUrl

from ports import free_port
from scriptedperson import visit

_ANSWER: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ndone"
Hook = Callable[[], Awaitable[None]]


class SdkClient:
    """The Python SDK's client, which stores its tokens in this object. `document` is the URL of its client document, if
    any. `answered` is awaited after the client has received a code, before it redeems the code.
    """

    def __init__(self, url: str, login: Mapping[str, str], document: str = "", answered: Hook | None = None) -> None:
        self.tokens: OAuthToken | None = None
        self.registration: OAuthClientInformationFull | None = None
        self.pages: list[str] = []
        """All pages that the user saw."""
        self._url = url
        self._login = login
        self._answered = answered
        self._codes: asyncio.Queue[AuthorizationCodeResult] = asyncio.Queue()
        self._port = free_port()
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(f"http://localhost:{self._port}/callback")], client_name="SDK"
        )
        self._auth = OAuthClientProvider(
            url, metadata, self, self._open, self._codes.get, client_metadata_url=document or None
        )

    async def tools(self) -> list[str]:
        """Names of the visible tools. Signs in or refreshes if necessary."""
        async with self._connected() as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    async def call(self, tool: str) -> str:
        """Text of a tool's result."""
        async with self._connected() as client:
            (content,) = (await client.call_tool(tool, {})).content
            assert isinstance(content, TextContent)
            return content.text

    def expire(self) -> None:
        """Make the client treat its access token as expired."""
        self._auth.context.token_expiry_time = 1

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.registration

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.registration = client_info

    async def _open(self, address: str) -> None:
        async with self._listening():
            await visit(address, self._login, self.pages)
        if self._answered is not None:
            await self._answered()

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Client]:
        async with (
            httpx2.AsyncClient(auth=self._auth, timeout=30) as http,
            Client(streamable_http_client(self._url, http_client=http)) as client,
        ):
            yield client

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
            told = httpx2.URL(f"http://localhost{target}").params
            self._codes.put_nowait(AuthorizationCodeResult(code=told["code"], state=told["state"], iss=told.get("iss")))
            writer.write(_ANSWER)
            writer.close()

        server = await asyncio.start_server(serve, "localhost", self._port)
        try:
            yield
        finally:
            server.close()


async def fastmcp_tools(url: str, login: Mapping[str, str]) -> list[str]:
    visits: list[asyncio.Task[str]] = []
    loop = asyncio.get_running_loop()

    def is_opened(address: str) -> bool:
        visits.append(loop.create_task(visit(address, login)))
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(webbrowser, "open", is_opened)
        with warnings.catch_warnings():  # it warns that it stores its tokens in memory
            warnings.simplefilter("ignore", UserWarning)
            signed_in = fastmcp.Client(url, auth="oauth")
        async with signed_in as client:
            names = [tool.name for tool in await client.list_tools()]
    await asyncio.gather(*visits)
    return names
