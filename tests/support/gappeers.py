"""Peers whose answers are made to be slow to read, each with the product's code that reads them: see `gapreaders`.

async with run_reader("embeddings", tmp_path, answer) as reading_process:
    gap, ended = await reading_process.longest_gap_ms()
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

import aiohttp
from redis.asyncio import Redis

import gap_recorder
from fairlead_gateway.result_stores.store import digest
from fairlead_speech.realtime.fake import ScriptedRealtime
from fairlead_speech.scripted import SpeechScript
from framefloods import FLOODS
from gap_recorder import Gaps
from gapworld import Filled, shortest_gap_ms
from gatewayprocess import UNGUARDED, started
from gatewayworld import catalog, publish
from redisserver import redis_server
from speechworld import MODEL
from toolservers import serve_asgi

MIB: Final = 1 << 20
HERE: Final = Path(__file__).parent
ANSWER_SECONDS: Final = 60.0
WATCH_SECONDS: Final = 1.0
_LIST: Final = b'{"metadata":{"resourceVersion":"10000","continue":"%b"},"items":[%b]}'
OBJECT: Final = 3 * MIB // 2
"""Bytes of one object: etcd takes 1.5 MiB."""


@dataclass(frozen=True)
class PeerAttack:
    """Answer of a peer: a document, or for an API server the items of a list and of a watch."""

    name: str
    answer: Callable[[], bytes]
    items: int = 1
    status: int = 200


class Reading:
    """The process of one reader."""

    def __init__(self, process: asyncio.subprocess.Process, gaps: Gaps) -> None:
        self._process = process
        self._gaps = gaps

    async def longest_gap_ms(self) -> tuple[float, str]:
        """Longest gap in milliseconds in the best of several attempts, and how the last attempt ended."""
        ended = ""

        async def read() -> None:
            nonlocal ended
            assert self._process.stdin is not None
            self._process.stdin.write(b"\n")
            ended = await self.line()

        return await shortest_gap_ms(self._gaps, read), ended

    async def line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(ANSWER_SECONDS):
            line = await self._process.stdout.readline()
        assert line, "the reader ended"
        return line.decode().strip()


@contextlib.asynccontextmanager
async def run_reader(reader: str, folder: Path, address: str) -> AsyncIterator[Reading]:
    """Run a reader in a process that sends requests to its peer at `address`."""
    gaps = Gaps(folder / "gaps")
    plugins = "import unguarded; " if UNGUARDED in os.environ else ""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        f"import sys, runpy; sys.argv[1:] = {[reader, address]!r}; {plugins}"
        "runpy.run_module('gapreaders', run_name='__main__')",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(HERE), gap_recorder.FILE: str(folder / "gaps")},
    )
    try:
        started = Reading(process, gaps)
        assert await started.line() == "ready"
        yield started
    finally:
        process.kill()
        await process.wait()


class Answering:
    """A model's API that answers every request with the bytes of the attack. An ASGI application."""

    def __init__(self) -> None:
        self.body, self.status = b"{}", 200

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        await self.answer(scope, send)

    async def answer(self, scope: Any, send: Any) -> None:
        await _answer(send, self.status, self.body)


