"""Whatever a server sends: no crash, no hang, no leftovers, and no answer for another caller.

An answer is a template: `@ID@` and `@N@` are id and number of the current request, `@OTHER@` and `@OTHERN@` those of
another pending one. A client may get its own number or an error, but never another client's number.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead_api.documents.catalog import TcpEndpoint
from fuzzed_gateway import FuzzWorld, fuzz_world, marker_of, profile, read, regressions
from gated_stdio_server import CREDENTIAL, write_token
from gatewayworld import LEGACY, MODERN, Wire, calling, catalog, limits
from rawserver import RawServer, Reply, Request, raw_server

AT_ONCE: Final = 3
"""Number of simultaneous calls."""
RESULT: Final = b'{"content":[{"type":"text","text":"{\\"n\\":@N@}"}],"isError":false}'
GOOD: Final = b'{"jsonrpc":"2.0","id":@ID@,"result":' + RESULT + b"}"
OTHERS: Final = GOOD.replace(b"@ID@", b"@OTHER@").replace(b"@N@", b"@OTHERN@")
SWAPPED: Final = b'{"result":' + RESULT + b',"jsonrpc":"2.0","id":@ID@}'
PROGRESS: Final = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@TOKEN@,"progress":1}}'
BODIES: Final = (
    GOOD,
    GOOD,
    GOOD,
    SWAPPED,
    OTHERS,
    PROGRESS,
    GOOD + OTHERS,
    GOOD[:-9],
    GOOD.replace(b"@ID@", b'"@ID@"'),
    GOOD.replace(b"@ID@", b"null"),
    GOOD.replace(b'"id":@ID@', b'"id":@OTHER@,"id":@ID@'),
    GOOD.replace(b'"id":@ID@,', b""),
    GOOD.replace(b"false", b'"no"'),
    GOOD.replace(b"text", b"te\xff\xfext", 1),
    b"[" + GOOD + b"," + OTHERS + b"]",
    b'{"jsonrpc":"2.0","id":@ID@,"result":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    b'{"jsonrpc":"2.0","id":@ID@,"result":{"content":' + b'[{"a":' * 3_000 + b"1" + b"}]" * 3_000 + b"}}",
    b'{"jsonrpc":"2.0","id":@ID@,"result":null}',
    b'{"jsonrpc":"2.0","id":@ID@,"result":[1]}',
    b'{"jsonrpc":"2.0","id":@ID@,"result":{"_meta":3}}',
    b'{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"input_required"}}',
    b'{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":7}}',
    b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32000,"message":"no"}}',
    b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":"x"}}',
    b'{"jsonrpc":"2.0","id":@ID@,"error":null,"result":' + RESULT + b"}",
    b'{"jsonrpc":"2.0","id":@ID@,"error":{"code":99999999999999999999,"message":"' + b"m" * 3_000 + b'"}}',
    b'{"jsonrpc":"2.0","id":@ID@,"method":"sampling/createMessage","params":{}}',
    b'{"jsonrpc":"2.0","id":{"a":[1]},"method":"ping"}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@OTHER@,"progress":2}}',
    b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"@N@"}}',
    b"",
    b"{}",
    b"null",
    b"<html>no</html>",
    b"\x00\xff\xfe",
    b'"' + b"x" * 80_000 + b'"',
    b" " * 70_000,
)

NEARLY: Final = (GOOD, SWAPPED, OTHERS, OTHERS)
bodies = st.sampled_from(NEARLY) | st.sampled_from(NEARLY) | st.sampled_from(BODIES) | st.binary(max_size=30)
"""Bodies of answers. Half of them are valid, so that faults in the rest of a message are tested too."""
cuts = st.lists(st.integers(0, 1000), max_size=4).map(sorted)

HEADS: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n",
    b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
    b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-type: application/json\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\nconnection: upgrade\r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\n",
    b"HTTP/1.1 404 Not Found\r\n",
    b"HTTP/1.1 429 Slow\r\nretry-after: 1e9\r\n",
    b"HTTP/1.1 500 Oops\r\ncontent-type: application/json\r\n",
    b"HTTP/1.1 999 Odd\r\n",
    b"HTTP/1.1 200 OK\r\nx: " + b"y" * (70 << 10) + b"\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200,
    b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=99999999999, max=0\r\n",
    b"HTTP/1.1 200 OK\r\nmcp-session-id: other\r\n",
    b"HTTP/9.9 200 OK\r\n",
    b"NOT HTTP\r\n",
    b"HTTP/1.1 200 OK\n",
)
LENGTHS: Final = (
    b"content-length: @LENGTH@\r\n",
    b"content-length: @LENGTH@\r\n",
    b"content-length: @LENGTH@\r\ncontent-length: @LENGTH@\r\n",
    b"content-length: @SHORT@\r\n",
    b"content-length: @LONG@\r\n",
    b"content-length: 99999999999999\r\n",
    b"content-length: -5\r\n",
    b"content-length: @LENGTH@\r\ntransfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip\r\n",
    b"",
)


def chunks_of(body: bytes, extension: bytes, end: bytes) -> bytes:
    """Chunked encoding with placeholders: `@CHUNK@` is the size of the data up to the next placeholder."""
    return b"@CHUNK@" + extension + b"\r\n" + body + b"@/CHUNK@\r\n" + end


@st.composite
def http_answers(draw: st.DrawFn) -> bytes:
    """Bytes that replace or follow an answer."""
    start = draw(st.just(HEADS[0]) | st.just(HEADS[4]) | st.sampled_from(HEADS))
    body = draw(bodies)
    streamed = b"event-stream" in start
    if streamed:
        events = [body, *draw(st.lists(bodies, max_size=3))]
        line = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
        prefix = draw(
            st.sampled_from([b"", b"id: 7" + line + b"data:" + line + line, b": c" + line, b"retry: 1" + line])
        )
        body = prefix + b"".join(b"data: " + event.replace(b"\n", b" ") + line + line for event in events)
    if draw(st.booleans()):
        extension = draw(st.sampled_from([b"", b";x=y", b';q="a;b"', b";" + b"z" * 20_000]))
        end = draw(
            st.just(b"0\r\n\r\n")
            | st.sampled_from(
                [b"0\r\n\r\n", b"0\r\ntrailer: x\r\n\r\n", b"", b"-1\r\n", b"zz\r\n\r\n", b"0\r\n\r\nextra"]
            )
        )
        return start + b"transfer-encoding: chunked\r\n\r\n" + chunks_of(body, extension, end)
    return start + draw(st.just(LENGTHS[0]) | st.sampled_from(LENGTHS)) + b"\r\n" + body


@dataclass(frozen=True)
class Program:
    """Behaviour of a server for one request: it writes `answers`, cut at positions in thousandths, and may close the
    connection."""

    answers: list[bytes]
    cuts: list[int]
    close: bool


def programs(answers: st.SearchStrategy[bytes], *, closing: bool = True) -> st.SearchStrategy[list[Program]]:
    """Programs for the calls of one example. Without `closing`, connections rarely end, because opening one is slow."""
    close = st.booleans() if closing else st.integers(0, 60).map(lambda n: n == 60)
    program = st.builds(Program, st.lists(answers, max_size=2), cuts, close)
    return st.lists(program, min_size=1, max_size=AT_ONCE)


@dataclass
class SentCall:
    """A call that reached the server."""

    ident: bytes
    number: int
    token: bytes


def render(template: bytes, mine: SentCall, other: SentCall) -> bytes:
    values = {
        b"@ID@": mine.ident,
        b"@N@": b"%d" % mine.number,
        b"@OTHER@": other.ident,
        b"@OTHERN@": b"%d" % other.number,
        b"@TOKEN@": mine.token,
    }
    for mark, value in values.items():
        template = template.replace(mark, value)
    if b"@CHUNK@" in template:
        before, _, rest = template.partition(b"@CHUNK@")
        extension, _, rest = rest.partition(b"\r\n")
        body, _, after = rest.partition(b"@/CHUNK@")
        return before + b"%x" % len(body) + extension + b"\r\n" + body + after
    length = len(template.rpartition(b"\r\n\r\n")[2])
    for mark, extra in ((b"@LENGTH@", 0), (b"@SHORT@", -9), (b"@LONG@", 9)):
        template = template.replace(mark, b"%d" % max(length + extra, 0))
    return template


def pieces(data: bytes, at: list[int]) -> list[bytes]:
    ends = [0, *(len(data) * cut // 1000 for cut in at), len(data)]
    return [data[start:end] for start, end in pairwise(ends) if end > start]


@dataclass
class Script:
    """Assigns the programs of one example to arriving calls. A call that contains `tame` gets a valid answer."""

    programs: list[Program] = field(default_factory=list)
    seen: list[SentCall] = field(default_factory=list)

    def begin(self, programs: list[Program]) -> None:
        self.programs = list(programs)
        self.seen = []

    def next(self, ident: bytes, params: dict[str, Any]) -> tuple[Program | None, SentCall, SentCall]:
        arguments = params.get("arguments") or {}
        token = json.dumps(params.get("_meta", {}).get("progressToken", 0)).encode()
        mine = SentCall(ident, int(arguments.get("n", 0)), token)
        self.seen.append(mine)
        other = next((seen for seen in reversed(self.seen) if seen is not mine), mine)
        if "tame" in arguments:
            return None, mine, other
        return (self.programs.pop(0) if self.programs else None), mine, other


@contextlib.asynccontextmanager
async def http_script(script: Script) -> AsyncIterator[RawServer]:
    """A server of either era over HTTP."""

    async def handle(request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            result = {"protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            return reply.result(request, result, mcp_session_id="one")
        if request.verb != "POST" or request.method != "tools/call":
            return reply.send(202 if request.verb == "POST" else 405)
        program, mine, other = script.next(json.dumps(request.message["id"]).encode(), request.params)
        if program is None:
            return reply.send(200, render(GOOD, mine, other))
        data = b"".join(render(answer, mine, other) for answer in program.answers)
        for piece in pieces(data, program.cuts):
            reply.raw(piece)
            await reply.flush()
            await asyncio.sleep(0)
        if program.close:
            return reply.close()
        return None

    async with raw_server(handle) as server:
        yield server


@dataclass
class LineServer:
    port: int = 0


@contextlib.asynccontextmanager
async def line_script(script: Script) -> AsyncIterator[LineServer]:
    """A server over TCP, which answers the handshake and then follows the script."""
    server = LineServer()
    tasks = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await reader.readline()  # the token
            while line := await reader.readline():
                message = json.loads(line)
                if "id" not in message or "method" not in message:
                    continue
                ident = json.dumps(message["id"]).encode()
                if message["method"] != "tools/call":
                    writer.write(_hello(ident, message["method"]))
                    continue
                program, mine, other = script.next(ident, message["params"])
                if program is None:
                    writer.write(render(GOOD, mine, other) + b"\n")
                    continue
                data = b"".join(render(answer, mine, other) + b"\n" for answer in program.answers)
                for piece in pieces(data, program.cuts):
                    writer.write(piece)
                    await asyncio.sleep(0)
                if program.close:
                    return
        except (ConnectionError, asyncio.CancelledError):
            return
        finally:
            tasks.discard(task)
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 22)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for task in [*tasks]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _hello(ident: bytes, method: str) -> bytes:
    result: dict[str, Any] = {"capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    result |= {"supportedVersions": [MODERN]} if method == "server/discover" else {"protocolVersion": LEGACY}
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (ident, json.dumps(result).encode())


async def meet(world: FuzzWorld, script: Script, programs: list[Program], *, progress: bool) -> None:
    """Let several clients call at once. Asserts that each gets its number or an error, and that a later call is
    answered."""
    script.begin(programs)
    await asyncio.gather(*(_call(world, progress=progress) for _ in range(AT_ONCE)))
    await _wait_for_recovery(world)


async def _call(world: FuzzWorld, *, progress: bool) -> None:
    number = next(world.numbers)
    more: dict[str, Any] = {"progressToken": "same"} if progress else {}
    async with await Wire.connect(world.gateway) as wire:
        answer = await wire.ask(calling("demo__echo", {"n": number}, number=number, **more))
    messages = answer.events if answer.headers["content-type"] == "text/event-stream" else [answer.message]
    assert messages[-1]["id"] == number
    assert marker_of(messages[-1]) in (None, number), "the answer to one call has the content of another"
    assert all(message["params"]["progressToken"] == "same" for message in messages[:-1] if "params" in message)


async def _wait_for_recovery(world: FuzzWorld) -> None:
    """Assert that a server is called again after it behaves correctly again."""
    async with asyncio.timeout(20):
        while True:
            number = next(world.numbers)
            async with await Wire.connect(world.gateway) as wire:
                answer = await wire.ask(calling("demo__echo", {"n": number, "tame": 1}, number=number))
            assert marker_of(answer.message) in (None, number)
            if marker_of(answer.message) == number:
                return
            await asyncio.sleep(0.01)


KINDS = ("http-modern", "http-legacy", "lines")


@contextlib.contextmanager
def world_of(folder: Path, kind: str, script: Script) -> Iterator[FuzzWorld]:
    bounds = limits(max_result_bytes=64 << 10)
    if kind == "lines":
        write_token(folder)

        def document(server: Any) -> Any:
            reached = TcpEndpoint(host="127.0.0.1", port=server.port)
            return catalog("demo", reached, ["echo"], version=LEGACY, credential=CREDENTIAL, limits=bounds)

        with fuzz_world(folder, serve=lambda: line_script(script), document_of=document) as world:
            yield world
        return
    version = MODERN if kind == "http-modern" else LEGACY
    with fuzz_world(
        folder,
        serve=lambda: http_script(script),
        document_of=lambda server: catalog("demo", server.url, ["echo"], version=version, limits=bounds),
    ) as world:
        yield world


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_no_bytes_of_a_server_do_harm(tmp_path: Path, kind: str) -> None:
    script = Script()
    answers = bodies if kind == "lines" else http_answers()
    with world_of(tmp_path, kind, script) as world:

        @profile(25 if kind == "lines" else 40)
        @given(programs(answers, closing=kind != "lines"), st.booleans())
        def example(made: list[Program], progress: bool) -> None:
            work = meet(world, script, made, progress=progress)
            flat = [answer for program in made for answer in [*program.answers, b"@END@"]]
            shape = [{"cuts": program.cuts, "close": program.close} for program in made]
            world.run(work, kind, flat, programs=shape, progress=progress)

        example()


@pytest.mark.parametrize("file", [file for kind in KINDS for file in regressions(kind)], ids=lambda file: file.stem)
def test_bytes_of_a_server_that_did_harm_once_do_none(tmp_path: Path, file: Path) -> None:
    regression = read(file)
    made = []
    script = Script()
    parts = iter(regression.parts)
    for shape in regression.more["programs"]:
        answers = []
        while (part := next(parts)) != b"@END@":
            answers.append(part)
        made.append(Program(answers, shape["cuts"], shape["close"]))
    with world_of(tmp_path, regression.more["kind"], script) as world:
        world.replay(meet(world, script, made, progress=regression.more["progress"]))
