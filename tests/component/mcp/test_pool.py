"""The connection pool with servers on real sockets."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time

import pytest

from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, PoolFull, Timeout
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.exchange import Call
from fairlead_mcp.http.pool import Pool
from ports import free_port
from rawserver import Handler, Reply, Request, raw_server
from upstream_pools import echo, pool_of, post
from waiting import eventually, soon


async def test_thousands_of_interleaved_exchanges_each_get_their_own_answer() -> None:
    async def server_of_moods(request: Request, reply: Reply) -> None:
        number = int(request.body)
        if number % 7 == 0:
            await asyncio.sleep(0.002)
        body = request.body
        if number % 5 == 0:
            reply.raw(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        if number % 3 == 0:
            reply.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            reply.chunk(body[:1])
            await reply.flush()
            if body[1:]:
                reply.chunk(body[1:])
            reply.end_stream()
        elif number % 101 == 0:
            reply.raw(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + body)
            reply.close()
        else:
            reply.send(200, body)

    async with raw_server(server_of_moods) as server:
        pool = pool_of(server, limit=8)

        async def ask(first: int) -> None:
            for number in range(first, first + 100):
                answer = await pool.exchange(post(b"%d" % number), deadline=soon())
                assert answer.body == b"%d" % number

        await asyncio.gather(*(ask(n * 100) for n in range(30)))
        assert pool.statistics().exchanges == 3000
        assert pool.statistics().busy == 0
        await pool.aclose()


async def test_an_answer_sent_twice_never_reaches_another_caller_unnoticed() -> None:
    async def twice(request: Request, reply: Reply) -> None:
        reply.send(200, request.body)
        if int(request.body) % 10 == 0:
            reply.send(200, request.body)
        if int(request.body) % 25 == 0:
            await reply.flush()
            await asyncio.sleep(0)
            reply.send(200, request.body)

    async with raw_server(twice) as server:
        pool = pool_of(server, limit=4, max_waiting=5000)
        foreign = 0

        async def ask(number: int) -> None:
            nonlocal foreign
            try:
                answer = await pool.exchange(post(b"%d" % number), deadline=soon())
            except ConnectionLost:
                return
            if answer.body != b"%d" % number:  # recognized by its id, as every caller has to do
                foreign += 1
                pool.discard(answer)

        await asyncio.gather(*(ask(number) for number in range(2000)))
        assert foreign < 200
        await asyncio.sleep(0)
        assert (await pool.exchange(post(b"1"), deadline=soon())).body == b"1"
        await pool.aclose()


async def test_callers_beyond_the_connections_are_served_by_a_server_that_closes_each_time() -> None:
    async def answer_and_close(request: Request, reply: Reply) -> None:
        reply.send(200, request.body, connection="close")
        reply.close()

    async with raw_server(answer_and_close) as server:
        pool = pool_of(server, limit=4)
        answers = await asyncio.gather(*(pool.exchange(post(b"%d" % n), deadline=soon()) for n in range(50)))
        assert [answer.body for answer in answers] == [b"%d" % n for n in range(50)]
        assert server.opened == 50
        await pool.aclose()


async def test_never_more_connections_than_the_limit() -> None:
    together = most = 0

    async def count_requests(request: Request, reply: Reply) -> None:
        nonlocal together, most
        together += 1
        most = max(most, together)
        await asyncio.sleep(0.001)
        together -= 1
        reply.send(200, b"x")

    async with raw_server(count_requests) as server:
        pool = pool_of(server, limit=3)
        await asyncio.gather(*(pool.exchange(post(b"x"), deadline=soon()) for _ in range(40)))
        assert (most, server.opened) == (3, 3)
        await pool.aclose()


async def never(request: Request, reply: Reply) -> None:
    await asyncio.Event().wait()


@pytest.mark.timing
async def test_a_deadline_ends_a_call_and_its_connection() -> None:
    async with raw_server(never) as server:
        pool = pool_of(server)
        took: list[float] = []
        errors: list[Timeout] = []
        for _ in range(3):
            begun = time.monotonic()
            with pytest.raises(Timeout) as caught:
                await pool.exchange(post(b"x"), deadline=begun + 0.05)
            took.append(time.monotonic() - begun)
            errors.append(caught.value)
        assert 0.05 <= min(took) < 0.5, "a busy machine may delay one, hardly all"
        assert (errors[-1].reason, errors[-1].sent) == ("Timeout", True)
        async with asyncio.timeout(5):
            await server.broken_off.wait()
        assert pool.statistics().busy == 0
        await pool.aclose()


async def test_the_earliest_deadline_counts_and_not_the_first() -> None:
    async with raw_server(never) as server:
        pool = pool_of(server)
        patient = asyncio.ensure_future(pool.exchange(post(b"x"), deadline=soon(60)))
        with pytest.raises(Timeout):
            await pool.exchange(post(b"x"), deadline=soon(0.05))
        assert not patient.done()
        patient.cancel()
        await asyncio.gather(patient, return_exceptions=True)
        await pool.aclose()


async def test_waiting_for_a_connection_has_a_deadline_and_a_bound() -> None:
    async with raw_server(never) as server:
        pool = pool_of(server, limit=1, max_waiting=1)
        holder = asyncio.ensure_future(pool.exchange(post(b"x"), deadline=soon()))
        await eventually(lambda: pool.statistics().busy)
        waiting = asyncio.ensure_future(pool.exchange(post(b"x"), deadline=soon(0.2)))
        await asyncio.sleep(0)
        third = asyncio.ensure_future(pool.exchange(post(b"x"), deadline=soon()))
        with pytest.raises(PoolFull):
            await third
        with pytest.raises(Timeout) as caught:
            await waiting
        assert (caught.value.reason, caught.value.sent) == ("QueueTimeout", False)
        holder.cancel()
        await asyncio.gather(holder, return_exceptions=True)
        await pool.aclose()


async def test_a_call_that_is_given_up_closes_its_connection() -> None:
    async with raw_server(never) as server:
        pool = pool_of(server)
        call = asyncio.ensure_future(pool.exchange(post(b"x"), deadline=soon()))
        await eventually(lambda: server.seen)
        call.cancel()
        async with asyncio.timeout(5):
            await server.broken_off.wait()
        assert pool.statistics().busy == 0
        await pool.aclose()


async def test_a_call_that_is_given_up_while_waiting_leaves_the_queue() -> None:
    async with raw_server(never) as server:
        pool = pool_of(server, limit=1)
        calls = [asyncio.ensure_future(pool.exchange(post(b"x"), deadline=soon())) for _ in range(3)]
        await eventually(lambda: server.seen)
        calls[2].cancel()
        await asyncio.gather(calls[2], return_exceptions=True)
        assert pool.statistics().waiting == 1
        await pool.aclose()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results[:2]] == [ConnectionLost, ConnectFailed]


async def test_a_dead_server_fails_all_who_wait_at_once() -> None:
    pool = Pool("127.0.0.1", free_port(), limit=2)
    calls = (pool.exchange(post(b"x"), deadline=soon(60)) for _ in range(10))
    begun = time.monotonic()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert {getattr(result, "reason", None) for result in results} == {"ConnectionRefused"}
    assert time.monotonic() - begun < 30, "half of their deadline"
    assert pool.statistics().waiting == 0
    await pool.aclose()


async def test_an_unknown_host_and_one_without_addresses_are_told() -> None:
    async def unknown(host: str, port: int) -> list[tuple[str, int]]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def empty(host: str, port: int) -> list[tuple[str, int]]:
        return []

    for resolve, reason in ((unknown, "UnknownHost"), (empty, "Unreachable")):
        pool = Pool("tools.default.svc", 80, resolve=resolve)
        with pytest.raises(ConnectFailed) as caught:
            await pool.exchange(post(b"x"), deadline=soon())
        assert caught.value.reason == reason
        assert "tools.default.svc" in str(caught.value)
        await pool.aclose()


async def test_addresses_are_tried_in_order() -> None:
    async with raw_server(echo) as server:

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", free_port()), ("127.0.0.1", server.port)]

        pool = Pool("tools.default.svc", 80, resolve=resolve)
        assert (await pool.exchange(post(b"x"), deadline=soon())).body == b"x"
        await pool.aclose()


async def test_tls_with_a_server_that_speaks_none_is_told() -> None:
    async with raw_server(echo) as server:
        pool = pool_of(server, ssl=ssl.create_default_context(), connect_timeout=0.3)
        with pytest.raises(ConnectFailed) as caught:
            await pool.exchange(post(b"x"), deadline=soon())
        assert caught.value.reason in ("TLSFailed", "ConnectTimeout")
        await pool.aclose()


async def test_plain_http_where_tls_is_expected_is_a_fault_of_the_url_and_not_of_a_certificate() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        pool = Pool("127.0.0.1", port, ssl=ssl.create_default_context())
        with pytest.raises(ConnectFailed, match="does not speak TLS: use http:// instead of https://") as caught:
            await pool.exchange(post(b"x"), deadline=soon())
        assert caught.value.reason == "InvalidURL"
        await pool.aclose()


async def test_a_pool_that_closes_lets_a_running_exchange_end() -> None:
    release = asyncio.Event()

    async def slow(request: Request, reply: Reply) -> None:
        await release.wait()
        reply.send(200, b"late")

    async with raw_server(slow) as server:
        pool = pool_of(server)
        call = asyncio.ensure_future(pool.exchange(post(b"x"), deadline=soon()))
        await eventually(lambda: server.seen)
        closing = asyncio.ensure_future(pool.aclose(grace=30))
        await asyncio.sleep(0)
        assert not closing.done()
        release.set()
        await closing
        assert (await call).body == b"late"
        with pytest.raises(ConnectFailed, match="closed"):
            await pool.exchange(post(b"x"), deadline=soon())


async def test_a_call_can_come_back_without_a_future() -> None:
    done = asyncio.Event()
    got: list[Answer | Exception] = []

    class Back(Call):
        def take_answer(self, answer: Answer) -> None:
            got.append(answer)
            done.set()

        def take_error(self, error: Exception) -> None:
            got.append(error)
            done.set()

    async with raw_server(echo) as server:
        pool = pool_of(server)
        pool.submit(Back(post(b"x"), soon(), 100))
        async with asyncio.timeout(5):
            await done.wait()
        [answer] = got
        assert isinstance(answer, Answer)
        assert answer.done_at >= answer.sent_at
        await pool.aclose()


@pytest.mark.parametrize("handler", [echo])
async def test_the_pool_works_on_uvloop_as_well(handler: Handler) -> None:
    import uvloop

    async def run() -> None:
        async with raw_server(handler) as server:
            pool = pool_of(server, limit=4)
            answers = await asyncio.gather(*(pool.exchange(post(b"%d" % n), deadline=soon()) for n in range(200)))
            assert [answer.body for answer in answers] == [b"%d" % n for n in range(200)]
            server.cut()
            with pytest.raises(McpError):
                await Pool("127.0.0.1", free_port()).exchange(post(b"x"), deadline=soon())
            await pool.aclose()

    await asyncio.to_thread(uvloop.run, run())
