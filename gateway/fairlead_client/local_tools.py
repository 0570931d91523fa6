"""The tools of this process: functions as `fairlead_gateway.custom` takes them in, and the calls of them.

Names, schemas, threads and results are those of the gateway's custom tools, so that a function
behaves alike in both.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_api.meta import ServerKey
from fairlead_client.tools import Tool, seconds
from fairlead_gateway.core.names import tool_id
from fairlead_gateway.core.ports import Pending
from fairlead_gateway.core.upstream_request import UpstreamRequest
from fairlead_gateway.custom.tool import CustomTool
from fairlead_gateway.custom.tools import SERVER, CustomTools, Prepared
from fairlead_gateway.custom.upstream import METHOD, THREADS, LocalUpstream
from fairlead_gateway.sending import FutureSink
from fairlead_mcp.errors import ConnectFailed

LocalTool: TypeAlias = Callable[..., Any] | CustomTool
"""A function, marked by `@tool` or not, or all that is said of one."""

AT_ONCE: Final = 10_000
"""Calls of local tools; those of blocking handlers wait for a thread."""
MAX_RESULT: Final = 16 << 20
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LocalTools:
    """Functions as tools of a registry. Raises BadTool for a function that cannot be one."""

    def __init__(self, given: Iterable[LocalTool] = (), *, threads: int = THREADS) -> None:
        self._tools = CustomTools()
        self._shown: dict[str, Tool] = {}
        self._upstream = LocalUpstream(self._tools, limit=AT_ONCE, threads=threads, raises=True)
        self._waiting: dict[FutureSink, Pending] = {}
        for one in given:
            self.add(one)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._shown.values())

    def add(self, one: LocalTool) -> Tool:
        """Take in one more. Raises BadTool, also where the name is taken."""
        prepared = self._tools.add(one)
        shown = self._shown[prepared.name] = _tool(prepared)
        return shown

    async def call(self, tool: Tool, arguments: bytes, timeout: float) -> Raw:
        """The raw result. Raises McpError and HandlerFailed."""
        params = _encode({"name": tool.own_name, "arguments": Raw(arguments)})
        deadline = time.monotonic() + timeout
        request = UpstreamRequest(self._upstream.next_id(), METHOD, params, deadline, MAX_RESULT)
        sink = FutureSink()
        run = self._waiting[sink] = self._upstream.send(request, sink)
        try:
            return await sink.future
        except asyncio.CancelledError:
            run.cancel()
            raise
        finally:
            del self._waiting[sink]

    async def aclose(self) -> None:
        """End all calls. A handler in a thread goes on until it sees its cancellation (`Context`)."""
        for sink, run in self._waiting.items():
            run.cancel()
            sink.failed(ConnectFailed("the tool registry was closed", reason="Closed"))
        await self._upstream.aclose(0)


def _tool(prepared: Prepared) -> Tool:
    said = prepared.tool
    return Tool(
        name=prepared.name,
        own_name=prepared.name,
        server=SERVER,
        local=True,
        id=tool_id(ServerKey("", SERVER), prepared.name),
        raw=prepared.definition,
        definition=_decode(prepared.definition),
        key=hashlib.blake2b(prepared.definition, digest_size=16).hexdigest(),
        trusted=True,
        idempotent=said.idempotent is True,
        longest=seconds(said.max_duration_ms),
    )
