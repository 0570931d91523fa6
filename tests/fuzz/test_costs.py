"""Costs of a client's bytes: bounded memory and CPU for each byte, in each state of a parser.

A limit that is exceeded by a factor of five would allow one laptop to stop a gateway. Therefore the limits are coarse,
several times the measured costs: 1 to 10 ns a byte, 100 ns in the smallest chunks, and hardly any memory except for a
body.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzzcosts import Cost, CostlyGateway, Flood, costly_gateway
from fuzzed_gateway import profile

_MCP: Final = (
    b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
    b"mcp-protocol-version: %b\r\nmcp-method: %b\r\n"
)
_HEADS: Final = {
    "mcp": b"POST /mcp HTTP/1.1\r\n" + _MCP % (b"2025-11-25", b"tools/call"),
    "rest": b"POST /v1/tool-calls HTTP/1.1\r\ncontent-type: application/json\r\n",
}
_HOST: Final = b"host: localhost\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n\r\n"
_LONG: Final = 60_000
_BODY: Final = 3 << 20
_PING: Final = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_CALL: Final = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"demo__%b","arguments":{"x":'
_MODERN_CALL: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":'
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
)


def _always(data: bytes) -> Callable[[int], bytes]:
    return lambda number: data


def _endless(name: str, unit: bytes, begun: bytes) -> list[Flood]:
    """Endless data within a request, for MCP and for REST."""
    return [Flood(f"{name} ({plane})", _always(head + _HOST + begun), unit) for plane, head in _HEADS.items()]


def _body(name: str, unit: bytes, opening: bytes = b"", closing: bytes = b"", plane: str = "mcp") -> Flood:
    """A complete request with Content-Length."""
    times = _BODY // len(unit)
    size = times * len(unit)
    length = b"connection: close\r\ncontent-length: %d\r\n\r\n" % (len(opening) + size + len(closing))
    return Flood(name, _always(_HEADS[plane] + _HOST + length + opening), unit, closing, size)


def _headers(name: str, field: bytes, message: bytes = _PING, version: bytes = b"2025-11-25") -> Flood:
    """Requests that each have a long, different header field."""
    head = b"POST /mcp HTTP/1.1\r\n" + _MCP % (version, b"tools/call")
    host = b"" if field.startswith(b"host") else _HOST
    rest = b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(message)

    def head_of(number: int) -> bytes:
        return head + host + field + b"%d-" % number + b"y" * _LONG + b"\r\n" + rest

    return Flood(name, head_of, message, size=len(message))


def _call(name: str, unit: bytes, opening: bytes, closing: bytes, tool: bytes = b"constrained") -> Flood:
    return _body(name, unit, _CALL % tool + opening, closing + b"}}}")


ENDLESS: Final = [
    Flood("empty lines", _always(b""), b"\r\n"),
    Flood("request line (mcp)", _always(b"POST /mcp/"), b"a"),
    Flood("request line (rest)", _always(b"GET /v1/tools?"), b"a=b&"),
    *_endless("name of a field", b"x", b""),
    *_endless("value of a field", b"y", b"x: "),
    *_endless("fields", b"a:b\r\n", b""),
    *_endless("fields of one name", b"accept:a\r\n", b""),
    *_endless("chunk size", b"0", _CHUNKED),
    *_endless("chunk extension", b";a=b", _CHUNKED + b"1"),
    *_endless("quoted chunk extension", b"y", _CHUNKED + b'1;a="'),
    *_endless("chunk extensions", b"1;a=%b\r\n \r\n" % (b"y" * 200), _CHUNKED),
    *_endless("trailers", b"a:b\r\n", _CHUNKED + b"1\r\n{\r\n0\r\n"),
    *_endless("trailers of one name", b"accept:a\r\n", _CHUNKED + b"1\r\n{\r\n0\r\n"),
    *_endless("value of a trailer", b"y", _CHUNKED + b"1\r\n{\r\n0\r\nx: "),
]
"""Floods that never become a complete request."""
CHUNKS: Final = _endless("small chunks", b"1\r\n \r\n", _CHUNKED)
"""A body in chunks, each of which costs the parser a call."""
BODIES: Final = [
    _body("body of spaces (mcp)", b" "),
    _body("body of spaces (rest)", b" ", plane="rest"),
    _call("long text", b"y", b'"', b'"'),
    _call("nested lists", b"[[],[]],", b"[", b"1]"),
    _call("nested objects", b'{"a":{}},', b"[", b"1]"),
    _call("lists in lists", b"[", b"", b""),
    _call("numbers", b"1,", b"[", b"1]"),
    _call("nested lists, no policy", b"[[],[]],", b"[", b"1]", tool=b"free"),
]
"""Floods of requests with one message each."""
MEMOS: Final = [
    _headers("hosts", b"host: "),
    _headers("sessions", b"mcp-session-id: "),
    _headers("names", b"mcp-name: ", _MODERN_CALL, b"2026-07-28"),
    _headers("credentials", b"authorization: Bearer "),
    _headers("forwarded addresses", b"x-forwarded-for: fe80::1%"),
]
"""Unauthenticated requests, parts of which a cache might keep."""


MIB: Final = 1 << 20
IDLE: Final = 4 * MIB
"""Memory in bytes that a gateway uses temporarily, whatever is sent."""
CPU_NS: Final = 40
CHUNKS_CPU_NS: Final = 500
BODY_CPU_NS: Final = 60
"""CPU limit in ns per byte of the event loop's thread, which serves all calls. Longer work has to run in another
thread."""
PIECES: Final = (
    b"a:b\r\n",
    b"accept:a\r\n",
    b"x: ",
    b"y" * 50,
    b"\r\n",
    b"0\r\n",
    b"1;a=b\r\n \r\n",
    b"5\r\n     \r\n",
    b";a=",
    b'"',
    b"POST /mcp HTTP/1.1\r\n",
    b"host: x\r\n",
    b"transfer-encoding: chunked\r\n\r\n",
    b"content-length: 9\r\n",
    b"expect: 100-continue\r\n",
    b"connection: upgrade\r\nupgrade: h2c\r\n",
    b"\0",
    b"{",
)


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[CostlyGateway]:
    async with costly_gateway(tmp_path) as process:
        yield process


def check(cost: Cost, flood: Flood, *, cpu_ns: float, peak: float, retained: float = 0.1) -> None:
    """Assert limits on nanoseconds and bytes per sent byte."""
    assert cost.loop_ns < cpu_ns * cost.sent + 20e6, f"CPU of {flood.name}: {cost}"
    assert cost.peak < peak * cost.sent + IDLE, f"memory at once of {flood.name}: {cost}"
    assert cost.retained < retained * cost.sent + IDLE, f"memory that is kept of {flood.name}: {cost}"


async def test_floods_that_become_no_request_cost_next_to_nothing(gateway: CostlyGateway) -> None:
    for flood in ENDLESS:
        check(await gateway.cost_of(flood, 2 * MIB), flood, cpu_ns=CPU_NS, peak=1)


async def test_a_body_in_the_smallest_chunks_costs_a_call_for_each(gateway: CostlyGateway) -> None:
    for flood in CHUNKS:
        check(await gateway.cost_of(flood, MIB), flood, cpu_ns=CHUNKS_CPU_NS, peak=2)


@pytest.mark.parametrize("flood", BODIES, ids=lambda flood: flood.name)
async def test_a_body_costs_the_loop_no_more_than_reading_it(gateway: CostlyGateway, flood: Flood) -> None:
    cost = await gateway.cost_of(flood, 6 * MIB)
    check(cost, flood, cpu_ns=BODY_CPU_NS, peak=32, retained=4)


async def test_memos_of_unauthenticated_clients_hold_short_values_alone(gateway: CostlyGateway) -> None:
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
