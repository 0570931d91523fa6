"""Limits on clients: number of connections, size of requests, and time to send them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_app.gateway import Gateway
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.limits.shares import MAX_ANSWERED, ConnectionLimiter
from gatewayworld import Ask, Wire, ask, calling, catalog, modern, running
from rawserver import RawServer
from toolservers import modern_server, tool
from waiting import eventually

LIST = modern("tools/list")


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with modern_server([tool("add")]) as started:
        yield started


async def await_room(gateway: Gateway, admitted: int) -> None:
    """Wait until connections have closed, so that a new one is accepted."""
    await eventually(lambda: gateway.endpoint.connection_limiter.admitted <= admitted)


@pytest.mark.parametrize(
    ("setting", "status", "words"),
    [
        ("client_connections", 503, "2 connections are open"),
        ("client_connections_each", 429, "2 connections from this"),
    ],
)
async def test_a_connection_too_many_is_told_why_and_those_inside_go_on(
    tmp_path: Path, server: RawServer, setting: str, status: int, words: str
) -> None:
    bound: dict[str, Any] = {setting: 2}
    async with running(tmp_path, catalog("demo", server.url, ["add"]), **bound) as gateway:
        first = await Wire.connect(gateway)
        second = await Wire.connect(gateway)
        assert (await first.ask(LIST)).status == (await second.ask(LIST)).status == 200
        for _ in range(2):
            async with await Wire.connect(gateway) as third:
                refused = await third.answer()
                assert (refused.status, refused.headers["retry-after"]) == (status, "1")
                assert words in refused.message["error"]["message"]
                assert await third.read_to_end() == b""
        assert (await first.ask(calling("demo__add"))).status == 200
        second.close()
        await await_room(gateway, 1)
        assert (await ask(gateway, LIST)).status == 200
        assert gateway.call_metrics.rejected[status] == 2
        first.close()


async def test_a_request_to_a_full_gateway_is_answered_although_it_was_sent_at_once(
    tmp_path: Path, server: RawServer
) -> None:
    async with running(tmp_path, catalog("demo", server.url, ["add"]), client_connections=1) as gateway:
        async with await Wire.connect(gateway) as admitted:
            assert (await admitted.ask(LIST)).status == 200
            assert (await ask(gateway, calling("demo__add", {"text": "x" * 500_000}))).status == 503
        await await_room(gateway, 0)
        assert (await ask(gateway, LIST)).status == 200


async def test_the_bounds_of_a_request_are_settings(tmp_path: Path, server: RawServer) -> None:
    bounds: dict[str, Any] = {"max_header_bytes": 20 << 10, "max_request_bytes": 500, "client_header_seconds": 0.2}
    async with running(tmp_path, catalog("demo", server.url, ["add"]), **bounds) as gateway:
        long_head = Ask(headers={**LIST.headers, "X-Long": "x" * (40 << 10)}, body=b"{}")
        assert (await ask(gateway, long_head)).status == 431
        assert (await ask(gateway, calling("demo__add", {"text": "x" * 500}))).status == 413
        async with await Wire.connect(gateway) as wire:
            wire.write(b"POST /mcp HTTP/1.1\r\nHost: loc")
            assert (await wire.answer()).status == 408


def test_a_flood_of_those_turned_away_is_closed_without_a_word_beyond_a_number() -> None:
    limiter = ConnectionLimiter(limit=1)
    admitted = limiter.enter("a")
    told = [limiter.enter("a") for _ in range(MAX_ANSWERED)]
    assert all(client.rejection is not None for client in told)
    mute = limiter.enter("a")
    assert (mute.admitted, mute.rejection) == (False, None)
    for client in (*told, mute, admitted):
        limiter.leave(client)
    assert limiter.enter("b").admitted
    assert (limiter.admitted, limiter.rejected) == (1, MAX_ANSWERED + 1)


def test_addresses_are_counted_apart_and_forgotten_when_their_last_connection_is_gone() -> None:
    limiter = ConnectionLimiter(limit_each=1)
    first = limiter.enter("a")
    other = limiter.enter("b")
    assert first.admitted
    assert other.admitted
    assert limiter.enter("a").rejection is not None
    limiter.leave(first)
    limiter.leave(other)
    assert limiter.admitted == 0
    assert not limiter._shares._amounts
    assert limiter.enter("a").admitted


def test_connections_of_one_address_take_three_quarters_and_others_get_the_rest() -> None:
    limiter = ConnectionLimiter(8, many_share=TrustedProxies(["10.0.0.0/8"]).many_share)
    crowd = [limiter.enter("2001:db8::1") for _ in range(10)]
    assert [client.admitted for client in crowd] == [True] * 6 + [False] * 4
    assert crowd[-1].rejection == (429, "6 connections from this address are open, the limit for one address")
    assert [limiter.enter("192.0.2.1").admitted for _ in range(2)] == [True, True]
    full = limiter.enter("192.0.2.2").rejection
    assert full == (503, "8 connections are open, the limit of this gateway")


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3"])
def test_an_address_that_many_clients_share_may_have_every_connection_unless_a_number_is_set(address: str) -> None:
    many_share = TrustedProxies(["10.0.0.0/8"]).many_share
    for limiter, admitted in (
        (ConnectionLimiter(8, many_share=many_share), 8),
        (ConnectionLimiter(8, 3, many_share), 3),
    ):
        assert sum(limiter.enter(address).admitted for _ in range(9)) == admitted


def test_ipv6_addresses_of_one_network_are_counted_together() -> None:
    limiter = ConnectionLimiter(limit_each=1)
    first = limiter.enter("2001:db8::1")
    assert first.admitted
    assert limiter.enter("2001:db8::ffff:2").rejection is not None
    assert limiter.enter("2001:db8:0:1::1").admitted
    limiter.leave(first)
    assert limiter.enter("2001:db8::2").admitted
