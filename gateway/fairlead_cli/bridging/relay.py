"""Relay of MCP messages between a client on stdio and an HTTP endpoint, over the SDK's transports."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any, Final

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.server.stdio import stdio_server
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from fairlead_cli.bridging.reconnecting import MAX_ANSWER, ReconnectingTransport
from fairlead_cli.connecting import Destination
from fairlead_cli.output import printable
from fairlead_cli.proxies import proxy_mounts
from fairlead_mcp.methods import METHODS, HeaderRule

FINISH_SECONDS: Final = 5.0
"""Seconds that pending requests have to finish after the client has closed standard input."""
MAX_HEADER_MAPS: Final = 10_000
"""Maximum number of tools whose `x-mcp-header` annotations are stored."""
LISTENING: Final = "subscriptions/listen"
"""Method of a request that is answered only when its stream ends."""
LISTS: Final = ("tools", "resources", "prompts")


def run_bridge(destination: Destination) -> None:
    """Relay messages until the client closes standard input. A request is retried for `destination.timeout` seconds
    while the endpoint cannot be reached.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="fairlead bridge: %(message)s")
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # the client receives these errors as JSON-RPC errors
    anyio.run(_run, destination)


async def _run(destination: Destination) -> None:
    async with stdio_server() as (from_client, to_client), from_client, to_client:
        await Relay(destination).run(from_client, to_client)


class Relay:
    """Relay between one client and its endpoint."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._version = ""
        """Protocol version of a session of the legacy era."""
        self._pending: dict[RequestId, str] = {}
        """Methods of the client's unanswered requests, by request id."""
        self._header_maps: dict[str, Mapping[tuple[str, ...], str]] = {}
        """By tool, the arguments that a request repeats in headers (`x-mcp-header`): path of the argument to header."""
        self._lists: list[str] = []
        """Lists whose changes the endpoint notifies (`listChanged`)."""
        self._ended = False
        """Whether the client has closed standard input."""
        self._idle = anyio.Event()
        self._to_client: Any = None
        self._group: anyio.abc.TaskGroup | None = None

    async def run(self, from_client: Any, to_client: Any) -> None:
        """Relay messages until `from_client` ends. Both parameters are message streams of the SDK."""
        url = self._destination.url
        self._to_client = to_client
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=8)
        async with (
            httpx2.AsyncClient(headers=self._destination.headers, mounts=proxy_mounts(url), limits=limits) as network,
            anyio.create_task_group() as group,
        ):
            self._group = group
            transport = ReconnectingTransport(network, self._destination.timeout, _remark, self._notify_list_changes)
            async with (
                httpx2.AsyncClient(transport=transport, timeout=None) as client,
                streamable_http_client(url, http_client=client, max_sse_event_size=MAX_ANSWER) as (down, up),
            ):
                group.start_soon(self._relay_responses, down)
                await self._relay_requests(from_client, up)
                with anyio.move_on_after(FINISH_SECONDS):
                    self._ended = True
                    self._end_if_idle()
                    await self._idle.wait()
            group.cancel_scope.cancel()

    async def _relay_requests(self, from_client: Any, up: Any) -> None:
        async for item in from_client:
            if isinstance(item, Exception):
                error = ErrorData(code=PARSE_ERROR, message="the message is not valid JSON-RPC")
                await self._to_client.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error)))
                continue
            message = item.message
            if isinstance(message, JSONRPCRequest) and message.method != LISTENING:
                self._pending[message.id] = message.method
            metadata = ClientMessageMetadata(headers=self._headers(message))
            await up.send(SessionMessage(message, metadata))
            if _cancelled_id(message) in self._pending:
                del self._pending[_cancelled_id(message)]

    async def _relay_responses(self, down: Any) -> None:
        async for item in down:
            if isinstance(item, Exception):
                _remark(f"a response could not be read: {item}")
                continue
            message = item.message
            if isinstance(message, JSONRPCResponse):
                self._store_header_values(self._pending.get(message.id, ""), message.result)
            await self._to_client.send(item)
            if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
                self._pending.pop(message.id, None)  # only now: the bridge ends when nothing is pending
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._ended and not self._pending:
            self._idle.set()

    def _store_header_values(self, method: str, result: Mapping[str, Any]) -> None:
        """Store the parts of a response that later requests repeat in headers: version, and annotations of tools."""
        if method == "initialize":
            self._version = str(result.get("protocolVersion", ""))
            capabilities = result.get("capabilities")
            members = capabilities if isinstance(capabilities, dict) else {}
            self._lists = [name for name in LISTS if _member(members.get(name), "listChanged") is True]
        elif method == "tools/list":
            tools = result.get("tools")
            for tool in tools if isinstance(tools, list) else ():
                name, schema = _member(tool, "name"), _member(tool, "inputSchema")
                if not isinstance(name, str) or not isinstance(schema, dict):
                    continue
                self._header_maps.pop(name, None)
                is_valid = len(self._header_maps) < MAX_HEADER_MAPS and find_invalid_x_mcp_header(schema) is None
                if is_valid and (header_map := x_mcp_header_map(schema)):
                    self._header_maps[name] = header_map

    def _headers(self, message: JSONRPCMessage) -> dict[str, str]:
        """Headers that repeat members of a message: the version, and in the modern era method and name (SEP-2243)."""
        params = getattr(message, "params", None) or {}
        version = _member(params.get("_meta"), PROTOCOL_VERSION_META_KEY)
        if not isinstance(version, str) or not isinstance(message, JSONRPCRequest | JSONRPCNotification):
            return {MCP_PROTOCOL_VERSION_HEADER: self._version} if self._version else {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: message.method}
        row = METHODS.get(message.method)
        name = None if row is None or row.header is HeaderRule.NONE else params.get(row.member)
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        arguments = params.get("arguments")
        if message.method == "tools/call" and name in self._header_maps and isinstance(arguments, dict):
            headers |= mcp_param_headers(self._header_maps[str(name)], arguments)
        return headers

    def _notify_list_changes(self) -> None:
        """Make the client list tools, resources and prompts again."""
        assert self._group is not None
        for name in self._lists:
            notice = JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{name}/list_changed")
            self._group.start_soon(self._to_client.send, SessionMessage(notice))


def _member(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _cancelled_id(message: JSONRPCMessage) -> Any:
    """Id of the request that a message cancels; None for any other message."""
    if isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
        return (message.params or {}).get("requestId")
    return None


def _remark(text: str) -> None:
    print(f"fairlead bridge: {printable(text)}", file=sys.stderr, flush=True)
