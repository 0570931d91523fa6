"""The end of requests: each waiter for the last one wakes up, and each request has an outcome."""

from __future__ import annotations

import asyncio

from msgspec import Raw

from fairlead_gateway.calls.path.context import CallContext, CallServices, Introduction
from fairlead_gateway.calls.questions.input_required import Bridge
from fairlead_gateway.calls.questions.server_requests import ServerRequests
from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.calls.subscriptions.resource_subscriptions import ResourceSubscriptions
from fairlead_gateway.sending import FutureSink, TaskCall
from fairlead_gateway.telemetry import MetricsRegistry
from fairlead_gateway.upstream.concurrency import ConcurrencyLimit
from fairlead_mcp.eras import Client
from fairlead_mcp.errors import ConnectionLost
from fairlead_mcp.http.connection import Connection
from fairlead_mcp.http.pool import Pool
from virtualtime import in_virtual_time

pytestmark = in_virtual_time


def call_context() -> CallContext:
    client = Client()
    return CallContext(
        MetricsRegistry(),
        Introduction(client, b"{}"),
        ServerRequests(SessionIds(b"k"), lambda session, params: False),
        ResourceSubscriptions(client),
        Bridge(lambda: 0.0),
        CallServices(clock=lambda: 0.0),
    )


async def test_all_who_wait_for_the_end_of_the_calls_of_a_gateway_return() -> None:
    context, call = call_context(), object()
    for _ in range(2):
        context.begin(call)  # type: ignore[arg-type]  # no member of the call is used
        waiting = [asyncio.create_task(context.wait_until_idle()) for _ in range(3)]
        await asyncio.sleep(1)
        assert not any(task.done() for task in waiting)
        context.end(call)  # type: ignore[arg-type]  # no member of the call is used
        async with asyncio.timeout(1):
            await asyncio.gather(*waiting)


async def test_all_who_wait_for_the_end_of_the_requests_of_a_connection_return() -> None:
    limit, loop = ConcurrencyLimit(5, "demo"), asyncio.get_running_loop()
    for _ in range(2):
        with limit:
            waiting = [asyncio.create_task(limit.wait_until_idle(60)) for _ in range(3)]
            await asyncio.sleep(1)
        ended = loop.time()
        await asyncio.gather(*waiting)
        assert loop.time() == ended


async def test_all_who_close_a_pool_return_with_its_last_exchange() -> None:
    pool, loop = Pool("127.0.0.1", 9), asyncio.get_running_loop()
    connection = Connection(pool)
    pool._connections.add(connection)
    closing = [asyncio.create_task(pool.aclose(60)) for _ in range(3)]
    await asyncio.sleep(1)
    pool.forget(connection)
    await asyncio.gather(*closing)
    assert loop.time() == 1


async def test_a_request_whose_task_is_cancelled_before_its_first_step_has_an_outcome() -> None:
    started = []

    async def work() -> Raw:
        started.append(1)
        return Raw(b"{}")

    before, sink = asyncio.all_tasks(), FutureSink()
    TaskCall(work(), sink, "request")
    for task in asyncio.all_tasks() - before:
        task.cancel()  # as the end of the event loop does
    async with asyncio.timeout(1):
        [error] = await asyncio.gather(sink.future, return_exceptions=True)
    assert isinstance(error, ConnectionLost)
    assert started == []


async def test_a_request_whose_task_is_cancelled_while_it_runs_has_an_outcome() -> None:
    async def work() -> Raw:
        await asyncio.Event().wait()
        return Raw(b"{}")

    before, sink = asyncio.all_tasks(), FutureSink()
    TaskCall(work(), sink, "request")
    tasks = asyncio.all_tasks() - before
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    async with asyncio.timeout(1):
        [error] = await asyncio.gather(sink.future, return_exceptions=True)
    assert isinstance(error, ConnectionLost)


async def test_a_cancelled_request_has_no_outcome() -> None:
    async def work() -> Raw:
        return Raw(b"{}")

    sink = FutureSink()
    TaskCall(work(), sink, "request").cancel()
    await asyncio.sleep(1)
    assert not sink.future.done()
