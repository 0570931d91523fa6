"""Asynchronous registry, for programs with an event loop. `blocking.ToolRegistry` is the synchronous one.

A local tool takes precedence over a server's tool of the same name, even if the call of the local tool fails. The tools
of servers are cached (`remote_server`). A registry belongs to the event loop of its first use.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Self

from msgspec import Raw

from fairlead_api.client_files.servers import resource_name
from fairlead_client.call_execution import Executor
from fairlead_client.callbacks import Callbacks, OnConnect, OnDisconnect
from fairlead_client.connector import CONNECT_SECONDS, START_SECONDS, ServerConnector
from fairlead_client.definitions import Definitions, add_definitions, convert_tools, openai_format
from fairlead_client.local_tools import LocalTool, LocalTools
from fairlead_client.messages import Executed, decode, write_results
from fairlead_client.outcomes import (
    CLOSED,
    ExecutionError,
    Outcome,
    ToolCallError,
    UnknownFunction,
    invalid_call_outcome,
)
from fairlead_client.remote_server import RemoteServer
from fairlead_client.retry_policy import CALL_SECONDS, ONCE, Request, Retry, Strategy, failure, max_parallel
from fairlead_client.servers import BadServer, Servers, read_declarations
from fairlead_client.tool_table import ToolTable
from fairlead_client.tools import Tool
from fairlead_formats import registry as formats
from fairlead_formats.messages.call import CUSTOM, DEFAULT_CARRY, Carry, ModelCall
from fairlead_formats.names import Names
from fairlead_formats.registry import message_format
from fairlead_formats.tool_format import JsonObject, Options
from fairlead_formats.tools.cache import Conversions
from fairlead_search.bm25_index import Bm25Index
from fairlead_search.indexed_tool import record
from fairlead_tools.batch import run_all
from fairlead_tools.handlers.calls import THREADS
from fairlead_tools.names import exposed_name
from fairlead_tools.refusal import CONNECTION_LOST, UPSTREAM_ERROR

logger = logging.getLogger(__name__)

CACHE_TTL: Final = 600.0
"""Default time for which the tools of a server are cached, in seconds."""
_CLOSED: Final = "the tool registry is closed"


class AsyncToolRegistry:
    """Registry of the tools of MCP servers and of this process.

    `servers` are `Server` objects, McpServers, mappings, or the parsed content of an `mcp.json`. `local_tools` are
    functions, with or without `@tool`, or `CustomTool`s. `cache_ttl` is in seconds. `timeout` (seconds of one attempt)
    and `retry` are defaults for calls. With `initialize_on_startup`, `async with` (or `start`) lists the tools of all
    servers; without it, servers are connected at the first use. `connect_timeout` and `start_timeout` are the seconds
    for the handshake with a server at a URL, and for starting a child process with its handshake. `threads` is the
    number of blocking local tools that run at once.

    An entry of an `mcp.json` that cannot be used is logged, is in `unusable`, and stops no other server. Raises
    BadServer for any other server that cannot be used, with `strict` for entries too, and BadTool.
    """

    def __init__(
        self,
        servers: Servers = (),
        local_tools: Iterable[LocalTool] = (),
        *,
        cache_ttl: float = CACHE_TTL,
        initialize_on_startup: bool = True,
        timeout: float = CALL_SECONDS,
        retry: Retry = ONCE,
        connect_timeout: float = CONNECT_SECONDS,
        start_timeout: float = START_SECONDS,
        on_connect: OnConnect | None = None,
        on_disconnect: OnDisconnect | None = None,
        threads: int = THREADS,
        strict: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._initialize = initialize_on_startup
        self._timeout = timeout
        self._retry = retry
        self._connector = ServerConnector(connect_seconds=connect_timeout, start_seconds=start_timeout)
        self._callbacks = Callbacks(on_connect, on_disconnect)
        self._unusable: dict[str, BadServer] = {}
        self._remotes = {
            server.name: RemoteServer(
                server, self._connector, self._callbacks, ttl=cache_ttl, clock=clock, on_change=self._on_change
            )
            for server in read_declarations(servers, unusable=None if strict else self._unusable)
        }
        for name, error in self._unusable.items():
            logger.warning("the server %s is left out: %s", name, error)
        self._local = LocalTools(local_tools, threads=threads)
        self._conversions = Conversions()
        self._executor = Executor(self._call)
        self._cached_table: ToolTable | None = None
        self._index: tuple[ToolTable, Bm25Index] | None = None
        """Cached search index, and the table of tools for which it was created."""
        self._closed = False

    def __repr__(self) -> str:
        return f"<AsyncToolRegistry of {len(self._remotes)} servers, {len(self._table())} tools>"

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Lifecycle

    async def start(self) -> None:
        """List the tools of all servers, unless `initialize_on_startup` is off. An unreachable server is logged."""
        self._check_open()
        if self._initialize:
            await self._ensure_fresh(float("inf"))

    async def close(self) -> None:
        """Close the registry permanently. Calls in flight fail. The time is limited; idempotent."""
        if self._closed:
            return
        self._closed = True
        await asyncio.gather(*(remote.aclose() for remote in self._remotes.values()))
        await self._local.aclose()
        await self._connector.aclose()
        await self._callbacks.aclose()

    async def close_mcp_clients(self) -> None:
        """Close all connections. Local tools stay; the next lookup connects and lists the tools again."""
        self._check_open()
        await asyncio.gather(*(remote.disconnect() for remote in self._remotes.values()))

    async def refresh_cache(self) -> None:
        """List the tools of all servers now. A server that cannot be reached is logged and delays no other server."""
        self._check_open()
        for remote in self._remotes.values():
            remote.reset()
        await self._ensure_fresh(float("inf"))

    def clear_cache(self) -> None:
        """Drop all cached tools, so that the next lookup lists them again."""
        self._check_open()
        for remote in self._remotes.values():
            remote.forget()

    async def health_check(self) -> dict[str, bool]:
        """Whether a handshake with each server succeeds now, by server name."""
        self._check_open()
        results = await asyncio.gather(*(remote.check() for remote in self._remotes.values()))
        return dict(zip(self._remotes, results, strict=True))

    @property
    def unusable(self) -> Mapping[str, BadServer]:
        """Entries of an `mcp.json` that cannot be used, by name, with what to change in each."""
        return MappingProxyType(self._unusable)

    # Tools

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The currently cached tools, sorted by name. Unlike `get_all_tools`, this sends no requests to servers."""
        return self._table().tools

    async def get_all_tools(self) -> tuple[Tool, ...]:
        """All tools sorted by name, after stale lists were renewed. Tools of unreachable servers are left out."""
        self._check_open()
        await self._ensure_fresh()
        return self._table().tools

    async def get_tool(self, name: str) -> Tool | None:
        """Find a tool by its name, its id (`mcp.{server}.{tool}`), its name in a provider's definitions, or the
        server's own name for the tool if only one server uses that name. None if there is no such tool, or if its
        server cannot be reached.
        """
        self._check_open()
        tool = await self._find_tool(name)
        return tool if tool is not None and tool.name in self._table().by_name else None

    async def search(self, query: str, limit: int = 8) -> tuple[Tool, ...]:
        """At most `limit` tools that match words of the query or related words, best first, for models that cannot
        receive all tools. Stale lists are renewed first. Raises ValueError for a limit below 1.
        """
        if limit < 1:
            raise ValueError(f"limit is {limit}, but must be at least 1")
        await self.get_all_tools()
        table = self._table()
        if self._index is None or self._index[0] is not table:
            self._index = table, await asyncio.to_thread(_index, table)
        return tuple(table.by_name[hit.key] for hit in self._index[1].search(query, limit))

    def add_tool(self, tool: LocalTool) -> Tool:
        """Add a local tool. Raises BadTool, also if another local tool has the same name."""
        self._check_open()
        new_tool = self._local.add(tool)
        self._on_change()
        return new_tool

    # Definitions

    async def get_tool_definitions(
        self, provider: str, *, strict: bool = False, model: str | None = None
    ) -> Definitions:
        """All tools in a provider's format (`openai`, `anthropic`, `gemini`, …; case is ignored), with a report of
        losses. With `strict`, each tool is strict unless that would change its schema. `model` selects between rules
        that differ within a format. Raises UnknownFormat (a ValueError), which names the supported formats.
        """
        format_ = formats.find(provider)
        tools = await self.get_all_tools()
        table = self._table()
        return await asyncio.to_thread(
            convert_tools, tools, table.names, format_, Options(strict=strict, model=model), self._conversions
        )

    async def get_tool_definitions_safe(
        self, provider: str, *, strict: bool = False, model: str | None = None
    ) -> Definitions | formats.UnknownFormat:
        """Like `get_tool_definitions`, but returns the error instead of raising it."""
        try:
            return await self.get_tool_definitions(provider, strict=strict, model=model)
        except formats.UnknownFormat as error:
            return error

    async def get_openai_tools(self, strict: bool = True, *, model: str | None = None) -> Definitions:
        """All tools in the format of OpenAI's Chat Completions. A tool whose schema strict mode would change is not
        strict, and the report has the reason.
        """
        return await self.get_tool_definitions(formats.OPENAI_CHAT, strict=strict, model=model)

    async def add_to_openai_request(self, request: Mapping[str, Any], *, strict: bool = True) -> JsonObject:
        """Copy a request for Chat Completions (also with the legacy `functions`) or Responses, and append all tools of
        the registry to those of the request. Raises ValueError if the request's tools are not a list.
        """
        return await self._add_to_request(request, openai_format(request), strict=strict)

    async def add_to_azure_request(self, request: Mapping[str, Any], *, strict: bool = True) -> JsonObject:
        """Like `add_to_openai_request`, for Azure OpenAI's Chat Completions."""
        return await self._add_to_request(request, formats.AZURE_OPENAI, strict=strict)

    async def _add_to_request(self, request: Mapping[str, Any], provider: str, *, strict: bool) -> JsonObject:
        model = request.get("model")
        definitions = await self.get_tool_definitions(
            provider, strict=strict, model=model if isinstance(model, str) else None
        )
        return add_definitions(request, definitions, formats.find(provider))

    # Calls

    async def execute(
        self,
        call: str | ModelCall | Request | None,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        timeout: float | None = None,
        retry: Retry | None = None,
    ) -> Outcome:
        """Call a tool by any name that `get_tool` accepts, or by a call of a provider's message. `arguments` may be a
        JSON text. Never raises: an error is in the outcome, also for a `call` that is not a valid call, such as None.
        `timeout` (seconds of one attempt) and `retry` replace the registry's defaults. Cancelling this coroutine
        cancels the call at the server.
        """
        if not isinstance(call, str | ModelCall | Request):
            return invalid_call_outcome(call)
        name = call if isinstance(call, str) else call.name
        call_arguments: object = arguments
        if isinstance(call, Request):
            call_arguments, retry = call.arguments, call.retry or retry
            timeout = timeout if call.timeout is None else call.timeout
        elif isinstance(call, ModelCall):
            if call.kind == CUSTOM:
                return Outcome(name, error=UnknownFunction(name))
            call_arguments = call.arguments
        timeout = self._timeout if timeout is None else timeout
        try:
            tool = None if self._closed else await self._find_tool(name, timeout)
            if self._closed:
                return Outcome(name, error=ExecutionError(name, _CLOSED, code=CLOSED))
            if tool is None:
                return Outcome(name, error=self._unknown_tool_error(name))
            return await self._executor.run(
                name,
                tool,
                dict(call_arguments) if isinstance(call_arguments, Mapping) else call_arguments,
                timeout=timeout,
                retry=retry or self._retry,
            )
        except Exception as error:
            logger.exception("the call of %s failed with an internal error of the registry", name)
            message = f"the call of {name} failed with an internal error of the registry"
            return Outcome(name, error=ExecutionError(name, message, code=UPSTREAM_ERROR, cause=error))

    async def execute_all(
        self,
        requests: Iterable[Request | ModelCall] | None,
        strategy: Strategy = "parallel",
        *,
        timeout: float | None = None,
        retry: Retry | None = None,
    ) -> list[Outcome]:
        """Make several calls; returns their outcomes in the order of the requests. The strategy is `sequential`,
        `parallel` (at most `retry_policy.MAX_PARALLEL` calls at once) or `parallel_with_limit(n)`. A failed call does
        not stop the others. `requests` None is an empty list. Raises ValueError for an invalid strategy.
        """
        calls = list(requests or ())
        works = [functools.partial(self.execute, call, timeout=timeout, retry=retry) for call in calls]
        return await run_all(works, at_once=max_parallel(strategy, len(calls)))

    async def execute_message(
        self,
        provider: str,
        message: object,
        strategy: Strategy = "parallel",
        *,
        timeout: float | None = None,
        retry: Retry | None = None,
        names: Names | None = None,
        leave_unknown: bool = False,
        carry: Carry = DEFAULT_CARRY,
    ) -> Executed:
        """Make all calls of a model's message; returns the messages with their results in the same format. `message` is
        decoded JSON or an object of the provider's SDK: a response, the message of a response, or parts of a message.
        `names` is `Definitions.names` of the definitions that the model received, needed only if the tools have changed
        since. With `leave_unknown`, calls of unknown tools stay pending; freeform (`custom`) calls always stay pending.
        Raises UnknownFormat.
        """
        calls = message_format(provider).parse_calls(decode(message), names)
        outcomes = await self.execute_all(calls, strategy, timeout=timeout, retry=retry)
        # in a thread, because validating results with megabytes of media takes time
        return await asyncio.to_thread(
            write_results, provider, calls, outcomes, leave_unknown=leave_unknown, carry=carry
        )

    # Internals

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(_CLOSED)

    def _on_change(self) -> None:
        self._cached_table = None

    def _table(self) -> ToolTable:
        if self._cached_table is None:
            online_tools = [
                tool for remote in self._remotes.values() if remote.online for tool in remote.tools.values()
            ]
            offline_tools = [
                tool for remote in self._remotes.values() if not remote.online for tool in remote.tools.values()
            ]
            self._cached_table = ToolTable(self._local, online_tools, offline_tools)
        return self._cached_table

    async def _ensure_fresh(self, patience: float | None = None) -> None:
        await asyncio.gather(*(remote.ensure_fresh(patience) for remote in self._remotes.values()))

    async def _find_tool(self, name: str, patience: float | None = None) -> Tool | None:
        """Find a tool by name. Only the tools of necessary servers are listed, with a timeout of `patience` seconds."""
        tool = self._table().find(name)
        if tool is None:
            await self._ensure_fresh(patience)
        elif tool.local:
            return tool
        else:
            await self._remotes[tool.server].ensure_fresh(patience)
        return self._table().find(name) or await self._gated_tool(name, patience)

    async def _gated_tool(self, name: str, patience: float | None) -> Tool | None:
        """Find a tool that its server lists only to clients with capabilities that a registry does not declare."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await asyncio.gather(*(remote.find_gated() for remote in self._remotes.values()))
        return self._table().find(name)

    def _unknown_tool_error(self, name: str) -> ToolCallError:
        for remote in self._remotes.values():
            if (absence := remote.absence(name)) is not None:
                return failure(name, absence, repeatable=False)
        for server, error in self._unusable.items():
            if server and name.startswith(exposed_name(resource_name(server), "")):
                message = f"the server {server} is left out: {error}"
                return ExecutionError(name, message, code=CONNECTION_LOST, cause=error)
        return UnknownFunction(name, self._table().nearest(name))

    async def _call(self, tool: Tool, arguments: bytes, timeout: float) -> Raw:
        if tool.local:
            return await self._local.call(tool, arguments, timeout)
        return await self._remotes[tool.server].call(tool.own_name, arguments, timeout)


def _index(table: ToolTable) -> Bm25Index:
    return Bm25Index.of(
        record(tool.name, tool.server, {**tool.definition, "name": tool.own_name}) for tool in table.tools
    )
