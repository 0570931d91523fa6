"""Connections that are kept between exchanges: they are reused, closed in time, and not reused while they are
closing."""

from __future__ import annotations

import asyncio

from fairlead_mcp.http.connection import Connection
from rawserver import Reply, Request, raw_server
from upstream_pools import echo, pool_of, post
from waiting import eventually, soon


async def test_connections_are_kept_and_the_last_one_used_is_used_again() -> None:
    async with raw_server(echo) as server:
        pool = pool_of(server)
        await asyncio.gather(*(pool.exchange(post(b"x"), deadline=soon()) for _ in range(5)))
        await eventually(lambda: not pool.statistics().dialing)
        opened = pool.statistics().dialed
        for _ in range(20):
            await pool.exchange(post(b"x"), deadline=soon())
        assert (await pool.exchange(post(b"x"), deadline=soon())).reused
        assert (pool.statistics().dialed, pool.statistics().idle) == (opened, opened)
        assert repr(pool) == f"<Pool 127.0.0.1:{server.port}: 0 busy, {opened} idle, 0 dialing, 0 waiting>"
        await pool.aclose()
        assert repr(pool).endswith("0 idle, 0 dialing, 0 waiting, closed>")


async def test_a_server_that_closes_after_each_answer_without_saying_so_costs_no_call_once_that_is_seen() -> None:
    async def answer_and_close(request: Request, reply: Reply) -> None:
        reply.send(200, request.body)
        reply.close()

    async with raw_server(answer_and_close) as server:
        pool = pool_of(server, limit=4)
        for number in range(2):
            await pool.exchange(post(b"%d" % number), deadline=soon())
            await eventually(lambda: not server.open and pool.statistics().idle == 0)
        bodies = [b"%d" % number for number in range(60)]
        answers = await asyncio.gather(*(pool.exchange(post(body), deadline=soon()) for body in bodies))
        assert [answer.body for answer in answers] == bodies
        assert pool.statistics().dialed == 62
        await pool.aclose()


async def test_a_server_that_closes_now_and_then_keeps_its_connections() -> None:
    calls = 0

    async def restless(request: Request, reply: Reply) -> None:
        nonlocal calls
        calls += 1
        reply.send(200, b"-")
        if calls % 3 == 0:
            reply.close()

    async with raw_server(restless) as server:
        pool = pool_of(server)
        for number in range(1, 13):
            await pool.exchange(post(b"x"), deadline=soon())
            if number % 3 == 0:
                await eventually(lambda: not server.open and pool.statistics().idle == 0)
        assert pool.statistics().dialed == 4
        await pool.aclose()


async def test_idle_connections_are_closed_before_the_server_does() -> None:
    async with raw_server(echo) as server:
        pool = pool_of(server, keep_alive=0.05)
        await pool.exchange(post(b"x"), deadline=soon())
        assert pool.statistics().idle == 1
        await eventually(lambda: not pool.statistics().idle)
        await pool.exchange(post(b"x"), deadline=soon())
        assert server.opened == 2
        await pool.aclose()


async def test_the_server_may_shorten_how_long_a_connection_is_kept() -> None:
    async def brief(request: Request, reply: Reply) -> None:
        reply.send(200, b"x", keep_alive="timeout=0")

    async with raw_server(brief) as server:
        pool = pool_of(server)
        for _ in range(3):
            await pool.exchange(post(b"x"), deadline=soon())
        assert server.opened == 3
        await pool.aclose()


async def test_a_connection_closed_by_the_server_while_idle_is_not_used_again() -> None:
    async with raw_server(echo) as server:
        pool = pool_of(server)
        await pool.exchange(post(b"x"), deadline=soon())
        server.cut()
        await eventually(lambda: not pool.statistics().idle)
        assert not (await pool.exchange(post(b"x"), deadline=soon())).reused
        await pool.aclose()


async def test_a_connection_that_is_closing_just_now_is_not_used_again() -> None:
    """The end of a connection is reported one iteration of the event loop after it happens."""
    async with raw_server(echo) as server:
        pool = pool_of(server)
        answer = await pool.exchange(post(b"x"), deadline=soon())
        assert isinstance(answer.connection, Connection)
        transport = answer.connection._transport
        assert transport is not None
        transport.close()
        assert pool.statistics().idle == 1, "it has not heard of it"
        again = await pool.exchange(post(b"y"), deadline=soon())
        assert (again.body, again.reused) == (b"y", False)
        await pool.aclose()
