"""Upstream of the server `local`: calls its handlers in this process.

An `async` handler runs on the loop, any other in a thread. A handler that goes on after its call has ended keeps its
place until it returns, so that there are never more of them than `limit`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_gateway.core.ports import Gauges, Upstream
from fairlead_gateway.core.upstream_request import ResponseSink, UpstreamRequest
from fairlead_gateway.custom import results
from fairlead_gateway.custom.context import Context
from fairlead_gateway.custom.problems import HandlerFailed, UnfitArguments, Unusable
from fairlead_gateway.custom.running import awaited, guarded
from fairlead_gateway.custom.threads import Threads
from fairlead_gateway.custom.tools import SERVER, CustomTools, Prepared
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import ConnectFailed, PoolFull, RpcError, Timeout, TooLarge
from fairlead_mcp.messages import Message

log = logging.getLogger(__name__)

THREADS: Final = 16
"""Handlers that block, at once, unless told otherwise."""
HELD_SECONDS: Final = 0.1
"""Seconds of one step of an `async` handler, from which on a warning is logged."""
WARN_SECONDS: Final = 60.0
METHOD: Final = "tools/call"
PROGRESS: Final = "notifications/progress"
_Handler: TypeAlias = asyncio.Task[Any] | Future[Any]


class _Params(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


_decode = msgspec.json.Decoder(_Params).decode


class LocalUpstream(Upstream):
    """Upstream whose tools are handlers in this process. `clock` is the one that deadlines go by. With `raises`, for
    callers in Python, an exception of a handler is the outcome of its call (HandlerFailed), instead of a result that
    tells it to a model.
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
        self._count = itertools.count(1).__next__
        self._quiet = asyncio.Event()
        self._closed = False
        self._warned: dict[str, float] = {}
        self.threads = Threads(threads, f"{SERVER} tools")
        self.running: set[_Handler] = set()
        """Handlers that have not returned, whether or not somebody waits for them."""

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    @property
    def modern(self) -> bool:
        return False

    def send(self, request: UpstreamRequest, sink: ResponseSink) -> _Run:
        """A call begins at once, and no task waits for it."""
        run = _Run(self, request, sink)
        try:
            if request.method != METHOD:
                raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"custom tools have no {request.method}")
            run.begin(*self._prepared(request.params))
        except Exception as error:  # noqa: BLE001  # whatever kept it from beginning is its outcome
            run.failed(error)
        return run

    def gauges(self) -> Gauges:
        return Gauges(busy=len(self.running))

    async def aclose(self, grace: float, *, replaced: bool = False) -> None:
        self._closed = True
        if self.running and grace > 0:
            self._quiet.clear()
            try:
                async with asyncio.timeout(grace):
                    await self._quiet.wait()
            except TimeoutError:
                pass
        for handler in tuple(self.running):
            handler.cancel()
        self.threads.shutdown()

    # Told by a run

    def began(self, handler: _Handler) -> None:
        self.running.add(handler)

    def returned(self, handler: _Handler) -> None:
        self.running.discard(handler)
        if not self.running:
            self._quiet.set()

    def held(self, name: str, seconds: float) -> None:
        """Warn of an `async` handler that kept everybody else waiting, at most once a minute for each tool."""
        now = self._clock()
        if now - self._warned.get(name, -WARN_SECONDS) >= WARN_SECONDS:
            self._warned[name] = now
            log.warning(
                "The async custom tool %s held up the whole gateway for %.0f ms: what blocks belongs into a function "
                "without async, which runs in a thread", name, seconds * 1000,
            )  # fmt: skip

    def remaining(self, request: UpstreamRequest) -> float:
        """Seconds that a request has left."""
        return max(0.0, request.deadline - self._clock())

    # Inside

    def _prepared(self, raw: bytes) -> tuple[Prepared, _Params]:
        try:
            params = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _Unfit(f"the call cannot be read: {error}") from error
        prepared = self._tools.get(params.name)
        if prepared is None or self._closed:
            raise ConnectFailed(f"the tool {params.name} is not there any more", reason="Closed")
        if len(self.running) >= self._limit:
            raise PoolFull(f"{self._limit} custom tools are running already")
        return prepared, params


