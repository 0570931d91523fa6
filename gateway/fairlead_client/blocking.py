"""Synchronous registry, for programs without an event loop, and for notebooks, where a cell may block.

It runs a `registry.AsyncToolRegistry` in an event loop on a separate thread; each method waits for the corresponding
asynchronous method.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from typing import Any, Final, Self, TypeVar

from fairlead_client.callbacks import OnConnect, OnDisconnect
from fairlead_client.connector import CONNECT_SECONDS, START_SECONDS
from fairlead_client.definitions import Definitions
from fairlead_client.local_tools import LocalTool
from fairlead_client.messages import Executed
from fairlead_client.outcomes import CLOSED, ExecutionError, Outcome
from fairlead_client.registry import CACHE_TTL, AsyncToolRegistry
from fairlead_client.retry_policy import CALL_SECONDS, ONCE, Request, Retry, Strategy
from fairlead_client.servers import BadServer, Servers
from fairlead_client.tools import Tool
from fairlead_formats.messages.call import DEFAULT_CARRY, Carry, ModelCall
from fairlead_formats.names import Names
from fairlead_formats.registry import UnknownFormat
from fairlead_formats.tool_format import JsonObject
from fairlead_tools.handlers.calls import THREADS
from fairlead_tools.handlers.threads import Threads

logger = logging.getLogger(__name__)

T = TypeVar("T")
CLOSE_SECONDS: Final = 30.0
"""Maximum duration of closing a registry, in seconds."""


class Closed(RuntimeError):
    """The registry was closed."""

    def __init__(self) -> None:
        super().__init__("the tool registry is closed")


class LoopThread:
    """An event loop that runs in a separate thread until `close`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run `work` on the loop and wait for its result. Interrupting the wait cancels the work.

        Raises Closed; TimeoutError after `timeout` seconds; and RuntimeError on the loop's own thread, where waiting
        would be a deadlock.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this thread runs the registry's loop and cannot wait for it: use AsyncToolRegistry")
        with self._lock:
            if self._closed:
                work.close()
                raise Closed
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout)
        except CancelledError:
            raise Closed from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and cancel everything that runs on it. Idempotent."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join(CLOSE_SECONDS)

    def finish(self, work: Coroutine[Any, Any, object]) -> bool:
        """On the loop's own thread, which must not block, schedule `work` and then the end of the loop, and return
        True. On any other thread, only return False.
        """
        if threading.current_thread() is not self._thread:
            return False

        async def work_and_close() -> None:
            await asyncio.wait_for(work, CLOSE_SECONDS)
            self.close()

        self._last = self._loop.create_task(work_and_close(), name="closing a tool registry")
        return True

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()


def _close(thread: LoopThread, registry: AsyncToolRegistry, callbacks: Threads) -> None:
    """Close a `ToolRegistry`. This is its finalizer, for when it is garbage-collected or the process ends."""
    closing = _close_registry(registry, callbacks)
    if thread.finish(closing):
        return
    try:
        thread.wait(closing, CLOSE_SECONDS)
    except (TimeoutError, RuntimeError) as error:
        reason = str(error) or f"it was not done within {CLOSE_SECONDS:g} s"
        logger.warning("closing the tool registry failed: %s", reason)
    thread.close()


async def _close_registry(registry: AsyncToolRegistry, callbacks: Threads) -> None:
    await registry.close()
    callbacks.shutdown()


def _run_in_thread(callback: Callable[..., object] | None, threads: Threads) -> Callable[..., object] | None:
    """Wrap a callback so that it runs in a separate thread, where it may use the registry."""
    if callback is None or inspect.iscoroutinefunction(callback):
        return callback

    async def call(*arguments: object) -> None:
        await asyncio.get_running_loop().run_in_executor(threads, callback, *arguments)

    return call


async def _run_on_loop(work: Callable[[], T]) -> T:
    """Call a function that does not wait but has to run in the event loop's thread."""
    return work()


