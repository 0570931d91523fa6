"""Resolved addresses are cached for times when the name server does not answer."""

from __future__ import annotations

import asyncio
import socket

import pytest

from fairlead_mcp.http.dial import (
    CACHE_SECONDS,
    FRESH_SECONDS,
    RESOLVER_SECONDS,
    UNKNOWN_NAME_SECONDS,
    Address,
    CachedNames,
)

HERE = [("10.0.0.1", 80)]
THERE = [("10.0.0.2", 80)]


class NameServer:
    """Name server with scripted answers; None: no answer."""

    def __init__(self) -> None:
        self.says: list[Address] | Exception | None = HERE
        self.queries = 0
        self.later = 0.0

    async def __call__(self, host: str, port: int) -> list[Address]:
        self.queries += 1
        if self.says is None:
            await asyncio.Event().wait()
        if isinstance(self.says, Exception):
            raise self.says
        assert self.says is not None
        return self.says

    def clock(self) -> float:
        return asyncio.get_running_loop().time() + self.later


@pytest.mark.looptime
@pytest.mark.parametrize("trouble", [None, socket.gaierror(socket.EAI_AGAIN, "Temporary failure")])
async def test_a_name_server_that_does_not_answer_costs_a_known_name_nothing(trouble: Exception | None) -> None:
    server = NameServer()
    names = CachedNames(server, server.clock)
    assert await names("demo", 80) == HERE
    server.says = trouble
    async with asyncio.timeout(RESOLVER_SECONDS + 0.1):
        assert await names("demo", 80) == HERE
    server.says = THERE
    assert await names("demo", 80) == THERE


@pytest.mark.looptime
@pytest.mark.parametrize("code", [socket.EAI_NONAME, socket.EAI_NODATA, socket.EAI_AGAIN])
async def test_a_name_that_a_name_server_denies_at_first_is_asked_for_again(code: int) -> None:
    """A replica of CoreDNS caches a negative answer from before the first pod was ready."""
    server = NameServer()
    names = CachedNames(server, server.clock)
    server.says = socket.gaierror(code, "denied")
    waiting = asyncio.ensure_future(names("demo", 80))
    await asyncio.sleep(UNKNOWN_NAME_SECONDS - 1)
    assert not waiting.done()
    server.says = HERE
    assert await waiting == HERE
    assert server.queries < 10


@pytest.mark.looptime
async def test_a_name_that_does_not_exist_any_more_is_believed_gone_after_a_while_and_then_at_once() -> None:
    server = NameServer()
    names = CachedNames(server, server.clock)
    await names("demo", 80)
    server.says = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    async with asyncio.timeout(UNKNOWN_NAME_SECONDS):
        with pytest.raises(socket.gaierror):
            await names("demo", 80)
    server.later, server.queries = UNKNOWN_NAME_SECONDS, 0
    with pytest.raises(socket.gaierror):
        await names("demo", 80)
    assert server.queries == 1
    server.says = THERE
    assert await names("demo", 80) == THERE


@pytest.mark.looptime
async def test_remembered_names_are_not_made_up_when_unknown_or_too_old() -> None:
    server = NameServer()
    names = CachedNames(server, server.clock)
    await names("demo", 80)
    server.says = socket.gaierror(socket.EAI_AGAIN, "Temporary failure")
    with pytest.raises(socket.gaierror):
        await names("other", 80)
    with pytest.raises(socket.gaierror):
        await names("demo", 81)
    server.later = CACHE_SECONDS + 1
    with pytest.raises(socket.gaierror):
        await names("demo", 80)


@pytest.mark.looptime
async def test_look_ups_of_a_name_by_many_streams_share_one_query_a_second() -> None:
    server = NameServer()
    names = CachedNames(server, server.clock)
    for second in range(1, 6):
        for _ in range(200):
            assert await names.recent("demo", 80) == HERE
        assert server.queries == second
        server.later += FRESH_SECONDS
