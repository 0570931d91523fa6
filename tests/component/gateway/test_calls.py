"""Tool calls in all combinations of eras: calls and results pass unchanged."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from pathlib import Path

import pytest

from fairlead_mcp.eras import text_of_header
from gatewayworld import LEGACY, MODERN, Wire, ask, calling, catalog, legacy, running
from ports import free_port
from rawserver import Reply, Request, raw_server
from toolservers import answer_handshake, legacy_server, modern_server, sdk_server

ERAS = (MODERN, LEGACY)


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_arguments_and_results_pass_byte_for_byte(tmp_path: Path, client: str, server_era: str) -> None:
    sent = b'{"x": [1.0, 1e2 , {"k":null,"k":1}], "\\u00e9":"\\ud83d\\ude00", "big":12345678901234567890}'
    shown = b'{"content":[],"structuredContent":{ "n":1.50,"x":[ ]},"isError":false,"z-unknown":{"b":1,"a":2}}'

    async def handle(request: Request, reply: Reply) -> None:
        if answer_handshake(request, reply):
            return None
        ident = json.dumps(request.message["id"]).encode()
        return reply.send(200, b'{"result":%b, "id":%b,"jsonrpc":"2.0"}' % (shown, ident))

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=server_era)) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        data = calling("demo__x", {"HERE": 1}, era=client, number="my id").with_headers(content_length=None)
        head, _, body = data.data(wire.host).partition(b"\r\n\r\n")
        body = body.replace(b'{"HERE": 1}', sent)
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length")]
        wire.write(b"\r\n".join([*lines, b"content-length: %d" % len(body), b"", body]))
        answer = await wire.answer()
    assert b'"arguments":' + sent in server.seen[-1].body
    assert shown[:-1] in answer.body
    assert answer.message["id"] == "my id"


@pytest.mark.parametrize("name", ["päth/tool name", "=?base64?eA==?=", " x "])
async def test_a_tool_name_beyond_ascii_reaches_a_modern_server_encoded(tmp_path: Path, name: str) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.result(request, {"content": [], "resultType": "complete"})

    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, [name])) as gateway:
        request = legacy("tools/call", {"name": f"demo__{name}", "arguments": {}})
        assert (await ask(gateway, request)).message["result"]["content"] == []
        header = server.seen[-1].headers["mcp-name"]
    assert text_of_header(header.encode()) == name
    assert header.isascii()
    assert header != name


async def test_a_result_of_two_megabytes_arrives(tmp_path: Path) -> None:
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, ["big"])) as gateway:
        answer = await ask(gateway, calling("demo__big", {"n": 2_000_000}))
        assert len(answer.message["result"]["content"][0]["text"]) == 2_000_000


async def test_a_tools_own_error_passes_and_is_not_a_refusal(tmp_path: Path) -> None:
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, ["fail"])) as gateway:
        result = (await ask(gateway, calling("demo__fail"))).message["result"]
        assert result["isError"] is True
        assert "fail" in result["content"][0]["text"]
        assert "fairlead.dev/error" not in result["_meta"]


@pytest.mark.parametrize("lost_status", [404, 400])
@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}], ids=["plain", "with progress"])
async def test_a_lost_session_is_opened_again_and_the_call_repeated_once(
    tmp_path: Path, lost_status: int, more: dict[str, str]
) -> None:
    async with (
        legacy_server(lost_status=lost_status) as server,
        running(tmp_path, catalog("demo", server.url, ["x", "forget"], version=LEGACY)) as gateway,
    ):
        for tool, opened in (("x", 1), ("forget", 1), ("x", 2), ("x", 2)):
            answer = await ask(gateway, calling(f"demo__{tool}", {}, **more))
            assert answer.message["result"]["isError"] is False
            assert server.methods().count("initialize") == opened
    ids = [request.message["id"] for request in server.seen if "id" in request.message]
    assert len(ids) == len(set(ids))


async def test_calls_share_a_session_that_is_opened_once(tmp_path: Path) -> None:
    async with (
        legacy_server(stream=True) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        answers = await asyncio.gather(*(ask(gateway, calling("demo__x", {"n": n})) for n in range(20)))
    numbers = sorted(json.loads(answer.message["result"]["content"][0]["text"])["n"] for answer in answers)
    assert numbers == list(range(20))
    assert server.methods().count("initialize") == 1


async def test_a_server_without_sessions_is_called_all_the_same(tmp_path: Path) -> None:
    async with (
        legacy_server(sessions=False) as server,
        running(tmp_path, catalog("demo", server.url, ["x"], version=LEGACY)) as gateway,
    ):
        assert (await ask(gateway, calling("demo__x"))).message["result"]["isError"] is False


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_progress_arrives_as_events_under_the_clients_token(tmp_path: Path, client: str, server_era: str) -> None:
    async with (
        sdk_server() as url,
        running(tmp_path, catalog("demo", url, ["progress"], version=server_era)) as gateway,
    ):
        request = calling("demo__progress", {"steps": 3}, era=client, number=9)
        request.message["params"].setdefault("_meta", {})["progressToken"] = "tok"
        answer = await ask(gateway, request)
    assert answer.headers["content-type"] == "text/event-stream"
    *steps, last = answer.events
    assert [(s["params"]["progress"], s["params"]["progressToken"]) for s in steps] == [(n, "tok") for n in (1, 2, 3)]
    assert (last["id"], last["result"]["isError"]) == (9, False)


async def test_without_a_token_the_answer_is_json(tmp_path: Path) -> None:
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, ["progress"])) as gateway:
        answer = await ask(gateway, calling("demo__progress", {"steps": 3}))
    assert answer.headers["content-type"] == "application/json"


async def test_progress_for_a_client_of_http_1_0_is_left_out(tmp_path: Path) -> None:
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, ["progress"])) as gateway:
        request = calling("demo__progress", {"steps": 2}, progressToken=1)
        answer = await ask(gateway, type(request)(request.message, request.headers, version="1.0"))
    assert answer.message["result"]["isError"] is False


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_calls_spread_over_the_addresses_of_a_server_each_with_a_session_of_its_own(
    tmp_path: Path, era: str
) -> None:
    together = asyncio.Barrier(2)

    async def handle(request: Request, reply: Reply) -> None:
        if answer_handshake(request, reply, mcp_session_id="s"):
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                await together.wait()
        return reply.result(request, {"content": [], "resultType": "complete"})

    async with raw_server(handle) as first, raw_server(handle) as second:
        turn = itertools.cycle([[first, second], [second, first]])  # in the order of DNS

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            assert host == "demo.tools.svc"
            return [("127.0.0.1", server.port) for server in next(turn)]

        demo = catalog("demo", "http://demo.tools.svc:8080/mcp", ["x"], version=era)
        async with running(tmp_path, demo, resolve=resolve) as gateway:
            for _ in range(12):
                await asyncio.gather(*(ask(gateway, calling("demo__x")) for _ in range(4)))
        called = [server for server in (first, second) if "tools/call" in server.methods()]
    assert len(called) == 2
    assert all(("initialize" in server.methods()) == (era == LEGACY) for server in called)
    assert {request.headers["host"] for server in called for request in server.seen} == {"demo.tools.svc:8080"}


async def test_an_address_that_is_dead_is_passed_over(tmp_path: Path) -> None:
    async with modern_server() as server:
        dead = free_port()

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", dead), ("127.0.0.1", server.port)]

        async with running(tmp_path, catalog("demo", "http://demo/mcp", ["x"]), resolve=resolve) as gateway:
            for _ in range(6):
                assert (await ask(gateway, calling("demo__x"))).message["result"]["isError"] is False