class ToolRegistry:
    """Synchronous registry of the tools of MCP servers and of this process.

    The parameters are those of `AsyncToolRegistry`. With `initialize_on_startup`, the constructor lists the tools of
    all servers; a server that cannot be reached, or an entry of an `mcp.json` that cannot be used, is logged. Several
    threads may use one registry. Call `close`, or use `with`. Raises BadServer and BadTool.
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
    ) -> None:
        callbacks = Threads(1, "callbacks of a tool registry")
        self._registry = AsyncToolRegistry(
            servers,
            local_tools,
            cache_ttl=cache_ttl,
            initialize_on_startup=initialize_on_startup,
            timeout=timeout,
            retry=retry,
            connect_timeout=connect_timeout,
            start_timeout=start_timeout,
            on_connect=_run_in_thread(on_connect, callbacks),
            on_disconnect=_run_in_thread(on_disconnect, callbacks),
            threads=threads,
            strict=strict,
        )
        self._thread = LoopThread("tool registry")
        self._finalizer = weakref.finalize(self, _close, self._thread, self._registry, callbacks)
        try:
            self._thread.wait(self._registry.start())
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return repr(self._registry).replace("AsyncToolRegistry", "ToolRegistry")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Lifecycle

    def close(self) -> None:
        """Close the registry permanently. Calls that run in other threads fail. Idempotent."""
        self._finalizer()

    def close_mcp_clients(self) -> None:
        """Close all connections. Local tools stay; the next lookup connects and lists the tools again."""
        self._wait(self._registry.close_mcp_clients())

    def refresh_cache(self) -> None:
        """List the tools of all servers now. A server that cannot be reached is logged and delays no other server."""
        self._wait(self._registry.refresh_cache())

    def clear_cache(self) -> None:
        """Drop all cached tools, so that the next lookup lists them again."""
        self._wait(_run_on_loop(self._registry.clear_cache))

    def health_check(self) -> dict[str, bool]:
        """Whether a handshake with each server succeeds now, by server name."""
        return self._wait(self._registry.health_check())

    @property
    def unusable(self) -> Mapping[str, BadServer]:
        """Entries of an `mcp.json` that cannot be used, by name, with what to change in each."""
        return self._registry.unusable

    # Tools

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools; see `get_all_tools`."""
        return self.get_all_tools()

    def get_all_tools(self) -> tuple[Tool, ...]:
        """All tools sorted by name, after stale lists were renewed. Tools of unreachable servers are left out."""
        return self._wait(self._registry.get_all_tools())

    def get_tool(self, name: str) -> Tool | None:
        """See `AsyncToolRegistry.get_tool`."""
        return self._wait(self._registry.get_tool(name))

    def search(self, query: str, limit: int = 8) -> tuple[Tool, ...]:
        """See `AsyncToolRegistry.search`."""
        return self._wait(self._registry.search(query, limit))

    def add_tool(self, tool: LocalTool) -> Tool:
        """Add a local tool. Raises BadTool, also if another local tool has the same name."""
        return self._wait(_run_on_loop(lambda: self._registry.add_tool(tool)))

    # Definitions

    def get_tool_definitions(self, provider: str, *, strict: bool = False, model: str | None = None) -> Definitions:
        """See `AsyncToolRegistry.get_tool_definitions`. Raises UnknownFormat."""
        return self._wait(self._registry.get_tool_definitions(provider, strict=strict, model=model))

    def get_tool_definitions_safe(
        self, provider: str, *, strict: bool = False, model: str | None = None
    ) -> Definitions | UnknownFormat:
        """Like `get_tool_definitions`, but returns the error instead of raising it."""
        return self._wait(self._registry.get_tool_definitions_safe(provider, strict=strict, model=model))

    def get_openai_tools(self, strict: bool = True, *, model: str | None = None) -> Definitions:
        """See `AsyncToolRegistry.get_openai_tools`."""
        return self._wait(self._registry.get_openai_tools(strict, model=model))

    def add_to_openai_request(self, request: Mapping[str, Any], *, strict: bool = True) -> JsonObject:
        """See `AsyncToolRegistry.add_to_openai_request`. Raises ValueError."""
        return self._wait(self._registry.add_to_openai_request(request, strict=strict))

    def add_to_azure_request(self, request: Mapping[str, Any], *, strict: bool = True) -> JsonObject:
        """Like `add_to_openai_request`, for Azure OpenAI."""
        return self._wait(self._registry.add_to_azure_request(request, strict=strict))

    # Calls

    def execute(
        self,
        call: str | ModelCall | Request | None,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        timeout: float | None = None,
        retry: Retry | None = None,
    ) -> Outcome:
        """Call a tool. Errors are returned, not raised; see `AsyncToolRegistry.execute`. An interrupt (Ctrl-C) cancels
        the call at the server.
        """
        try:
            return self._wait(self._registry.execute(call, arguments, timeout=timeout, retry=retry))
        except Closed as error:
            name = call if isinstance(call, str) else getattr(call, "name", "")
            return Outcome(name, error=ExecutionError(name, str(error), code=CLOSED, cause=error))

    def execute_all(
        self,
        requests: Iterable[Request | ModelCall] | None,
        strategy: Strategy = "parallel",
        *,
        timeout: float | None = None,
        retry: Retry | None = None,
    ) -> list[Outcome]:
        """See `AsyncToolRegistry.execute_all`. Raises ValueError for an invalid strategy."""
        return self._wait(self._registry.execute_all(requests, strategy, timeout=timeout, retry=retry))

    def execute_message(
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
        """See `AsyncToolRegistry.execute_message`. Raises UnknownFormat."""
        return self._wait(
            self._registry.execute_message(
                provider,
                message,
                strategy,
                timeout=timeout,
                retry=retry,
                names=names,
                leave_unknown=leave_unknown,
                carry=carry,
            )
        )

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.wait(work)
