"""Hostile bytes of a client: Hypothesis strategies, and the conversation that sends the bytes to the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import httptools
from hypothesis import strategies as st

from fuzzed_gateway import BODY_BYTES, QUIET_SECONDS, FuzzWorld, marker_of
from gatewayworld import LEGACY, META, MODERN

TARGETS: Final = (b"/mcp", b"/servers/default/demo/mcp", b"/mcp?x=1", b"http://localhost/mcp", b"/mcp/", b"/nowhere")
NUMBER: Final = b"@NUMBER@"
"""Placeholder for a new id, so that an example has the same bytes each time it is stored."""
CALL_ID: Final = re.compile(r"call_(\d+) *")
"""Id of a call over REST (`fuzzcalls`)."""
BOTH: Final = b"application/json, text/event-stream"


def message(era: str, method: str, params: dict[str, Any]) -> bytes:
    if era == MODERN:
        params = {**params, "_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}}
    body = json.dumps({"jsonrpc": "2.0", "id": "#", "method": method, "params": params}, separators=(",", ":"))
    return body.replace('"#"', NUMBER.decode()).encode()


def call(era: str, tool: str = "demo__echo") -> bytes:
    return message(era, "tools/call", {"name": tool, "arguments": {"n": "#"}}).replace(b'"#"', NUMBER)


CALLS: Final = {era: call(era) for era in (MODERN, LEGACY)}
BODIES: Final = (
    (MODERN, "tools/call", CALLS[MODERN]),
    (LEGACY, "tools/call", CALLS[LEGACY]),
    (MODERN, "tools/list", message(MODERN, "tools/list", {})),
    (LEGACY, "ping", message(LEGACY, "ping", {})),
    (LEGACY, "initialize", message(LEGACY, "initialize", {"protocolVersion": LEGACY, "capabilities": {}})),
    (
        LEGACY,
        "notifications/cancelled",
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    ),
)
DEEP: Final = b'{"jsonrpc":"2.0","id":' + NUMBER + b',"method":"tools/call","params":{"name":"demo__echo","arguments":'

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def spoiled_bodies(draw: st.DrawFn) -> bytes:
    """Bodies that are not valid requests, with all kinds of faults."""
    base = draw(st.sampled_from([body for _, _, body in BODIES]))
    how = draw(st.integers(0, 9))
    if how == 0:
        return base[: draw(st.integers(0, len(base) - 1))]
    if how == 1:
        at = draw(st.integers(0, len(base) - 1))
        return base[:at] + draw(st.binary(min_size=1, max_size=3)) + base[at + 1 :]
    if how == 2:
        depth = draw(st.sampled_from([10, 600, 5_000, 15_000]))
        opening, closing = draw(st.sampled_from([(b"[", b"]"), (b'{"a":', b"}")]))
        return DEEP + opening * depth + b"1" + closing * draw(st.sampled_from([depth, 0])) + b"}}"
    if how == 3:
        doubled = draw(st.sampled_from([b'"id":7,', b'"method":"ping",', b'"params":{},', b'"jsonrpc":"1.0",']))
        return base.replace(b"{", b"{" + doubled, 1)
    if how == 4:
        return b"[" + b",".join([base] * draw(st.integers(0, 3))) + b"]"
    if how == 5:
        return base.replace(NUMBER, json.dumps(draw(json_values)).encode())
    if how == 6:
        member = draw(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]))
        document = {"jsonrpc": "2.0", "method": "tools/call", member: draw(json_values)}
        return json.dumps(document).encode()
    if how == 7:
        params = {draw(st.sampled_from(["name", "arguments", "_meta", "cursor", "uri"])): draw(json_values)}
        return json.dumps({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}).encode()
    if how == 8:
        answer = draw(st.sampled_from([b'"result":{}', b'"error":{"code":1,"message":"x"}', b'"result":null']))
        return b'{"jsonrpc":"2.0","id":' + json.dumps(draw(json_values)).encode() + b"," + answer + b"}"
    return draw(st.binary(max_size=40))


def chunk_body(body: bytes, sizes: list[int], extension: bytes, trailer: bytes) -> bytes:
    pieces = []
    start = 0
    for size in sizes:
        if start < len(body):
            piece = body[start : start + size]
            pieces.append(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece))
            start += size
    if start < len(body):
        pieces.append(b"%x\r\n%b\r\n" % (len(body) - start, body[start:]))
    return b"".join([*pieces, b"0\r\n", trailer, b"\r\n"])


def head(era: str, method: str, lines: list[bytes], target: bytes = b"/mcp", verb: bytes = b"POST") -> bytes:
    head_lines = [
        b"%b %b HTTP/1.1" % (verb, target),
        b"host: localhost",
        b"content-type: application/json",
        b"accept: " + BOTH,
    ]
    head_lines.append(b"mcp-protocol-version: " + era.encode())
    if era == MODERN:
        head_lines.append(b"mcp-method: " + method.encode())
        if method == "tools/call":
            head_lines.append(b"mcp-name: demo__echo")
    return b"\r\n".join([*head_lines, *lines, b"", b""])


@st.composite
def good_requests(draw: st.DrawFn) -> bytes:
    """Valid requests, in all ways in which HTTP can transfer them."""
    era, method, body = draw(st.sampled_from(BODIES))
    target = draw(st.sampled_from(TARGETS))
    if draw(st.booleans()):
        return head(era, method, [b"content-length: @LENGTH@"], target) + body
    sizes = draw(st.lists(st.integers(1, 200), max_size=4))
    extension = draw(st.sampled_from([b"", b";a=b", b';q="x y"', b";" + b"e" * 300]))
    trailer = draw(st.sampled_from([b"", b"x-trailer: 1\r\n", b"content-length: 5\r\n"]))
    # a number is as long as its placeholder, so that chunk sizes remain valid
    return head(era, method, [b"transfer-encoding: chunked"], target) + chunk_body(body, sizes, extension, trailer)


FRAMING: Final[tuple[list[bytes], ...]] = (
    [b"content-length: @LENGTH@", b"transfer-encoding: chunked"],
    [b"transfer-encoding: chunked", b"content-length: 3"],
    [b"content-length: @LENGTH@", b"content-length: 4"],
    [b"content-length: 5, 5"],
    [b"content-length: +10"],
    [b"content-length: -1"],
    [b"content-length: 0x10"],
    [b"content-length: 99999999999999999999999"],
    [b"content-length: %d" % (BODY_BYTES + 1)],
    [b"content-length: @SHORT@"],
    [b"content-length: @LONG@"],
    [b"transfer-encoding: gzip, chunked"],
    [b"transfer-encoding: chunked, chunked"],
    [b"transfer-encoding : chunked"],
    [b"Transfer-Encoding:\tchunked", b"x: y\r\n folded"],
    [b"expect: 100-continue", b"content-length: @LENGTH@"],
    [b"upgrade: h2c", b"connection: upgrade", b"content-length: @LENGTH@"],
    [b"upgrade: websocket", b"connection: upgrade", b"sec-websocket-key: x", b"content-length: @LENGTH@"],
    [b"connection: close", b"content-length: @LENGTH@"],
    [b"x-long: " + b"a" * (70 << 10), b"content-length: @LENGTH@"],
    [b"x-%d: y" % n for n in range(300)],
    [b"x: a\0b", b"content-length: @LENGTH@"],
    [b"no colon at all", b"content-length: @LENGTH@"],
    [b"accept: text/event-stream, application/json", b"content-length: @LENGTH@"],
    [b"accept: text/plain", b"content-length: @LENGTH@"],
    [b"content-type: text/plain", b"content-length: @LENGTH@"],
    [b"mcp-session-id: \xff\xfe", b"content-length: @LENGTH@"],
    [b"last-event-id: " + b"A" * 24 + b".1", b"mcp-session-id: x.y", b"content-length: @LENGTH@"],
    [b"host: evil.example", b"content-length: @LENGTH@"],
    [],
)
VERBS: Final = (b"POST", b"GET", b"DELETE", b"HEAD", b"OPTIONS", b"PUT", b"TRACE", b"PRI", b"CONNECT", b"post")


@st.composite
def bad_requests(draw: st.DrawFn) -> bytes:
    era, method, body = draw(st.sampled_from(BODIES))
    if draw(st.booleans()):
        body = draw(spoiled_bodies())
        lines = [b"content-length: @LENGTH@"]
    else:
        lines = draw(st.sampled_from(FRAMING))
    verb = draw(st.sampled_from(VERBS)) if draw(st.integers(0, 4)) == 0 else b"POST"
    return head(era, method, lines, draw(st.sampled_from(TARGETS)), verb) + body


garbage = st.binary(min_size=1, max_size=60) | st.sampled_from(
    [
        b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"GET /\r\n",
        b"POST /mcp HTTP/9.9\r\n\r\n",
    ]
)
requests = st.one_of(*[good_requests()] * 5, bad_requests(), bad_requests(), garbage)


@dataclass(frozen=True)
class Conversation:
    """Bytes of a client: whole requests, how much of all their bytes is sent, and where these are cut. Both are in
    thousandths. With `ends`, the client ends its side of the connection behind them.
    """

    requests: list[bytes]
    permille: int
    cuts: list[int]
    ends: bool = False


conversations = st.builds(
    Conversation,
    st.lists(requests, min_size=1, max_size=4),
    st.just(1000) | st.just(1000) | st.integers(1, 1000),
    st.lists(st.integers(0, 1000), max_size=6).map(sorted),
)


def segments(conversation: Conversation, world: FuzzWorld) -> tuple[list[bytes], list[int]]:
    """The pieces of bytes to send, with ids and lengths filled in, and these ids in order."""
    numbers = []
    data = b""
    for request in conversation.requests:
        if NUMBER in request:
            numbers.append(next(world.numbers))
            request = request.replace(NUMBER, b"%-8d" % numbers[-1])
        length = len(request.partition(b"\r\n\r\n")[2])
        for mark, extra in ((b"@LENGTH@", 0), (b"@SHORT@", -7), (b"@LONG@", 9)):
            request = request.replace(mark, b"%d" % max(length + extra, 0))
        data += request
    data = data[: max(len(data) * conversation.permille // 1000, 1)]
    ends = [0, *(len(data) * cut // 1000 for cut in conversation.cuts), len(data)]
    return [data[start:end] for start, end in pairwise(ends) if end > start], numbers


class _Answers:
    """Parses the gateway's answers. Raises httptools.HttpParserError for bytes that are not HTTP."""

    def __init__(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.bodies: list[tuple[int, bytes]] = []
        self._body = b""

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        if self.parser.get_status_code() >= 200:
            self.bodies.append((self.parser.get_status_code(), self._body))


async def converse(world: FuzzWorld, conversation: Conversation) -> None:
    """Send a conversation and check the answers: they are valid HTTP and JSON-RPC, in the order of the requests, and
    each has the marker of its own request.
    """
    sent, numbers = segments(conversation, world)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.gateway.port)
    heard = b""
    with contextlib.closing(writer):
        with contextlib.suppress(ConnectionError):
            for part in sent:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            if conversation.ends:
                writer.write_eof()
        with contextlib.suppress(TimeoutError, ConnectionError):
            while data := await asyncio.wait_for(reader.read(1 << 16), QUIET_SECONDS):
                heard += data
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    check_answers(heard, numbers, head_of_head=b"HEAD " in b"".join(sent))
    await world.alive()


def check_answers(heard: bytes, numbers: list[int], *, head_of_head: bool) -> None:
    answers = _Answers()
    if head_of_head:
        return  # such an answer has a length and no body, which a parser of answers alone cannot know
    answers.parser.feed_data(heard)
    seen = []
    for status, body in answers.bodies:
        assert status < 600
        documents = [line.removeprefix(b"data: ") for line in body.split(b"\n") if line.startswith(b"data: {")]
        for document in documents or ([body] if body.startswith(b"{") else []):
            answer = json.loads(document)
            if "jsonrpc" in answer:
                seen.append(answer.get("id"))
                assert marker_of(answer) in (None, answer["id"]), "the answer to one call has the content of another"
            for call in answer.get("calls", ()):
                if (ident := CALL_ID.fullmatch(call["id"])) is None:
                    continue
                number = int(ident[1])
                seen.append(number)
                content = answer["messages"][0]["content"]
                assert call["state"] != "done" or json.loads(content)["n"] == number, "the result is another call's"
    expected = [number for number in numbers if number in seen]
    assert [number for number in seen if number in numbers] == expected, "answers are out of order, or came twice"
