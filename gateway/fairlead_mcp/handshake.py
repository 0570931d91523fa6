"""Handshake over a message stream, in the era that the server speaks.

On a stream a legacy server may ignore a request that comes before `initialize`, so silence is not a failure here (MCP
2026-07-28, stdio): `initialize` is sent after `probe_seconds`, and the first answer decides. A server answers in order,
so one that was only slow to start is still recognized as modern.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.eras import Client, Negotiated, initialize_params, modern_params, read_discover, read_initialize
from fairlead_mcp.errors import McpError, TransportError
from fairlead_mcp.multiplex import Multiplexer

logger = logging.getLogger(__name__)


def read_line(line: bytes) -> Raw:
    """The raw result in a response line. Raises RpcError, NotMcp, BadJson."""
    response = jsonrpc.read_response(line)
    if response.error is not None:
        raise jsonrpc.rpc_error(response.error)
    assert isinstance(response.result, Raw)
    return response.result


async def shake_hands(
    stream: Multiplexer,
    client: Client,
    *,
    deadline: float,
    probe: bool = True,
    probe_seconds: float = 10.0,
    capabilities: bytes = b"{}",
) -> Negotiated:
    """Negotiate. `probe=False` goes straight to `initialize`, for servers that end on the unknown; `capabilities`, raw
    JSON, are declared in either era. Raises McpError.
    """
    if not probe:
        return await _initialize(stream, client, deadline, capabilities)
    discovery = asyncio.get_running_loop().create_task(
        _discover(stream, client, deadline, capabilities), name="server/discover"
    )
    pending = {discovery}
    try:
        await asyncio.wait(pending, timeout=probe_seconds)
        if discovery.done():
            return discovery.result() or await _initialize(stream, client, deadline, capabilities)
        initialization = asyncio.get_running_loop().create_task(
            _initialize(stream, client, deadline, capabilities), name="initialize"
        )
        pending.add(initialization)
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        agreed = discovery.result() if discovery.done() else None
        return agreed or await initialization
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


async def _discover(stream: Multiplexer, client: Client, deadline: float, capabilities: bytes) -> Negotiated | None:
    try:
        line = await stream.request("server/discover", modern_params(None, client, capabilities), deadline=deadline)
        return read_discover(read_line(line))
    except TransportError:
        raise
    except McpError as error:
        logger.debug("not modern: %s", error)
        return None


async def _initialize(stream: Multiplexer, client: Client, deadline: float, capabilities: bytes) -> Negotiated:
    line = await stream.request("initialize", initialize_params(client, capabilities), deadline=deadline)
    agreed = read_initialize(read_line(line))
    stream.notify("notifications/initialized")
    return agreed
