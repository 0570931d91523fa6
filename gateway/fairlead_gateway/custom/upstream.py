"""The server `local` as an upstream: calls its handlers in this process.

Made by the composition root for `upstream.registry`, called by `calls.dispatch` like any other upstream. An `async`
handler runs on the loop, any other in a thread. A handler that goes on after its call has ended keeps its place until
it returns, so that there are never more of them than `limit`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import itertools
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_gateway.custom import results
from fairlead_gateway.custom.context import Context
from fairlead_gateway.custom.problems import UnfitArguments, Unusable
from fairlead_gateway.custom.threads import Threads
from fairlead_gateway.custom.tools import SERVER, CustomTools, Prepared
from fairlead_gateway.upstream.base import Gauges, Order
from fairlead_gateway.upstream.inquiry import Counterpart, Inquiry
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import ConnectFailed, PoolFull, RpcError, Timeout, TooLarge
from fairlead_mcp.jsonrpc import Message

log = logging.getLogger(__name__)

THREADS: Final = 16
"""Handlers that block, at once, unless told otherwise."""


METHOD: Final = "tools/call"
PROGRESS: Final = "notifications/progress"
_Order: TypeAlias = Order | Inquiry


class _Params(msgspec.Struct):
    name: str
    arguments: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)


_decode = msgspec.json.Decoder(_Params).decode


class _Unfit(RpcError):
    """Told to the model in its own words."""

    def __str__(self) -> str:
        return self.message


class LocalUpstream:
    """See the module. `clock` is the one that deadlines go by."""

    modern = False

    def __init__(
        self, tools: CustomTools, *, limit: int, threads: int = THREADS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tools = tools
        self._limit = limit
        self._threads = Threads(threads, f"{SERVER} tools")
        self._clock = clock
        self._count = itertools.count(1).__next__
        self._running: set[asyncio.Task[Any] | Future[Any]] = set()
        self._quiet = asyncio.Event()
        self._closed = False

    def next_id(self) -> bytes:
        return b"%d" % self._count()

    async def call(self, order: Order) -> Raw:
        return await self._answer(order, order.params)

    async def era(self, client: Counterpart | None, deadline: float) -> bool:
        return self.modern

    async def ask(self, inquiry: Inquiry) -> Raw:
        if inquiry.method != METHOD:
            raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"custom tools have no {inquiry.method}")
        return await self._answer(inquiry, inquiry.params)

    def gauges(self) -> Gauges:
        return Gauges(busy=len(self._running))

    async def aclose(self, grace: float) -> None:
        self._closed = True
        if self._running and grace > 0:
            self._quiet.clear()
            try:
                async with asyncio.timeout(grace):
                    await self._quiet.wait()
            except TimeoutError:
                pass
        for one in tuple(self._running):
            one.cancel()
        self._threads.shutdown()

    # Inside

    async def _answer(self, order: _Order, raw: bytes) -> Raw:
        params = _read(raw)
        prepared = self._tools.get(params.name)
        if prepared is None or self._closed:
            raise ConnectFailed(f"the tool {params.name} is not there any more", reason="Closed")
        if len(self._running) >= self._limit:
            raise PoolFull(f"{self._limit} custom tools are running already")
        context = self._context(order, params)
        try:
            returned = await self._run(prepared, params.arguments or {}, context, order)
            return self._bounded(results.result(returned), order)
        except UnfitArguments as error:
            raise _Unfit(jsonrpc.INVALID_PARAMS, str(error)) from error
        except _Failed as failed:
            log.warning("The custom tool %s failed", prepared.name, exc_info=failed.cause)
            return self._bounded(results.failure(failed.cause), order)
        except Unusable as error:
            log.warning("The custom tool %s failed: %s", prepared.name, error)
            return Raw(results.failure(error))
        finally:
            context.give_up()

    async def _run(self, prepared: Prepared, arguments: dict[str, Any], context: Context, order: _Order) -> Any:
        """What the handler returned. Raises _Failed, UnfitArguments, Timeout."""
        positional: tuple[Any, ...] = ()
        named: dict[str, Any] = {}
        if prepared.bind is None:
            positional = (arguments,)
        else:
            named = prepared.bind(arguments)
        if prepared.context is not None:
            named[prepared.context] = context
        begun = functools.partial(prepared.tool.handler, *positional, **named)
        if not prepared.is_async:
            returned = await self._in_thread(begun, order)
            if not inspect.isawaitable(returned):
                return returned
            begun = functools.partial(_itself, returned)
        return await self._on_loop(prepared.name, begun, order)

    async def _in_thread(self, work: Callable[[], Any], order: _Order) -> Any:
        loop = asyncio.get_running_loop()
        future = self._threads.submit(contextvars.copy_context().run, _guarded, work)
        self._running.add(future)
        future.add_done_callback(lambda one: _tell(loop, self._ended, one))
        return await self._outcome(asyncio.wrap_future(future), order)

    async def _on_loop(self, name: str, work: Callable[[], Any], order: _Order) -> Any:
        task = asyncio.get_running_loop().create_task(_awaited(work), name=f"custom tool {name}")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await self._outcome(task, order)

    async def _outcome(self, handler: asyncio.Future[Any], order: _Order) -> Any:
        """Not `asyncio.timeout`: a handler that swallows its cancellation would keep the caller waiting."""
        try:
            await asyncio.wait((handler,), timeout=max(0.0, order.deadline - self._clock()))
        except asyncio.CancelledError:
            handler.cancel()
            raise
        if not handler.done():
            handler.cancel()
            raise Timeout("the tool did not answer in time", sent=True)
        return handler.result()

    def _ended(self, one: asyncio.Task[Any] | Future[Any]) -> None:
        self._running.discard(one)
        if not one.cancelled():
            one.exception()  # looked at, also where the call had ended before
        if not self._running:
            self._quiet.set()

    def _context(self, order: _Order, params: _Params) -> Context:
        seconds = max(0.0, order.deadline - self._clock())
        meta = params.meta or {}
        notify = order.notify
        if notify is None:
            return Context(params.name, seconds, meta=meta)
        loop = asyncio.get_running_loop()

        def tell(method: str, said: dict[str, Any]) -> None:
            if method == PROGRESS:
                said["progressToken"] = Raw(order.id)
            message = Message(method=method, params=Raw(jsonrpc.encode(said)))
            _tell(loop, notify, message)

        return Context(params.name, seconds, meta=meta, tell=tell)

    def _bounded(self, result: bytes, order: _Order) -> Raw:
        if len(result) > order.max_bytes:
            raise TooLarge(f"the result exceeds {order.max_bytes} bytes")
        return Raw(result)


def _read(params: bytes) -> _Params:
    try:
        return _decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Unfit(jsonrpc.INVALID_PARAMS, f"the call cannot be read: {error}") from error


class _Failed(Exception):
    """A handler raised `cause`."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _guarded(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (Exception, SystemExit) as error:
        raise _Failed(error) from error


async def _awaited(work: Callable[[], Any]) -> Any:
    try:
        return await work()
    except (Exception, SystemExit) as error:
        raise _Failed(error) from error


async def _itself(awaitable: Any) -> Any:
    return await awaitable


def _tell(loop: asyncio.AbstractEventLoop, function: Callable[[Any], None], argument: Any) -> None:
    """From any thread; nobody hears it once the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, argument)
    except RuntimeError:
        return
