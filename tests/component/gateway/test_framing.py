"""Framing of requests: chunk extensions and trailers are bounded and ignored, and ambiguous framing is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from commands import fairlead
from fairlead_app.authentication import build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.endpoint.client_limits import MAX_FIELDS, MAX_PIPELINED, ClientLimits
from fuzzinbound import chunk_body
from gatewayworld import Answer, Ask, Wire, ask, calling, catalog, running, wait_for_requests
from rawserver import Reply, Request, raw_server
from toolservers import modern_server, tool
from waiting import eventually

NOWHERE = "http://127.0.0.1:9/mcp"
CALL = calling("demo__add")
REST_CALL = Ask(
    {
        "format": "anthropic",
        "message": {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "demo__add", "input": {}}],
        },
    },
    {"content-type": "application/json"},
    target="/v1/tool-calls",
)

pytestmark = pytest.mark.both_loops
PLANES = pytest.mark.parametrize("request_", [CALL, REST_CALL], ids=["mcp", "rest"])
MANY = 4 * ClientLimits().head


@contextlib.asynccontextmanager
async def serve_gateway(folder: Path, **settings: Any) -> AsyncIterator[Gateway]:
    """A gateway with a server that answers."""
    async with (
        modern_server([tool("add")]) as server,
        running(folder, catalog("demo", server.url, ["add"]), **settings) as gateway,
    ):
        yield gateway


async def send_in_chunks(
    gateway: Gateway, request: Ask, *, sizes: list[int], extension: bytes = b"", trailer: bytes
) -> Answer:
    """The answer to a request whose body comes in chunks."""
    async with await Wire.connect(gateway) as wire:
        body = json.dumps(request.message).encode() if request.body is None else request.body
        wire.write(request.chunked_head(wire.host) + chunk_body(body, sizes, extension, trailer))
        return await wire.answer()


@PLANES
@pytest.mark.parametrize(
    ("endless", "end"),
    [
        (b"0\r\n" + b"a:b\r\n" * (MANY // 5), b"\r\n"),
        (b"0\r\nx: " + b"y" * MANY, b"\r\n\r\n"),
        (b"0\r\n" + b"Accept:a\r\n" * (MANY // 10), b"\r\n"),
        (b"1;x=" + b"y" * MANY, b"\r\n \r\n0\r\n\r\n"),
        (b'1;x="' + b"y" * MANY, b'"\r\n \r\n0\r\n\r\n'),
        (b"0" * MANY, b"1\r\n \r\n0\r\n\r\n"),
        ((b"1;x=" + b"y" * 1_000 + b"\r\n \r\n") * (MANY // 1_000), b"0\r\n\r\n"),
        ((b"1;x=" + b"y" * 60 + b"\r\n \r\n") * (MANY // 30), b"0\r\n\r\n"),
    ],
    ids=["trailers", "a trailer", "of one name", "extension", "quoted", "zeros", "extensions", "short extensions"],
)
async def test_chunk_extensions_and_trailers_are_bounded(
    tmp_path: Path, request_: Ask, endless: bytes, end: bytes
) -> None:
    async with running(tmp_path, catalog("demo", NOWHERE, ["add"])) as gateway, await Wire.connect(gateway) as wire:
        wire.write(request_.chunked_head(wire.host) + b"1\r\n \r\n" + endless + end)
        answer = await wire.answer()
        assert (answer.status, answer.headers.get("connection")) == (431, "close")
        assert await wire.read_to_end() == b""
        await eventually(lambda: not gateway._listener.connections)


@PLANES
async def test_a_body_in_the_smallest_chunks_is_taken_with_extensions_and_trailers(
    tmp_path: Path, request_: Ask
) -> None:
    """The framing around the body's bytes is much larger than the limit of a body."""
    body = json.dumps(request_.message).encode() + b" " * (ClientLimits().head // 2)
    large = Ask(None, request_.headers, body, target=request_.target)
    async with serve_gateway(tmp_path) as gateway:
        answer = await send_in_chunks(
            gateway, large, sizes=[1] * ClientLimits().head, extension=b";a=b", trailer=b"x: y\r\n" * 99
        )
        assert answer.status == 200


@PLANES
async def test_an_answer_in_progress_is_given_before_the_rest_is_refused(tmp_path: Path, request_: Ask) -> None:
    async with serve_gateway(tmp_path) as gateway, await Wire.connect(gateway) as wire:
        wire.send(CALL)
        wire.write(request_.chunked_head(wire.host) + b"1\r\n{\r\n0\r\n" + b"a:b\r\n" * (MANY // 5))
        assert [(await wire.answer()).status for _ in range(2)] == [200, 431]
        assert await wire.read_to_end() == b""


@PLANES
async def test_a_credential_in_a_trailer_lets_nobody_in(tmp_path: Path, request_: Ask) -> None:
    file = tmp_path / "keys.json"
    _, key, _ = await fairlead("keys", "create", "npc", "--file", str(file))
    field = f"authorization: Bearer {key.strip()}\r\n".encode()
    async with serve_gateway(tmp_path, trust=build_trust(Settings.of(api_keys=file))) as gateway:
        in_head = request_.with_headers(authorization=f"Bearer {key.strip()}")
        assert (await ask(gateway, in_head)).status == 200
        assert (await send_in_chunks(gateway, request_, sizes=[], trailer=field)).status == 401


@PLANES
async def test_an_address_in_a_trailer_is_nobodys(tmp_path: Path, request_: Ask) -> None:
    """An agent that has used up its calls gets no further calls by sending another address in a trailer."""
    log = tmp_path / "audit.log"
    more: dict[str, Any] = {"agent_calls_per_minute": 1, "trusted_proxies": ("127.0.0.1",), "audit_file": log}
    behind_proxy = request_.with_headers(x_forwarded_for="192.0.2.1")
    async with serve_gateway(tmp_path, **more) as gateway:
        trailers = [b"x-forwarded-for: 192.0.2.%d\r\n" % number for number in (66, 67)]
        answers = [await send_in_chunks(gateway, behind_proxy, sizes=[], trailer=trailer) for trailer in trailers]
        assert [b"RATE_LIMITED" in answer.body for answer in answers] == [False, True]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["client"] for line in lines} == {"192.0.2.1"}


@PLANES
@pytest.mark.parametrize(
    ("line", "fields", "status"),
    [
        ("POST {target} HTTP/1.1", "host: localhost\r\n", 200),
        ("POST {target} HTTP/2.0", "host: localhost\r\n", 505),
        ("POST {target} HTTP/0.9", "host: localhost\r\n", 505),
        ("POST {target} HTTP/1.1", "", 400),
        ("POST {target} HTTP/1.1", "host: localhost\r\nhost: localhost\r\n", 400),
        ("POST http://localhost{target} HTTP/1.1", "host: localhost\r\n", 200),
        ("POST http://localhost{target} HTTP/1.1", "host: evil.example\r\n", 200),
        ("POST http://localhost:80{target} HTTP/1.1", "host: localhost\r\n", 200),
        ("POST http://evil.example{target} HTTP/1.1", "host: localhost\r\n", (403, 421)),
        ("POST HTTPS://evil.example{target} HTTP/1.1", "host: localhost\r\n", (403, 421)),
        ("POST http://localhost@evil.example{target} HTTP/1.1", "host: localhost\r\n", (403, 421)),
        ("POST http://evil.example\\@localhost{target} HTTP/1.1", "host: localhost\r\n", (400, 403, 421)),
        ("POST http://{target} HTTP/1.1", "host: localhost\r\n", (400, 403, 421)),
        ("POST ftp://localhost{target} HTTP/1.1", "host: localhost\r\n", 400),
    ],
)
async def test_mcp_and_rest_judge_the_head_of_a_request_alike(
    tmp_path: Path, request_: Ask, line: str, fields: str, status: int | tuple[int, ...]
) -> None:
    async with serve_gateway(tmp_path) as gateway:
        body = json.dumps(request_.message)
        headers = {**request_.headers, "content-length": str(len(body))}
        head = fields + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        async with await Wire.connect(gateway) as wire:
            wire.write(f"{line.format(target=request_.target)}\r\n{head}\r\n{body}".encode())
            assert (await wire.answer()).status in (status if isinstance(status, tuple) else (status,))


@PLANES
@pytest.mark.parametrize(
    ("version", "coding", "status"),
    [
        ("1.1", "transfer-encoding: chunked", 200),
        ("1.1", "transfer-encoding: Chunked", 200),
        ("1.1", "transfer-encoding: gzip, chunked", 501),
        ("1.1", "transfer-encoding: gzip\r\ntransfer-encoding: chunked", 501),
        ("1.1", "transfer-encoding: identity, chunked", 501),
        ("1.1", "transfer-encoding: chunked, chunked", 400),
        ("1.1", "transfer-encoding: chunked, gzip", 400),
        ("1.1", "transfer-encoding: gzip", 400),
        ("1.0", "transfer-encoding: chunked", 400),
    ],
)
async def test_a_coding_that_is_not_undone_is_refused(
    tmp_path: Path, request_: Ask, version: str, coding: str, status: int
) -> None:
    async with serve_gateway(tmp_path) as gateway, await Wire.connect(gateway) as wire:
        head = Ask(None, request_.headers, target=request_.target, version=version).chunked_head(wire.host)
        head = head.replace(b"transfer-encoding: chunked", coding.encode())
        wire.write(head + chunk_body(json.dumps(request_.message).encode(), [], b"", b""))
        assert (await wire.answer()).status == status


@pytest.mark.parametrize("target", ["/mcp", "/healthz"])
async def test_requests_that_wait_on_one_connection_are_counted(tmp_path: Path, target: str) -> None:
    """Requests before the limit are answered, then the connection is closed."""
    answered = asyncio.Event()

    async def handle(request: Request, reply: Reply) -> None:
        await answered.wait()
        reply.result(request, {"content": [], "resultType": "complete"})

    request = f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["add"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.write(CALL.data(wire.host) + request * (2 * MAX_PIPELINED))
        await wait_for_requests(server, 1)
        (connection,) = gateway._listener.connections
        assert len(connection.pipeline) == MAX_PIPELINED
        answered.set()
        answers = (await wire.read_to_end()).split(b"HTTP/1.1 ")[1:]
    assert len(answers) == 1 + MAX_PIPELINED + 1
    assert answers[-1].startswith(b"503 ")


@PLANES
@pytest.mark.parametrize(("more", "status"), [(-20, 200), (1, 431)])
async def test_header_fields_are_counted(tmp_path: Path, request_: Ask, more: int, status: int) -> None:
    async with serve_gateway(tmp_path) as gateway:
        many = request_.with_headers(**{f"x_{number}": "y" for number in range(MAX_FIELDS + more)})
        assert (await ask(gateway, many)).status == status


async def test_a_request_in_two_packets_leaves_its_credentials_to_none_that_follow(tmp_path: Path) -> None:
    """A proxy may send the requests of many clients on one connection."""
    file = tmp_path / "keys.json"
    _, key, _ = await fairlead("keys", "create", "npc", "--file", str(file))
    async with (
        serve_gateway(tmp_path, trust=build_trust(Settings.of(api_keys=file))) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        head, end, body = (
            CALL.with_headers(authorization=f"Bearer {key.strip()}").data(wire.host).partition(b"\r\n\r\n")
        )
        wire.write(head + end)
        await eventually(lambda: any(each.reader.in_message for each in gateway._listener.connections))
        wire.write(body)
        assert (await wire.answer()).status == 200
        assert [(await wire.ask(REST_CALL)).status for _ in range(3)] == [401, 401, 401]
