"""Servers that are broken, slow, dead or careless: codes of refusals, and no effect on other servers."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead_api.documents.catalog import CredentialRef, DeclaredLatency
from gatewayworld import (
    LEGACY,
    MODERN,
    Ask,
    Wire,
    ask,
    calling,
    catalog,
    entry,
    limits,
    modern,
    publish,
    running,
    wait_for_requests,
    wait_for_snapshots,
)
from ports import free_port
from rawserver import Reply, Request, raw_server
from toolservers import BROKEN, answer_handshake, answer_modern, broken_server, modern_server, sdk_server, tool
from waiting import until_async

ERAS = (MODERN, LEGACY)
REFUSALS = {
    "500": "UPSTREAM_ERROR",
    "503": "UPSTREAM_ERROR",
    "401": "UPSTREAM_ERROR",
    "403": "UPSTREAM_ERROR",
    "404": "UPSTREAM_ERROR",
    "421": "UPSTREAM_ERROR",
    "redirect": "UPSTREAM_ERROR",
    "html": "UPSTREAM_ERROR",
    "text": "UPSTREAM_ERROR",
    "json": "UPSTREAM_ERROR",
    "empty": "UPSTREAM_ERROR",
    "half json": "UPSTREAM_ERROR",
    "never": "TIMEOUT",
    "cut off": "CONNECTION_LOST",
    "hang up": "CONNECTION_LOST",
    "endless headers": "RESULT_TOO_LARGE",
    "huge": "RESULT_TOO_LARGE",
    "wrong id": "UPSTREAM_ERROR",
    "not http": "UPSTREAM_ERROR",
}


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("how", sorted(REFUSALS))
async def test_a_broken_server_is_an_error_result_with_its_code(tmp_path: Path, how: str, client: str) -> None:
    async with broken_server(how) as server:
        demo = catalog("demo", server.url, ["x"], limits=limits(timeout_ms=300))
        async with running(tmp_path, demo) as gateway:
            answer = await ask(gateway, calling("demo__x", era=client))
            assert (answer.status, answer.refusal) == (200, REFUSALS[how])
            result = answer.message["result"]
            assert result["content"][0]["text"]
            assert ("resultType" in result) is (client == MODERN)
    assert set(REFUSALS) < set(BROKEN)


@pytest.mark.parametrize("client", ERAS)
async def test_a_server_that_is_not_there_is_connection_lost(tmp_path: Path, client: str) -> None:
    async with running(tmp_path, catalog("demo", f"http://127.0.0.1:{free_port()}/mcp", ["x"])) as gateway:
        assert (await ask(gateway, calling("demo__x", era=client))).refusal == "CONNECTION_LOST"


async def test_a_server_known_to_be_offline_is_listed_and_not_called(tmp_path: Path) -> None:
    async with modern_server() as server:
        async with running(tmp_path, catalog("demo", server.url, ["x"], online=False)) as gateway:
            assert (await ask(gateway, calling("demo__x"))).refusal == "CONNECTION_LOST"
            assert len((await ask(gateway, modern("tools/list"))).message["result"]["tools"]) == 1
        assert server.seen == []


async def test_a_server_said_to_be_offline_is_called_as_long_as_it_answers(tmp_path: Path) -> None:
    async with modern_server() as server:
        demo = catalog("demo", server.url, ["x"])
        async with running(tmp_path, demo) as gateway:
            assert (await ask(gateway, calling("demo__x"))).message["result"]["isError"] is False
            publish(tmp_path / "documents", msgspec.structs.replace(demo, online=False))
            await wait_for_snapshots(gateway, 2)
            assert (await ask(gateway, calling("demo__x"))).message["result"]["isError"] is False
            server.refuse()
            for _ in range(2):
                assert (await ask(gateway, calling("demo__x"))).refusal == "CONNECTION_LOST"
            assert "is offline" in (await ask(gateway, calling("demo__x"))).body.decode()


@pytest.mark.parametrize("more", [{}, {"progressToken": "p"}], ids=["plain", "with progress"])
async def test_the_shortest_of_the_declared_limits_ends_a_call(tmp_path: Path, more: dict[str, Any]) -> None:
    slow = entry("slow", latency=DeclaredLatency(max_duration_ms=150))
    async with broken_server("never") as server:
        demo = catalog("demo", server.url, [slow], limits=limits(timeout_ms=5000))
        async with running(tmp_path, demo, call_timeout=10.0) as gateway:
            began = asyncio.get_running_loop().time()
            assert (await ask(gateway, calling("demo__slow", {}, **more))).refusal == "TIMEOUT"
            assert asyncio.get_running_loop().time() - began < 5.0, "the next shortest"


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize("progress", [False, True], ids=["plain", "with progress"])
@pytest.mark.parametrize("json_response", [True, False], ids=["json", "stream"])
async def test_a_result_beyond_the_bound_is_refused_and_the_next_call_works(
    tmp_path: Path, client: str, server_era: str, progress: bool, json_response: bool
) -> None:
    def big(n: int) -> Ask:
        request = calling("demo__big", {"n": n}, era=client)
        if progress:
            request.message["params"].setdefault("_meta", {})["progressToken"] = "p"
        return request

    async with sdk_server(json_response=json_response) as url:
        demo = catalog("demo", url, ["big"], version=server_era, limits=limits(max_result_bytes=10_000))
        async with running(tmp_path, demo) as gateway:
            assert (await ask(gateway, big(20_000))).refusal == "RESULT_TOO_LARGE"
            small = await ask(gateway, big(100))
            assert small.message["result"]["isError"] is False


async def test_required_capabilities_are_told_to_a_modern_client_and_refused_to_a_legacy_one(tmp_path: Path) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        reply.error(request, 400, -32021, "needs elicitation", {"requiredCapabilities": {"elicitation": {}}})

    async with raw_server(handle) as server, running(tmp_path, catalog("demo", server.url, ["x"])) as gateway:
        told = await ask(gateway, calling("demo__x"))
        assert (told.status, told.code) == (400, -32021)
        assert told.message["error"]["data"] == {"requiredCapabilities": {"elicitation": {}}}
        refused = await ask(gateway, calling("demo__x", era=LEGACY))
        assert refused.refusal == "MISSING_CLIENT_CAPABILITY"
        (content,) = refused.message["result"]["content"]
        assert "this client has not declared (elicitation): needs elicitation" in content["text"]


async def test_answers_reach_their_own_clients_under_interleaving(tmp_path: Path) -> None:
    chance = random.Random(1)

    async def handle(request: Request, reply: Reply) -> None:
        if answer_handshake(request, reply, mcp_session_id="s"):
            return None
        await asyncio.sleep(chance.random() * 0.01)  # in any order
        result = {"content": [{"type": "text", "text": request.params["arguments"]["say"]}]}
        if chance.random() < 0.1:
            reply.result(request, result)
        if chance.random() < 0.1:
            reply.close()
        return reply.result(request, result)

    async def client(number: int) -> None:
        era = ERAS[number % 2]
        async with await Wire.connect(gateway) as wire:
            for turn in range(40):
                say = f"{number}/{turn}"
                answer = await wire.ask(calling("demo__x", {"say": say}, era=era, number=1))
                result = answer.message["result"]
                told.append(result["content"][0]["text"] == say)
                if not told[-1]:
                    # a server that answers twice loses that connection, and the call on it fails
                    assert result["_meta"]["fairlead.dev/error"]["code"] in ("CONNECTION_LOST", "UPSTREAM_ERROR")

    for version in ERAS:
        told: list[bool] = []
        async with raw_server(handle) as server:
            demo = catalog("demo", server.url, ["x"], version=version)
            async with running(tmp_path, demo, upstream_connections=8) as gateway:
                await asyncio.gather(*(client(number) for number in range(24)))
        assert len(told) == 24 * 40
        assert sum(told) > 24 * 40 * 0.7


async def test_a_dead_and_a_slow_server_delay_nobody_else(tmp_path: Path) -> None:
    async with broken_server("never") as slow, modern_server() as good:
        documents = [
            catalog("slow", slow.url, ["x"], limits=limits(concurrency=2)),
            catalog("dead", f"http://127.0.0.1:{free_port()}/mcp", ["x"]),
            catalog("good", good.url, ["x"]),
        ]
        async with running(tmp_path, *documents) as gateway:
            stuck = [await Wire.connect(gateway) for _ in range(10)]
            for wire in stuck:
                wire.send(calling("slow__x"))
            await wait_for_requests(slow, 2)
            for _ in range(20):
                assert (await ask(gateway, calling("good__x"))).message["result"]["isError"] is False
                assert (await ask(gateway, calling("dead__x"))).refusal in ("CONNECTION_LOST", "BREAKER_OPEN")
                assert (await ask(gateway, modern("tools/list"))).status == 200
            assert len(slow.seen) == 2, "that one is stuck to the end, and nobody had to wait for it"
            for wire in stuck:
                wire.close()


async def test_credentials_go_with_each_request_and_into_no_answer(tmp_path: Path) -> None:
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "s.json").write_text('{"headers":{"Authorization":"Bearer hush"}}')
    async with modern_server() as server:
        ref = CredentialRef(secret="s", key="k", hash="1")
        async with running(tmp_path, catalog("demo", server.url, ["x"], credential=ref)) as gateway:
            answer = await ask(gateway, calling("demo__x").with_headers(authorization="Bearer of-the-client"))
        assert server.seen[-1].headers["authorization"] == "Bearer hush"
        assert b"hush" not in answer.body


async def test_without_its_credential_a_server_is_not_called_until_it_is_there(tmp_path: Path) -> None:
    async with modern_server() as server:
        ref = CredentialRef(secret="s", key="k", hash="1")
        async with running(tmp_path, catalog("demo", server.url, ["x"], credential=ref)) as gateway:
            assert (await ask(gateway, calling("demo__x"))).refusal == "CONNECTION_LOST"
            assert server.seen == []
            (tmp_path / "credentials").mkdir()
            (tmp_path / "credentials" / "s.json").write_text('{"headers":{"X-Key":"hush"}}')
            gateway.snapshots._dirty.set()

            async def answers() -> bool:
                return not (await ask(gateway, calling("demo__x"))).message["result"]["isError"]

            await until_async("a call with the credential", answers)
        assert server.seen[-1].headers["x-key"] == "hush"


@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("how", ["with a length", "in chunks", "as an event"])
async def test_a_call_whose_result_has_a_million_values_fails_alone(tmp_path: Path, how: str, client: str) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if request.method != "tools/call":
            answer_modern(request, reply, [tool("many"), tool("few")])
            return
        rows = b"{}," * (1_000_001 if request.params["name"] == "many" else 10)
        ident = msgspec.json.encode(request.message["id"])
        result = b'{"resultType":"complete","content":[],"structuredContent":{"rows":[%b{}]}}' % rows
        body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (ident, result)
        if how == "with a length":
            reply.send(200, body)
            return
        kind = b"application/json" if how == "in chunks" else b"text/event-stream"
        reply.raw(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-type: %b\r\n\r\n" % kind)
        reply.chunk(body if how == "in chunks" else b"data: %b\n\n" % body)
        reply.raw(b"0\r\n\r\n")

    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["many", "few"])) as gateway,
    ):
        refused = await ask(gateway, calling("demo__many", era=client))
        assert refused.refusal == "UPSTREAM_ERROR"
        assert "the result has more than 1,000,000 values" in refused.message["result"]["content"][0]["text"]
        answer = await ask(gateway, calling("demo__few", era=client))
        assert answer.message["result"]["structuredContent"] == {"rows": [{}] * 11}
