"""Handshake over a message stream, which finds out the era of the server.

A legacy server on a stream may ignore requests before `initialize` (MCP 2026-07-28, stdio). So if `server/discover` is
not answered within `probe_seconds`, `initialize` is sent too, and the first answer decides. As servers answer in order,
a modern server that was slow to start answers `server/discover` first, and so is still recognized as modern.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.eras import Client, Negotiated, initialize_params, modern_params, read_discover, read_initialize
from fairlead_mcp.errors import HandshakeRefused, McpError, RpcError, TransportError
from fairlead_mcp.multiplex import Multiplexer

logger = logging.getLogger(__name__)


def read_line(line: bytes) -> Raw:
    """Return the raw result in a response line. Raises RpcError, NotMcp, BadJson."""
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
    """Negotiate era and revision, declaring `capabilities` (raw JSON) in either era. Raises McpError.

    `probe=False` sends `initialize` at once, for servers that close the stream at an unknown request.
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
        negotiated = discovery.result() if discovery.done() else None
        return negotiated or await initialization
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
        logger.debug("the server does not support the modern era of MCP: %s", error)
        return None


async def _initialize(stream: Multiplexer, client: Client, deadline: float, capabilities: bytes) -> Negotiated:
    line = await stream.request("initialize", initialize_params(client, capabilities), deadline=deadline)
    try:
        result = read_line(line)
    except RpcError as error:
        raise HandshakeRefused.of(error) from error
    negotiated = read_initialize(result)
    stream.notify("notifications/initialized")
    return negotiated
