"""Local tools: functions of this process as tools of a registry, run by `fairlead_tools.handlers`.

Names, schemas, threads and results are the same as for the gateway's custom tools, so that a function behaves the same
in a registry and in a gateway.
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
from fairlead_client.tools import Tool, to_seconds
from fairlead_formats.schema.property_names import other_names
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.messages import Message
from fairlead_tools.handlers.calls import THREADS, HandlerCall, Handlers
from fairlead_tools.handlers.prepared import Prepared
from fairlead_tools.handlers.tool import CustomTool
from fairlead_tools.handlers.tools import SERVER, CustomTools
from fairlead_tools.names import tool_id

LocalTool: TypeAlias = Callable[..., Any] | CustomTool
"""A function, with or without `@tool`, or a `CustomTool`."""

MAX_CALLS: Final = 10_000
"""Maximum number of concurrent calls of local tools. Calls of blocking functions are further limited by the number of
threads.
"""
MAX_RESULT: Final = 16 << 20
"""Maximum size of a result in bytes."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LocalTools:
    """Local tools of a registry. Raises BadTool for a function that cannot be a tool."""

    def __init__(self, tools: Iterable[LocalTool] = (), *, threads: int = THREADS) -> None:
        self._tools = CustomTools()
        self._registry_tools: dict[str, Tool] = {}
        self._handlers = Handlers(self._tools, limit=MAX_CALLS, threads=threads, raises=True)
        self._calls: dict[_FutureOutcome, HandlerCall] = {}
        for tool in tools:
            self.add(tool)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._registry_tools.values())

    def add(self, tool: LocalTool) -> Tool:
        """Add a tool. Raises BadTool, also if another tool has its name."""
        prepared_tool = self._tools.add(tool)
        registry_tool = self._registry_tools[prepared_tool.name] = _tool(prepared_tool)
        return registry_tool

    async def call(self, tool: Tool, arguments: bytes, timeout: float) -> Raw:
        """Call a tool and return its raw result. Raises McpError and HandlerFailed."""
        params = _encode({"name": tool.own_name, "arguments": Raw(arguments)})
        outcome = _FutureOutcome()
        call = self._calls[outcome] = self._handlers.call(
            params, outcome, deadline=time.monotonic() + timeout, max_bytes=MAX_RESULT
        )
        try:
            return await outcome.future
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            del self._calls[outcome]

    async def aclose(self) -> None:
        """Cancel all calls. A handler in a thread continues until it checks its cancellation (`Context`)."""
        for outcome, call in self._calls.items():
            call.cancel()
            outcome.take_error(ConnectFailed("the tool registry was closed", reason="Closed"))
        await self._handlers.aclose(0)


class _FutureOutcome:
    """Receives the outcome of a local call and stores it in a future. Progress and log messages are dropped."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()

    def take_result(self, result: Raw) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def take_error(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)

    def notify(self, message: Message) -> None:
        """Ignore progress and log messages."""


def _tool(prepared_tool: Prepared) -> Tool:
    tool, definition = prepared_tool.tool, _decode(prepared_tool.definition)
    return Tool(
        name=prepared_tool.name,
        own_name=prepared_tool.name,
        server=SERVER,
        local=True,
        id=tool_id(ServerKey("", SERVER), prepared_tool.name),
        raw=prepared_tool.definition,
        definition=definition,
        key=hashlib.blake2b(prepared_tool.definition, digest_size=16).hexdigest(),
        trusted=True,
        idempotent=tool.idempotent is True,
        longest=to_seconds(tool.max_duration_ms),
        other_names=other_names(definition.get("inputSchema")),
    )
