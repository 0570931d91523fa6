"""What a client's bytes cost: bounded memory and CPU for each byte, in each state that a parser can be kept in.

A bound that is exceeded by a factor of five is a way to stop a gateway from one laptop. So the bounds are several times
what is measured, and no finer: 1 to 10 ns a byte, 100 in the smallest chunks, and hardly any memory but for a body.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzcosts import Cost, CostlyGateway, Flood, costly_gateway
from fuzzed_gateway import profile
from fuzzfloods import BODIES, CHUNKS, ENDLESS, MEMOS

MIB: Final = 1 << 20
IDLE: Final = 4 * MIB
"""Memory that a gateway takes and gives back whatever is sent."""
CPU_NS: Final = 40
CHUNKS_CPU_NS: Final = 500
BODY_CPU_NS: Final = 60
"""CPU of the event loop's thread, which carries all calls: longer work belongs into another thread."""
PIECES: Final = (
    b"a:b\r\n", b"accept:a\r\n", b"x: ", b"y" * 50, b"\r\n", b"0\r\n", b"1;a=b\r\n \r\n", b"5\r\n     \r\n", b";a=",
    b'"', b"POST /mcp HTTP/1.1\r\n", b"host: x\r\n", b"transfer-encoding: chunked\r\n\r\n", b"content-length: 9\r\n",
    b"expect: 100-continue\r\n", b"connection: upgrade\r\nupgrade: h2c\r\n", b"\0", b"{",
)  # fmt: skip


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[CostlyGateway]:
    async with costly_gateway(tmp_path) as found:
        yield found


def check(cost: Cost, flood: Flood, *, cpu_ns: float, peak: float, kept: float = 0.1) -> None:
    """At most so many nanoseconds and bytes for each byte that was sent. Raises AssertionError."""
    assert cost.loop_ns < cpu_ns * cost.sent + 20e6, f"CPU of {flood.name}: {cost}"
    assert cost.peak < peak * cost.sent + IDLE, f"memory at once of {flood.name}: {cost}"
    assert cost.kept < kept * cost.sent + IDLE, f"memory that is kept of {flood.name}: {cost}"


async def test_what_becomes_no_request_costs_next_to_nothing(gateway: CostlyGateway) -> None:
    for flood in ENDLESS:
        check(await gateway.cost_of(flood, 2 * MIB), flood, cpu_ns=CPU_NS, peak=1)


async def test_a_body_in_the_smallest_chunks_costs_a_call_for_each(gateway: CostlyGateway) -> None:
    for flood in CHUNKS:
        check(await gateway.cost_of(flood, MIB), flood, cpu_ns=CHUNKS_CPU_NS, peak=2)


@pytest.mark.parametrize("flood", BODIES, ids=lambda flood: flood.name)
async def test_a_body_costs_the_loop_no_more_than_reading_it(gateway: CostlyGateway, flood: Flood) -> None:
    cost = await gateway.cost_of(flood, 6 * MIB)
    check(cost, flood, cpu_ns=BODY_CPU_NS, peak=32, kept=4)


async def test_nothing_of_somebody_unknown_is_remembered_but_what_is_short(gateway: CostlyGateway) -> None:
    for flood in MEMOS:
        check(await gateway.cost_of(flood, 32 * MIB), flood, cpu_ns=CPU_NS, peak=0.2)


@pytest.mark.timeout(3600)
def test_no_bytes_that_go_on_for_ever_are_dear(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        world = costly_gateway(tmp_path)
        gateway = runner.run(world.__aenter__())
        try:

            @profile(10)
            @given(st.sampled_from(ENDLESS + CHUNKS), st.lists(st.sampled_from(PIECES), min_size=1, max_size=4))
            def example(begun: Flood, pieces: list[bytes]) -> None:
                flood = Flood(f"{begun.name}, {pieces}", begun.opening, b"".join(pieces))
                check(runner.run(gateway.cost_of(flood, MIB)), flood, cpu_ns=CHUNKS_CPU_NS, peak=2)

            example()
        finally:
            runner.run(world.__aexit__(None, None, None))
