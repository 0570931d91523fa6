"""Calls of one person at a gateway anywhere, from clients that differ in how they can be asked to open a page.

Each takes the URL of a gateway, the person's token and a tool, and returns the result of one `tools/call`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

Open = Callable[[str], Awaitable[None]]
"""Opens a page in the user's browser."""
FORMS_ALONE: Final = "2025-06-18"


async def call_with_pages(url: str, token: str, tool: str, open_page: Open) -> types.CallToolResult:
    """Call with the Python SDK's client of 2025-11-25, which opens the pages of `elicitation/create`."""

    async def elicit(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        await open_page(params.url)
        return types.ElicitResult(action="accept")

    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(
            streamable_http_client(f"{url}/mcp", http_client=http), mode="legacy", elicitation_callback=elicit
        ) as client,
    ):
        return await client.call_tool(tool, {})


async def call_without_pages(url: str, token: str, tool: str) -> types.CallToolResult:
    """Call with the Python SDK's client of 2025-11-25, which declares no elicitation."""
    async with (
        httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode="legacy") as client,
    ):
        return await client.call_tool(tool, {})


async def call_with_forms_alone(url: str, token: str, tool: str) -> types.CallToolResult:
    """Call with a client of 2025-06-18, which knows forms but no pages. Fails if it is asked to fill in a form."""
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    info = {"name": "forms-alone", "version": "1"}
    hello = {"protocolVersion": FORMS_ALONE, "capabilities": {"elicitation": {}}, "clientInfo": info}
    async with aiohttp.ClientSession(headers=headers) as http:
        answer = await _post(http, f"{url}/mcp", {}, {"id": 1, "method": "initialize", "params": hello})
        assert answer.message["result"]["protocolVersion"] == FORMS_ALONE
        session = {"mcp-session-id": answer.session, "mcp-protocol-version": FORMS_ALONE}
        await _post(http, f"{url}/mcp", session, {"method": "notifications/initialized"})
        call = {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
        answer = await _post(http, f"{url}/mcp", session, call)
    return types.CallToolResult.model_validate(answer.message["result"])


class _Posted:
    """Answer to a message: the last message of its body, or {} if there is none."""

    def __init__(self, session: str, body: str) -> None:
        self.session = session
        lines = [line.removeprefix("data:") for line in body.splitlines() if line.startswith(("data:", "{"))]
        self.message: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        assert "method" not in self.message, f"the client was asked: {self.message}"


async def _post(http: aiohttp.ClientSession, url: str, headers: dict[str, str], message: dict[str, Any]) -> _Posted:
    async with http.post(url, json={"jsonrpc": "2.0", **message}, headers=headers) as answer:
        assert answer.status < 300, await answer.text()
        return _Posted(answer.headers.get("mcp-session-id", ""), await answer.text())