class Cluster(Answering):
    """An API server with objects of the attack, in pages of each list and as an event of each watch."""

    items = 1

    async def answer(self, scope: Any, send: Any) -> None:
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        if "watch" not in query:
            start, limit = int(query.get("continue", 0)), int(query["limit"])
            listed = b",".join([self._object(number) for number in range(self.items)[start : start + limit]])
            more = str(start + limit) if start + limit < self.items else ""
            await _answer(send, 200, _LIST % (more.encode(), listed))
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        event = b'{"type":"MODIFIED","object":%b}\n' % self._object(0, version=20_000)
        await send({"type": "http.response.body", "body": event, "more_body": True})
        await asyncio.sleep(WATCH_SECONDS)
        await send({"type": "http.response.body", "body": b""})

    def _object(self, number: int, version: int = 0) -> bytes:
        return self.body.replace(b"NUMBER", b"%d" % number).replace(b"VERSION", b"%d" % (version or number + 1))


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for start in range(0, len(body), MIB):
        await send({"type": "http.response.body", "body": body[start : start + MIB], "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _filled_bytes(opening: bytes, unit: bytes, closing: bytes, size: int) -> Callable[[], bytes]:
    return Filled(opening, unit, closing, size).bytes


def _members(size: int) -> Callable[[], bytes]:
    """Members of an object, each with a different name."""
    return lambda: b"".join(b'"k%06d":1,' % number for number in range(size // 12))


_VALUES: Final = (b"{},", b"1,", b'"",', b'{"a":1},', b"[[],[]],")


def _of_models(limit: int, *shapes: tuple[bytes, bytes, Sequence[bytes]]) -> Iterator[PeerAttack]:
    for opening, closing, units in shapes:
        for unit in units:
            yield PeerAttack(f"{opening[:40]!r} {unit!r}", _filled_bytes(opening, unit, closing, limit - 1024))
    for unit in _VALUES:
        filled = _filled_bytes(b'{"error":{"message":"x","details":[', unit, b"1]}}", limit - 1024)
        yield PeerAttack(f"a refusal with {unit!r}", filled, status=400)


def _embeddings() -> Iterator[PeerAttack]:
    vector = b'{"index":0,"embedding":[1.5]},'
    yield from _of_models(
        16 * MIB,
        (b'{"data":[{"index":0,"embedding":[', b"1]}]}", (b"1,", b"0.25,", b"1e-300,", b"0.12345678901234567,")),
        (b'{"data":[', vector[:-1] + b"]}", (vector, b'{"index":0,"embedding":[]},')),
        (b'{"data":[{"index":0,"embedding":[1.5]}],"usage":[', b"1]}", _VALUES),
        (b'{"data":[{"index":0,"embedding":[1.5],"x":[', b"1]}]}", _VALUES),
    )


def _compressor() -> Iterator[PeerAttack]:
    message = b'{"choices":[{"message":{"content":"'
    yield from _of_models(
        MIB,
        (b'{"choices":[', b'{"message":{"content":"x"}}]}', (b'{"message":{}},', b'{"message":{"content":"x"}},')),
        (b'{"choices":[{"message":{"tool_calls":[', b"1]}}]}", _VALUES),
        (message, b'"}}]}', (b"[1] b b b b. ", b"[1] b\\n", b". . . ", b"1 ", b"\\u00e9")),
    )


def _models() -> Iterator[PeerAttack]:
    yield from _of_models(
        4 * MIB,
        (b'{"data":[', b'{"id":"a","max_model_len":8192}]}', (b'{"id":"a","max_model_len":8192},', *_VALUES)),
        (b'{"data":[{"id":"a","max_model_len":8192}],"x":[', b"1]}", _VALUES),
    )


_IDENTITY: Final = b'"name":"nNUMBER","namespace":"team","uid":"uNUMBER","resourceVersion":"VERSION"'
_MANAGED: Final = b"managedFields"
ITEMS: Final = 40


def _of_cluster(*shapes: tuple[bytes, bytes, Sequence[bytes]], metadata: bytes = b"") -> Iterator[PeerAttack]:
    """Attacks with one object, and with ITEMS objects. `shapes`: members of the objects besides their metadata, each
    with the values that are repeated in them.
    """
    for opening, closing, units in shapes:
        for unit in units:
            filled = _filled_bytes(b'{"metadata":{%b%b},%b' % (_IDENTITY, metadata, opening), unit, closing, OBJECT)
            for items in (1, ITEMS):
                yield PeerAttack(f"{items} with {opening[:40]!r} {unit[:24]!r}", filled, items)


def _of_metadata() -> Iterator[PeerAttack]:
    members = _names(MIB, b'"k%06d":"1",')
    for opening, closing, units in (
        (b'"managedFields":[{"fieldsV1":{"x":[', b"1]}}]}}", _VALUES),
        (b'"managedFields":[', b'{"subresource":"status"}]}}', (b'{"manager":"a","subresource":"status"},',)),
        (b'"labels":{', b'"z":"1"}}}', (members,)),
        (b'"annotations":{', b'"z":"1"}}}', (members,)),
    ):
        for unit in units:
            filled = _filled_bytes(b'{"metadata":{%b,%b' % (_IDENTITY, opening), unit, closing, OBJECT)
            yield PeerAttack(f"{ITEMS} with {opening!r} {unit[:24]!r}", filled, ITEMS)


def _names(size: int, form: bytes = b'"k%06d":1,') -> bytes:
    return b"".join(form % number for number in range(size // len(form % 0)))


def _servers() -> Iterator[PeerAttack]:
    yield from _of_cluster(
        (b'"spec":{"url":"http://a/mcp","x":[', b"1]}}", _VALUES),
        (b'"spec":{"unrestrictedPodTemplate":{', b'"z":1}}}', (_names(MIB),)),
    )
    yield from _of_metadata()


def _policies() -> Iterator[PeerAttack]:
    rule = b'{"action":"Allow","tools":["*"]},'
    yield from _of_cluster(
        (b'"spec":{"rules":[', rule[:-1] + b"]}}", (rule, *_VALUES)),
        (b'"spec":{"rules":[{"action":"Allow","tools":[', b'"a"]}]}}', (b'"a",', b"{},")),
        (b'"spec":{"rules":[{"action":"Allow","tools":["*"],"arguments":{"x":[', b"1]}}]}}", _VALUES),
    )


def _secrets() -> Iterator[PeerAttack]:
    yield from _of_cluster((b'"data":{', b'"z":""}}', (_names(MIB, b'"k%06d":"",'),)))
    yield from _of_metadata()


def _pods() -> Iterator[PeerAttack]:
    status = b'{"name":"a","state":{"waiting":{"reason":"x"}}},'
    yield from _of_cluster(
        (b'"spec":{},"status":{"containerStatuses":[', status[:-1] + b"]}}", (status, b'{"name":"a"},', b"{},")),
        (b'"spec":{},"status":{"conditions":[', b'{"type":"x"}]}}', (b'{"type":"x"},',)),
        (b'"spec":{"containers":[{"env":[', b'{"name":"a"}]}]}}', (b'{"name":"a"},',)),
    )
    yield from _of_metadata()


def _documents() -> Iterator[PeerAttack]:
    catalog = b'{\\"kind\\":\\"catalog\\",\\"version\\":1,\\"x\\":['
    label = b',"labels":{"fairlead.dev/document":"catalog"}'
    yield from _of_cluster(
        (b'"data":{"document.json":"' + catalog, b'1]}"}}', (b"{},", b"1,", b'{\\"a\\":1},')),
        (b'"data":{', b'"z":""}}', (_names(MIB, b'"k%06d":"",'),)),
        (b'"binaryData":{', b'"z":""}}', (_names(MIB, b'"k%06d":"",'),)),
        (b'"x":[', b"1]}", _VALUES),
        metadata=label,
    )


OF_HTTP: Final = {
    "embeddings": (Answering, _embeddings),
    "compressor": (Answering, _compressor),
    "models": (Answering, _models),
    "documents": (Cluster, _documents),
    "servers": (Cluster, _servers),
    "policies": (Cluster, _policies),
    "secrets": (Cluster, _secrets),
    "pods": (Cluster, _pods),
}
"""Readers of HTTP answers, each with its peer and the attacks."""


async def gaps_of(reader: str, folder: Path, stride: int) -> dict[str, tuple[float, str]]:
    """Longest gaps by attack, in milliseconds, and how the reading ended; one attack in `stride` is made."""
    made, attacks = OF_HTTP[reader]
    peer, gaps = made(), {}
    async with serve_asgi(peer) as port, run_reader(reader, folder, f"http://127.0.0.1:{port}") as process:
        for number, attack in enumerate(attacks()):
            if number % stride == 0:
                peer.body, peer.status = attack.answer(), attack.status
                if isinstance(peer, Cluster):
                    peer.items = attack.items
                gaps[attack.name] = await process.longest_gap_ms()
    return gaps


async def gaps_of_redis(folder: Path) -> dict[str, tuple[float, str]]:
    """Longest gaps while the gateway reads values in Redis that another program wrote."""
    gaps = {}
    async with redis_server(folder) as server:
        redis: Redis = Redis.from_url(server.url)
        key = f"{{fairlead}}:context:{digest('account')}:{digest('session')}"
        for name, count, size in (("many", 300_000, 1), ("large", 128, MIB), ("long", 200, 64 << 10)):
            await redis.delete(key)
            step = min(10_000, MIB // size)
            for start in range(0, count, step):
                values: dict[Any, Any] = {str(n): b"x" * size for n in range(start, min(count, start + step))}
                await redis.hset(key, mapping=values)
            async with run_reader("results", folder, server.url) as process:
                gaps[f"{name} results"] = await process.longest_gap_ms()
        async with run_reader("rates", folder, server.url) as process:
            gaps["2,000 rates"] = await process.longest_gap_ms()
        await redis.aclose()
    return gaps


async def gaps_of_speech(folder: Path) -> dict[str, tuple[float, str]]:
    """Longest gaps while a gateway reads messages of speech sessions."""
    gaps, documents, routes = {}, folder / "documents", folder / "models.yaml"
    publish(documents, catalog("demo", "http://127.0.0.1:9/mcp", []))
    scripted = ScriptedRealtime(SpeechScript(), "")
    async with scripted.serving(), aiohttp.ClientSession() as http:
        provider = {"models": [MODEL], "baseUrl": f"http://127.0.0.1:{scripted.port}/v1"}
        routes.write_text(json.dumps({"providers": {"scripted": provider}}))
        recorded = Gaps(folder / "gaps")
        async with started(
            FAIRLEAD_TEST_GAPS=str(folder / "gaps"),
            FAIRLEAD_DOCUMENTS=str(documents),
            FAIRLEAD_ANONYMOUS="allow",
            FAIRLEAD_ROUTES=str(routes),
            FAIRLEAD_EMBEDDER="none",
        ) as gateway:
            port = (await gateway.line(r"MCP on http://127\.0\.0\.1:(\d+)/mcp"))[1]
            for flood, messages in FLOODS.items():
                gaps[flood] = await shortest_gap_ms(recorded, partial(_send_flood, http, port, messages)), ""
    return gaps


async def _send_flood(http: aiohttp.ClientSession, port: str, messages: Callable[[], Iterable[str]]) -> None:
    """Send these messages in a speech session, and close it. Returns after the gateway has read all messages."""
    async with http.ws_connect(f"http://127.0.0.1:{port}/v1/realtime?model={MODEL}", max_msg_size=0) as socket:
        await socket.receive()
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):
            for message in messages():
                await socket.send_str(message)
