"""Floods of a client, by the state that they keep a parser in: see `fuzzcosts`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fuzzcosts import Flood

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
    """In a request on each plane."""
    return [Flood(f"{name} ({plane})", _always(head + _HOST + begun), unit) for plane, head in _HEADS.items()]


def _body(name: str, unit: bytes, opening: bytes = b"", closing: bytes = b"", plane: str = "mcp") -> Flood:
    """A whole request, whose length is announced."""
    times = _BODY // len(unit)
    size = times * len(unit)
    length = b"connection: close\r\ncontent-length: %d\r\n\r\n" % (len(opening) + size + len(closing))
    return Flood(name, _always(_HEADS[plane] + _HOST + length + opening), unit, closing, size)


def _said(name: str, field: bytes, message: bytes = _PING, version: bytes = b"2025-11-25") -> Flood:
    """Requests of which each has a field that is long and unlike those before."""
    head = b"POST /mcp HTTP/1.1\r\n" + _MCP % (version, b"tools/call")
    host = b"" if field.startswith(b"host") else _HOST
    rest = b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(message)

    def opening(number: int) -> bytes:
        return head + host + field + b"%d-" % number + b"y" * _LONG + b"\r\n" + rest

    return Flood(name, opening, message, size=len(message))


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
"""Not one of them ever becomes a request."""
CHUNKS: Final = _endless("small chunks", b"1\r\n \r\n", _CHUNKED)
"""A body that does, in pieces of which each costs the parser a call."""
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
"""Requests of one message each."""
MEMOS: Final = [
    _said("hosts", b"host: "),
    _said("sessions", b"mcp-session-id: "),
    _said("names", b"mcp-name: ", _MODERN_CALL, b"2026-07-28"),
    _said("credentials", b"authorization: Bearer "),
    _said("forwarded addresses", b"x-forwarded-for: fe80::1%"),
]
"""Requests of somebody who is not known, of which something might be remembered."""