class _Run:
    """One call, from its beginning to its outcome. `cancel` gives it up; no outcome follows."""

    __slots__ = ("_context", "_ended", "_handler", "_loop", "_name", "_request", "_sink", "_timer", "_upstream")

    def __init__(self, upstream: LocalUpstream, request: UpstreamRequest, sink: ResponseSink) -> None:
        self._upstream = upstream
        self._request = request
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        self._name = ""
        self._context: Context | None = None
        self._handler: _Handler | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def begin(self, prepared: Prepared, params: _Params) -> None:
        """Raises McpError."""
        self._name = prepared.name
        positional: tuple[Any, ...] = ()
        named: dict[str, Any] = {}
        if prepared.bind is None:
            positional = (params.arguments or {},)
        else:
            try:
                named = prepared.bind(params.arguments or {})
            except UnfitArguments as error:
                raise _Unfit(str(error)) from error
        if prepared.context is not None:
            self._context = named[prepared.context] = self._new_context(params)
        work = functools.partial(prepared.tool.handler, *positional, **named)
        if prepared.is_async:
            self._on_loop(work)
        else:
            self._in_thread(work)
        self._timer = self._loop.call_later(self._upstream.remaining(self._request), self._late)

    def failed(self, error: Exception) -> None:
        if self._end():
            self._sink.failed(error)

    def cancel(self) -> None:
        if self._end() and self._handler is not None:
            self._handler.cancel()

    # Inside

    def _on_loop(self, work: Callable[[], Awaitable[Any]]) -> None:
        steps = awaited(work, self._held)
        self._handler = task = self._loop.create_task(steps, name=f"custom tool {self._name}")
        self._upstream.began(task)
        task.add_done_callback(self._returned)

    def _in_thread(self, work: Callable[[], Any]) -> None:
        self._handler = future = self._upstream.threads.submit(contextvars.copy_context().run, guarded, work)
        self._upstream.began(future)
        future.add_done_callback(lambda one: _tell(self._loop, self._returned, one))

    def _returned(self, handler: _Handler) -> None:
        self._upstream.returned(handler)
        if handler.cancelled():
            self.failed(ConnectFailed("the tool was stopped", reason="Closed"))
            return
        error = handler.exception()  # looked at, also where the call has ended before
        if self._ended:
            return
        if error is not None:
            self._raised(error)
            return
        value = handler.result()
        if inspect.isawaitable(value):
            self._on_loop(lambda: value)
        else:
            self._answer(value)

    def _held(self, seconds: float) -> None:
        if seconds >= HELD_SECONDS:
            self._upstream.held(self._name, seconds)

    def _raised(self, error: BaseException) -> None:
        cause = error.cause if isinstance(error, HandlerFailed) else error
        if self._upstream.raises:
            self.failed(HandlerFailed(cause))
            return
        log.warning("The custom tool %s failed", self._name, exc_info=cause)
        self._send(results.failure(cause))

    def _answer(self, value: Any) -> None:
        try:
            result = results.result(value)
        except Unusable as error:
            if self._upstream.raises:
                self.failed(HandlerFailed(error))
                return
            log.warning("The custom tool %s failed: %s", self._name, error)
            result = results.failure(error)
        self._send(result)

    def _send(self, result: bytes) -> None:
        if len(result) > self._request.max_bytes:
            self.failed(TooLarge(f"the result exceeds {self._request.max_bytes} bytes"))
        elif self._end():
            self._sink.answered(Raw(result))

    def _late(self) -> None:
        """A handler that swallows its cancellation keeps its place, and nobody waiting."""
        handler = self._handler
        self.failed(Timeout("the tool did not answer in time", sent=True))
        if handler is not None:
            handler.cancel()

    def _end(self) -> bool:
        """Whether this is the end, and not one after it."""
        if self._ended:
            return False
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._context is not None:
            self._context.give_up()
        return True

    def _new_context(self, params: _Params) -> Context:
        request, sink, loop = self._request, self._sink, self._loop

        def tell(method: str, said: dict[str, Any]) -> None:
            if method == PROGRESS:
                said["progressToken"] = Raw(request.id)
            _tell(loop, sink.notify, Message(method=method, params=Raw(jsonrpc.encode(said))))

        return Context(params.name, self._upstream.remaining(request), meta=params.meta or {}, tell=tell)


class _Unfit(RpcError):
    """Arguments that a handler does not take, told to the model in its own words."""

    def __init__(self, message: str) -> None:
        super().__init__(jsonrpc.INVALID_PARAMS, message)

    def __str__(self) -> str:
        return self.message


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[[Any], None], argument: Any) -> None:
    """From any thread; nobody hears it once the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, argument)
    except RuntimeError:
        return
