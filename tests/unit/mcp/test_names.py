"""Addresses that are remembered for when the name server does not answer."""

from __future__ import annotations

import asyncio
import socket

import pytest

from fairlead_mcp.http.dial import PATIENCE, REMEMBERED, Address, RememberedNames

HERE = [("10.0.0.1", 80)]
THERE = [("10.0.0.2", 80)]


class NameServer:
    """Says what it is told to; None is silence."""

    def __init__(self) -> None:
        self.says: list[Address] | Exception | None = HERE
        self.now = 0.0

    async def __call__(self, host: str, port: int) -> list[Address]:
        if self.says is None:
            await asyncio.Event().wait()
        if isinstance(self.says, Exception):
            raise self.says
        assert self.says is not None
        return self.says

    def clock(self) -> float:
        return self.now


@pytest.mark.looptime
@pytest.mark.parametrize("trouble", [None, socket.gaierror(socket.EAI_AGAIN, "Temporary failure")])
async def test_a_name_server_that_does_not_answer_costs_a_known_name_nothing(trouble: Exception | None) -> None:
    server = NameServer()
    names = RememberedNames(server, server.clock)
    assert await names("demo", 80) == HERE
    server.says = trouble
    async with asyncio.timeout(PATIENCE + 0.1):
        assert await names("demo", 80) == HERE
    server.says = THERE
    assert await names("demo", 80) == THERE


async def test_a_name_that_does_not_exist_any_more_is_believed_gone() -> None:
    server = NameServer()
    names = RememberedNames(server, server.clock)
    await names("demo", 80)
    server.says = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    with pytest.raises(socket.gaierror):
        await names("demo", 80)


async def test_what_nothing_is_known_of_or_was_long_ago_is_not_made_up() -> None:
    server = NameServer()
    names = RememberedNames(server, server.clock)
    await names("demo", 80)
    server.says = socket.gaierror(socket.EAI_AGAIN, "Temporary failure")
    with pytest.raises(socket.gaierror):
        await names("other", 80)
    with pytest.raises(socket.gaierror):
        await names("demo", 81)
    server.now = REMEMBERED + 1
    with pytest.raises(socket.gaierror):
        await names("demo", 80)
