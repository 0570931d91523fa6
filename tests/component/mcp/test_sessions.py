"""Sessions over HTTP: real servers of both eras, and broken ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from fairlead_mcp.eras import Era
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, RpcError, Timeout
from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession, http_pool
from ports import free_port
from toolservers import (
    SDK_TOOLS,
    Reply,
    Request,
    answer_modern,
    broken_server,
    legacy_server,
    modern_server,
    raw_server,
    sdk_server,
    tool,
)
from waiting import eventually


def session_of(url: str, **options: Any) -> McpSession:
    return McpSession.over_http(Target.from_url(url), **options)


def text_of(result: Raw) -> str:
    return str(json.loads(bytes(result))["content"][0]["text"])


def names(items: list[Raw]) -> list[str]:
    return [json.loads(bytes(item))["name"] for item in items]


@pytest.mark.parametrize("json_response", [False, True])
async def test_the_sdk_server_is_modern_and_serves_all_its_tools(json_response: bool) -> None:
    async with sdk_server(json_response=json_response) as url, session_of(url) as session:
        assert (session.era, session.protocol_version) == (Era.MODERN, "2026-07-28")
        assert json.loads(bytes(session.server_info)) == {"name": "demo", "version": "1.2.3"}
        assert session.instructions == "demo server"
        assert session.offers("tools")
        assert sorted(names(await session.list_all("tools/list"))) == list(SDK_TOOLS)
        assert text_of(await session.call_tool("add", {"a": 2, "b": 3})) == "5"
        assert text_of(await session.call_tool("progress", {"steps": 3})) == "done"
        assert len(text_of(await session.call_tool("big", {"n": 2_000_000}))) == 2_000_000
        assert json.loads(bytes(await session.call_tool("fail")))["isError"] is True


async def test_a_legacy_server_is_negotiated_with_and_its_session_ended() -> None:
    async with legacy_server([tool("one")]) as server:
        async with session_of(server.url) as session:
            assert (session.era, session.protocol_version) == (Era.LEGACY, "2025-11-25")
            assert names(await session.list_all("tools/list")) == ["one"]
        assert server.methods()[:4] == ["server/discover", "initialize", "notifications/initialized", "tools/list"]
        assert server.seen[-1].verb == "DELETE"
        assert {request.headers.get("mcp-session-id") for request in server.seen[2:]} == {"session-1"}
        assert {request.headers.get("mcp-protocol-version") for request in server.seen[2:]} == {"2025-11-25"}


async def test_a_legacy_server_without_sessions_gets_no_delete() -> None:
    async with legacy_server([tool("one")], sessions=False) as server:
        async with session_of(server.url) as session:
            await session.list_all("tools/list")
        assert "DELETE" not in [request.verb for request in server.seen]


async def test_a_stream_is_read_past_priming_events_notifications_and_requests_of_the_server() -> None:
    heard: list[object] = []
    async with (
        legacy_server([tool("one")], stream=True) as server,
        session_of(server.url, on_notification=lambda message: heard.append(message.method)) as session,
    ):
        assert names(await session.list_all("tools/list")) == ["one"]
        await eventually(lambda: any(request.message.get("id") == "s1" for request in server.seen))
        assert heard == ["notifications/message"]


@pytest.mark.parametrize("status", [404, 400])
async def test_a_lost_session_is_initialized_again_and_the_request_repeated_once(status: int) -> None:
    async with legacy_server([tool("one")], lost_status=status) as server, session_of(server.url) as session:
        await session.call_tool("forget")
        assert text_of(await session.call_tool("one", {"x": 1})) == '{"x":1}'
        assert server.methods().count("initialize") == 2


async def test_a_session_lost_again_and_again_is_an_error() -> None:
    async def forgetful(request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            result = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {}}
            return reply.result(request, result, mcp_session_id="s")
        if "id" not in request.message:
            return reply.send(202)
        return reply.error(request, 404, -32600, "Session not found")

    async with raw_server(forgetful) as server, session_of(server.url) as session:
        with pytest.raises(RpcError, match="Session not found"):
            await session.list_all("tools/list")
        assert server.methods().count("initialize") == 2


async def test_many_requests_that_lose_one_session_negotiate_once() -> None:
    async with legacy_server([tool("one")]) as server, session_of(server.url) as session:
        await session.call_tool("forget")
        await asyncio.gather(*(session.call_tool("one") for _ in range(4)))
        assert server.methods().count("initialize") == 2


@pytest.mark.parametrize(("supported", "era"), [(["2026-07-28"], Era.MODERN), (["2025-11-25"], Era.LEGACY)])
async def test_a_server_that_refuses_a_version_and_names_the_same_is_asked_again(
    supported: list[str], era: Era
) -> None:
    refused: list[str] = []

    async def refuse(request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            return reply.result(request, result)
        if "id" not in request.message:
            return reply.send(202)
        if not refused:
            refused.append(request.method)
            return reply.error(request, 400, -32022, "Unsupported", {"supported": supported, "requested": "x"})
        return answer_modern(request, reply, [tool("x")])

    async with raw_server(refuse) as server, session_of(server.url) as session:
        assert session.era is era


async def test_a_server_replaced_by_one_of_the_other_era_is_negotiated_with_again() -> None:
    modern = True

    async def change_era(request: Request, reply: Reply) -> None:
        if modern:
            return answer_modern(request, reply, [tool("new")])
        if request.method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            return reply.result(request, result)
        if "id" not in request.message:
            return reply.send(202)
        if "mcp-method" in request.headers:
            return reply.error(request, 400, -32000, "Bad Request: Server not initialized")
        return reply.result(request, {"tools": [tool("old")]})

    async with raw_server(change_era) as server, session_of(server.url) as session:
        assert names(await session.list_all("tools/list")) == ["new"]
        modern = False
        assert names(await session.list_all("tools/list")) == ["old"]
        assert session.era is Era.LEGACY


async def test_all_pages_are_read_and_definitions_are_byte_for_byte() -> None:
    tools = [tool(f"t{n}", description="é", annotations={"readOnlyHint": True}) for n in range(7)]
    async with modern_server(tools, page_size=2) as server, session_of(server.url) as session:
        items = await session.list_all("tools/list")
        assert [bytes(item) for item in items] == [json.dumps(item, separators=(",", ":")).encode() for item in tools]
        assert server.methods().count("tools/list") == 4


async def test_a_modern_call_names_its_tool_in_a_header_also_when_that_is_not_ascii() -> None:
    async with modern_server([tool("zähle")]) as server, session_of(server.url) as session:
        with pytest.raises(RpcError):  # the test server compares the header without decoding it
            await session.call_tool("zähle")
        assert server.seen[-1].headers["mcp-name"] == "=?base64?esOkaGxl?="


async def test_an_error_of_the_server_keeps_code_message_and_data() -> None:
    async with modern_server() as server, session_of(server.url) as session:
        with pytest.raises(RpcError) as caught:
            await session.list_all("prompts/list")
        assert (caught.value.code, caught.value.status, caught.value.message) == (-32601, 404, "Method not found")


REASONS = {
    "500": "ServerError",
    "503": "ServerError",
    "401": "Unauthorized",
    "403": "Forbidden",
    "404": "NotFound",
    "421": "MisdirectedRequest",
    "redirect": "Redirected",
    "html": "HTMLInsteadOfMCP",
    "text": "BadJSON",
    "json": "NotMCP",
    "empty": "EmptyAnswer",
    "half json": "TruncatedJSON",
    "never": "Timeout",
    "cut off": "ClosedMidAnswer",
    "hang up": "ConnectionLost",
    "endless headers": "HeadersTooLarge",
    "huge": "AnswerTooLarge",
    "wrong id": "WrongAnswerID",
    "not http": "BadHTTP",
}


@pytest.mark.parametrize("how", REASONS)
async def test_every_way_to_be_broken_has_its_reason_and_a_sentence(how: str) -> None:
    async with broken_server(how) as server:
        session = session_of(server.url)
        with pytest.raises(McpError) as caught:
            await list_tools(session, 0.5 if how == "never" else 20)
        assert caught.value.reason == REASONS[how]
        assert len(str(caught.value).split()) > 3
        assert "secret" not in str(caught.value)
        await session.aclose()


async def list_tools(session: McpSession, seconds: float = 20) -> list[Raw]:
    await session.connect(timeout=seconds)
    return await session.list_all("tools/list", timeout=seconds)


@pytest.mark.parametrize("how", ["close after", "twice"])
async def test_a_server_that_handles_its_connections_badly_is_read_all_the_same(how: str) -> None:
    async with broken_server(how) as server:
        session = session_of(server.url)
        for _ in range(5):
            assert len(await list_tools(session)) == 1
        await session.aclose()


async def test_a_redirect_is_told_with_its_whole_address_and_nothing_secret() -> None:
    async with broken_server("redirect") as server:
        session = session_of(server.url)
        with pytest.raises(McpError, match=r"redirects to http://elsewhere\.example:81/login \(307\)"):
            await session.connect()
        await session.aclose()
        assert len(server.seen) == 2  # the probe and the handshake; no redirect is followed


async def test_a_transport_error_does_not_decide_the_era() -> None:
    async with broken_server("hang up") as server:
        session = session_of(server.url)
        with pytest.raises(ConnectionLost):
            await session.connect()
        assert server.methods() == ["server/discover"]
        await session.aclose()


async def test_a_refused_connection_says_where() -> None:
    port = free_port()
    session = session_of(f"http://127.0.0.1:{port}/mcp")
    with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port} refused"):
        await session.connect()
    await session.aclose()


async def test_a_foreign_host_name_is_refused_by_the_sdk_and_helped_by_a_host_header() -> None:
    async with sdk_server(allowed_hosts=["tools.local"]) as url:
        session = session_of(url)
        with pytest.raises(McpError) as caught:
            await session.connect()
        assert caught.value.reason == "MisdirectedRequest"
        await session.aclose()
        async with McpSession.over_http(Target.from_url(url, host_header="tools.local")) as session:
            assert session.era is Era.MODERN


async def test_a_name_is_mapped_and_credentials_are_sent_with_every_request() -> None:
    async with modern_server([tool("one")]) as server:

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            assert host == "tools.team.svc"
            return [("127.0.0.1", server.port)]

        target = Target.from_url("http://tools.team.svc:8080/mcp")
        headers = {"Authorization": "Bearer t"}
        async with McpSession.over_http(target, headers=headers, pool=http_pool(target, resolve=resolve)) as session:
            await session.list_all("tools/list")
        assert {request.headers["authorization"] for request in server.seen} == {"Bearer t"}
        assert {request.headers["host"] for request in server.seen} == {"tools.team.svc:8080"}


async def test_a_legacy_call_given_up_is_canceled_by_a_notification() -> None:
    async def slow(request: Request, reply: Reply) -> None:
        if request.method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            return reply.result(request, result)
        if "id" not in request.message:
            return reply.send(202)
        if request.method == "tools/call":
            await asyncio.Event().wait()
        return reply.error(request, 200, -32601, "no")

    async with raw_server(slow) as server, session_of(server.url) as session:
        with pytest.raises(Timeout):
            await session.call_tool("x", timeout=0.05)
        await eventually(lambda: "notifications/cancelled" in server.methods())
        call = next(request for request in server.seen if request.method == "tools/call")
        assert server.seen[-1].params["requestId"] == call.message["id"]
