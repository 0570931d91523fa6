"""Checks of open streams against a name server that answers whatever it likes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from fairlead_mcp.egress import Egress
from fairlead_mcp.http.dial import Address, CachedNames
from fairlead_mcp.http.peers import PeerCheck
from virtualtime import HandClock

HOST = "demo.team.svc"
PEER = ("10.1.0.1", 8080)
EGRESS = Egress.of([], ["10.96.0.0/12"], confined=True, environ={})
ANSWERS: list[Callable[[random.Random], list[Address]]] = [
    lambda _: [PEER],
    lambda _: [],
    lambda _: [("169.254.169.254", 8080)],
    lambda _: [("127.0.0.1", 8080), ("::1", 8080)],
    lambda _: [("not an address", 8080)],
    lambda rng: [(f"10.{rng.randrange(1, 90)}.{rng.randrange(256)}.{rng.randrange(256)}", 8080) for _ in range(1000)],
    lambda rng: [(f"2001:db8::{rng.randrange(1 << 16):x}", 8080)],
]
ERRORS = (OSError("no route"), TimeoutError(), UnicodeError("label too long"))


async def nameless(address: str) -> str:
    return ""


@pytest.mark.parametrize("seed", range(100))
async def test_no_answer_of_a_name_server_breaks_a_check(seed: int) -> None:
    rng, clock = random.Random(seed), HandClock()
    answer: list[Address] = []

    async def resolve(host: str, port: int) -> list[Address]:
        if host != HOST:
            return []
        if rng.random() < 0.2:
            raise rng.choice(ERRORS)
        answer[:] = rng.choice(ANSWERS)(rng)
        return list(answer)

    check = PeerCheck(HOST, 8080, EGRESS.guard(CachedNames(resolve, clock).recent, "team", nameless))
    for _ in range(8):
        clock.now += 5.0
        is_current = await check.is_current(PEER)
        assert is_current or answer != [PEER]


async def test_a_stream_stays_where_it_is_when_its_name_leads_to_what_is_not_allowed() -> None:
    async def resolve(host: str, port: int) -> list[Address]:
        return [("169.254.169.254", 8080)] if host == HOST else []

    check = PeerCheck(HOST, 8080, EGRESS.guard(resolve, "team", nameless))
    assert await check.is_current(PEER)
