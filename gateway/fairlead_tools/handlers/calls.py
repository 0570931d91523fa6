"""Calls of custom tools: runs the Python function (handler) of a tool, and ends the call at its deadline.

An `async` handler runs in the event loop, any other handler in a thread. A handler that runs on after its call has
ended counts towards the limit on running handlers until it returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import ConnectFailed, PoolFull, RpcError, Timeout, TooLarge
from fairlead_mcp.messages import Message
from fairlead_mcp.waiting import wait_until_set
from fairlead_tools.handlers import results
from fairlead_tools.handlers.context import Context
from fairlead_tools.handlers.prepared import Prepared
from fairlead_tools.handlers.problems import HandlerFailed, UnfitArguments, Unusable
from fairlead_tools.handlers.running import await_handler, guard
from fairlead_tools.handlers.threads import Threads
from fairlead_tools.handlers.tools import SERVER, CustomTools

log = logging.getLogger(__name__)

THREADS: Final = 16
"""Default maximum number of handlers that run in threads at the same time."""
MAX_BLOCKED_SECONDS: Final = 0.1
"""Seconds for which an `async` handler may block the event loop before a warning is logged."""
WARN_SECONDS: Final = 60.0
"""Minimum seconds between two warnings that a tool has blocked the event loop."""
PROGRESS: Final = "notifications/progress"
_Handler: TypeAlias = asyncio.Task[Any] | Future[Any]


class _Params(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


_decode = msgspec.json.Decoder(_Params).decode


class HandlerSink(Protocol):
    """Receiver of a call's notifications and outcome. The outcome comes last, by either `take_result` or
    `take_error`.
    """

    def take_result(self, result: Raw) -> None:
        """Receive the raw result, in the form of MCP 2025-11-25."""
        ...

    def take_error(self, error: Exception) -> None:
        """Receive the failure of the call, an McpError or HandlerFailed."""
        ...

    def notify(self, message: Message) -> None:
        """Receive a progress notification or log message of the handler."""
        ...


class Handlers:
    """Runs the handlers of `tools`, at most `limit` at the same time. Deadlines are in the time of `clock`.

    An exception of a handler becomes a result with `isError`. With `raises`, which is for callers in Python, the
    exception becomes the error HandlerFailed.
    """

    def __init__(
        self,
        tools: CustomTools,
        *,
        limit: int,
        threads: int = THREADS,
        raises: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.raises = raises
        self._tools = tools
        self._limit = limit
        self._clock = clock
        self._idle_event = asyncio.Event()
        """Set when the last running handler returns."""
        self._is_closed = False
        self._warning_times: dict[str, float] = {}
        """Time of the last warning about each tool, by `clock`."""
        self.threads = Threads(threads, f"{SERVER} tools")
        self.running: set[_Handler] = set()
        """Handlers that have not returned, including those whose call has ended."""

    def call(
        self, params: bytes | Raw, sink: HandlerSink, *, deadline: float, max_bytes: int, token: bytes = b"1"
    ) -> HandlerCall:
        """Start a call with the raw params of `tools/call`. Returns at once; the outcome goes to `sink`.

        `max_bytes` limits the result; `token` is the raw progress token.
        """
        run = HandlerCall(self, sink, deadline, max_bytes, token)
        try:
            run.begin(*self._prepare(params))
        except Exception as error:  # noqa: BLE001  # a failure to start is the outcome of the call
            run.take_error(error)
        return run

    async def aclose(self, grace: float) -> None:
        """Wait up to `grace` seconds for running handlers, then cancel them."""
        self._is_closed = True
        if self.running and grace > 0:
            self._idle_event.clear()
            await wait_until_set(self._idle_event, grace)
        for handler in tuple(self.running):
            handler.cancel()
        self.threads.shutdown()

    # Called by HandlerCall

    def add_running(self, handler: _Handler) -> None:
        self.running.add(handler)

    def remove_running(self, handler: _Handler) -> None:
        self.running.discard(handler)
        if not self.running:
            self._idle_event.set()

    def warn_of_blocking(self, name: str, seconds: float) -> None:
        """Log that an `async` handler blocked the event loop, at most once per WARN_SECONDS and tool."""
        now = self._clock()
        if now - self._warning_times.get(name, -WARN_SECONDS) >= WARN_SECONDS:
            self._warning_times[name] = now
            log.warning(
                "The async custom tool %s blocked the whole gateway for %.0f ms: move blocking code into a function "
                "without async, because such a function runs in a thread",
                name,
                seconds * 1000,
            )

    def remaining(self, deadline: float) -> float:
        """Return the seconds until a deadline, at least 0."""
        return max(0.0, deadline - self._clock())

    # Internal

    def _prepare(self, raw: bytes | Raw) -> tuple[Prepared, _Params]:
        try:
            params = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _UnfitParams(f"the params of tools/call cannot be decoded: {error}") from error
        prepared = self._tools.get(params.name)
        if prepared is None or self._is_closed:
            raise ConnectFailed(f"the custom tool {params.name} does not exist any more", reason="Closed")
        if len(self.running) >= self._limit:
            raise PoolFull(f"{self._limit} custom tools are running already")
        return prepared, params


class HandlerCall:
    """One call of a handler, from its start to its outcome. After `cancel`, `sink` receives no outcome."""

    __slots__ = (
        "_context",
        "_deadline",
        "_handler",
        "_handlers",
        "_has_ended",
        "_loop",
        "_max_bytes",
        "_name",
        "_sink",
        "_timer",
        "_token",
    )

    def __init__(self, handlers: Handlers, sink: HandlerSink, deadline: float, max_bytes: int, token: bytes) -> None:
        self._handlers = handlers
        self._sink = sink
        self._deadline = deadline
        self._max_bytes = max_bytes
        self._token = token
        self._loop = asyncio.get_running_loop()
        self._name = ""
        self._context: Context | None = None
        self._handler: _Handler | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    def begin(self, prepared: Prepared, params: _Params) -> None:
        """Bind the arguments and start the handler. Raises McpError."""
        self._name = prepared.name
        positional_arguments: tuple[Any, ...] = ()
        named_arguments: dict[str, Any] = {}
        if prepared.bind is None:
            positional_arguments = (params.arguments or {},)
        else:
            try:
                named_arguments = prepared.bind(params.arguments or {})
            except UnfitArguments as error:
                raise _UnfitParams(str(error)) from error
        if prepared.context is not None:
            self._context = named_arguments[prepared.context] = self._new_context(params)
        work = functools.partial(prepared.tool.handler, *positional_arguments, **named_arguments)
        if prepared.is_async:
            self._on_loop(work)
        else:
            self._in_thread(work)
        self._timer = self._loop.call_later(self._handlers.remaining(self._deadline), self._end_late)

    def take_error(self, error: Exception) -> None:
        if self._end():
            self._sink.take_error(error)

    def cancel(self) -> None:
        if self._end() and self._handler is not None:
            self._handler.cancel()

    # Internal

    def _on_loop(self, work: Callable[[], Awaitable[Any]]) -> None:
        steps = await_handler(work, self._on_step)
        self._handler = task = self._loop.create_task(steps, name=f"custom tool {self._name}")
        self._handlers.add_running(task)
        task.add_done_callback(self._on_return)

    def _in_thread(self, work: Callable[[], Any]) -> None:
        self._handler = future = self._handlers.threads.submit(contextvars.copy_context().run, guard, work)
        self._handlers.add_running(future)
        future.add_done_callback(lambda handler: _call_in_loop(self._loop, self._on_return, handler))

    def _on_return(self, handler: _Handler) -> None:
        self._handlers.remove_running(handler)
        if handler.cancelled():
            self.take_error(
                ConnectFailed("the custom tool was stopped, because the gateway shuts down", reason="Closed")
            )
            return
        error = handler.exception()  # even if the call has ended: asyncio would log an unretrieved exception
        if self._has_ended:
            return
        if error is not None:
            self._on_exception(error)
            return
        value = handler.result()
        if inspect.isawaitable(value):
            self._on_loop(lambda: value)
        else:
            self._answer(value)

    def _on_step(self, seconds: float) -> None:
        if seconds >= MAX_BLOCKED_SECONDS:
            self._handlers.warn_of_blocking(self._name, seconds)

    def _on_exception(self, error: BaseException) -> None:
        cause = error.cause if isinstance(error, HandlerFailed) else error
        if self._handlers.raises:
            self.take_error(HandlerFailed(cause))
            return
        log.warning("The custom tool %s raised an exception", self._name, exc_info=cause)
        self._send(results.failure(cause))

    def _answer(self, value: Any) -> None:
        try:
            result = results.result(value)
        except Unusable as error:
            if self._handlers.raises:
                self.take_error(HandlerFailed(error))
                return
            log.warning("The custom tool %s failed: %s", self._name, error)
            result = results.failure(error)
        self._send(result)

    def _send(self, result: bytes) -> None:
        if len(result) > self._max_bytes:
            self.take_error(TooLarge(f"the result exceeds {self._max_bytes} bytes"))
        elif self._end():
            self._sink.take_result(Raw(result))

    def _end_late(self) -> None:
        """End the call at its deadline. A handler that ignores its cancellation still counts towards the limit."""
        handler = self._handler
        self.take_error(Timeout("the tool did not answer in time", sent=True))
        if handler is not None:
            handler.cancel()

    def _end(self) -> bool:
        """Mark the call as ended. Returns False if the call had already ended."""
        if self._has_ended:
            return False
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._context is not None:
            self._context.give_up()
        return True

    def _new_context(self, params: _Params) -> Context:
        sink, loop = self._sink, self._loop

        def notify(method: str, params: dict[str, Any]) -> None:
            if method == PROGRESS:
                params["progressToken"] = Raw(self._token)
            _call_in_loop(loop, sink.notify, Message(method=method, params=Raw(jsonrpc.encode(params))))

        return Context(params.name, self._handlers.remaining(self._deadline), meta=params.meta or {}, notify=notify)


class _UnfitParams(RpcError):
    """Error for params that cannot be decoded, or arguments that do not match the handler's parameters. Its text is the
    message alone."""

    def __init__(self, message: str) -> None:
        super().__init__(jsonrpc.INVALID_PARAMS, message)

    def __str__(self) -> str:
        return self.message


def _call_in_loop(loop: asyncio.AbstractEventLoop, function: Callable[[Any], None], argument: Any) -> None:
    """Call a function in the event loop from any thread. Does nothing after the loop was closed."""
    try:
        loop.call_soon_threadsafe(function, argument)
    except RuntimeError:
        return
