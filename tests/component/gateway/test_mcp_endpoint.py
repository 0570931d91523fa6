"""HTTP at the MCP endpoint: statuses, unusual requests, order on a connection, limits, slow and careless clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fairlead_app.gateway import Gateway
from fairlead_gateway.endpoint.client_limits import ClientLimits
from gatewayworld import Ask, Wire, ask, calling, catalog, legacy, modern, running
from rawserver import RawServer, Reply, Request, raw_server
from toolservers import modern_server
from waiting import eventually


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with modern_server() as upstream:
        yield upstream


@pytest.fixture
async def gateway(tmp_path: Path, server: RawServer) -> AsyncIterator[Gateway]:
    async with running(tmp_path, catalog("demo", server.url, ["add"])) as served:
        yield served


ADD = calling("demo__add", {"a": 1})


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (legacy("ping"), 200),
        (legacy("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}), 200),
        (legacy("tools/list"), 200),
        (legacy("resources/list"), 200),
        (legacy("notifications/initialized", number=None), 202),
        (modern("server/discover"), 200),
        (modern("tools/list"), 200),
        (modern("ping"), 404),
        (modern("initialize", {"protocolVersion": "2025-11-25"}), 404),
        (modern("resources/list"), 404),
        (modern("tools/list", {"cursor": "x"}), 400),
        (legacy("tools/list", {"cursor": "x"}), 200),
        (legacy("tools/list", {"cursor": None}), 200),
        (legacy("initialize", {}), 200),
        (ADD, 200),
        (calling("demo__nope"), 400),
        (calling("demo__nope", era="2025-11-25"), 200),
        (calling("add"), 400),
        (modern("tools/call", {}), 400),
        (modern("tools/call", {"name": "demo__add", "arguments": [1]}), 400),
        (ADD.to("/mcp/nope"), 404),
        (ADD.to("/servers/default/other/mcp"), 404),
        (ADD.with_headers(host="evil.example"), 421),
        (ADD.with_headers(origin="https://evil.example"), 403),
        (ADD.with_headers(origin="http://localhost:6274"), 200),
        (ADD.with_headers(accept="application/json"), 200),
        (ADD.with_headers(accept="text/html"), 406),
        (ADD.with_headers(accept="*/*"), 200),
        (ADD.with_headers(content_type="text/plain"), 400),
        (ADD.with_headers(mcp_method=None), 400),
        (Ask(verb="GET", body=b""), 405),
        (Ask(verb="DELETE", body=b""), 405),
        (Ask(verb="OPTIONS", body=b""), 405),
        (Ask(verb="PUT", body=b"{}"), 405),
        (Ask(verb="GET", body=b"", target="/healthz"), 200),
        (Ask(verb="GET", body=b"", target="/readyz"), 200),
        (Ask(verb="GET", body=b"", target="/nothing"), 404),
    ],
    ids=lambda value: f"{value.verb} {value.target} {str(value.message)[:60]}" if isinstance(value, Ask) else None,
)
async def test_each_request_gets_its_status(gateway: Gateway, request_: Ask, status: int) -> None:
    assert (await ask(gateway, request_)).status == status


async def test_methods_other_than_post_are_told_what_is_allowed(gateway: Gateway) -> None:
    answer = await ask(gateway, Ask(verb="GET", body=b"", headers={"accept": "text/event-stream"}))
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


async def test_a_head_request_gets_no_body(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        wire.send(Ask(verb="HEAD", body=b""), legacy("ping"))
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert b"405" in head
        assert (await wire.answer()).message["result"] == {}


async def test_an_unknown_tool_is_refused_with_32602(gateway: Gateway) -> None:
    for era in ("2026-07-28", "2025-11-25"):
        answer = await ask(gateway, calling("demo__nope", era=era, number="x"))
        assert (answer.code, answer.message["id"]) == (-32602, "x")
        assert answer.message["error"]["message"] == "Unknown tool: demo__nope"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/servers/demo/mcp", "Unknown MCP endpoint: the endpoint of the server demo is /servers/default/demo/mcp"),
        (
            "/servers/demo/mcp/fast",
            "Unknown MCP endpoint: the endpoint of the server demo is /servers/default/demo/mcp",
        ),
        (
            "/servers/other/demo/mcp",
            "Unknown MCP endpoint: the endpoint of the server demo is /servers/default/demo/mcp",
        ),
        (
            "/servers/nope/mcp",
            (
                "Unknown MCP endpoint: the endpoint of a server is /servers/NAMESPACE/NAME/mcp, and /v1/servers lists "
                "your servers"
            ),
        ),
        ("/servers/default/demo/mcp/nope", "Unknown MCP endpoint or tier; your tiers: none"),
        ("/mcp/nope", "Unknown MCP endpoint or tier; your tiers: none"),
    ],
)
async def test_an_unknown_endpoint_is_answered_with_the_url_that_was_meant(
    gateway: Gateway, target: str, message: str
) -> None:
    answer = await ask(gateway, legacy("initialize", {}).to(target))
    assert (answer.status, answer.code) == (404, -32600)
    assert answer.message["error"]["message"] == message


async def test_a_name_that_servers_of_two_namespaces_have_gets_no_suggestion(tmp_path: Path, server: RawServer) -> None:
    twice = [catalog("demo", server.url, ["add"], namespace=namespace) for namespace in ("one", "two")]
    async with running(tmp_path, *twice) as gateway:
        answer = await ask(gateway, legacy("initialize", {}).to("/servers/demo/mcp"))
        assert "/servers/NAMESPACE/NAME/mcp" in answer.message["error"]["message"]


async def test_a_session_is_named_by_initialize_and_nothing_needs_one(gateway: Gateway) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    first, second = [await ask(gateway, legacy("initialize", hello)) for _ in range(2)]
    assert first.message["result"]["protocolVersion"] == "2025-06-18"
    assert len(first.headers["mcp-session-id"]) >= 32
    assert first.headers["mcp-session-id"] != second.headers["mcp-session-id"]
    assert (await ask(gateway, legacy("tools/list"))).status == 200


@pytest.mark.parametrize(
    "request_",
    [
        legacy("tools/list", session="of-an-earlier-run"),
        calling("demo__add", {"a": 1, "b": 2}, era="2025-11-25", session="of-an-earlier-run"),
        legacy("notifications/initialized", number=None, session="of-an-earlier-run"),
        Ask({"jsonrpc": "2.0", "id": 1, "result": {}}, legacy("ping", session="of-an-earlier-run").headers),
        Ask(verb="GET", body=b"", headers={"accept": "text/event-stream", "mcp-session-id": "of-an-earlier-run"}),
        Ask(verb="DELETE", body=b"", headers={"mcp-session-id": "of-an-earlier-run"}),
    ],
    ids=lambda value: f"{value.verb} {str(value.message)[:60]}" if isinstance(value, Ask) else None,
)
async def test_an_unknown_session_is_answered_with_404_so_that_its_client_opens_another_one(
    gateway: Gateway, request_: Ask
) -> None:
    answer = await ask(gateway, request_)
    assert answer.status == 404
    assert "open a new one with initialize" in answer.message["error"]["message"]


async def test_an_unknown_session_is_nothing_to_initialize_and_to_modern_clients(gateway: Gateway) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    again = await ask(gateway, legacy("initialize", hello, session="of-an-earlier-run"))
    assert again.status == 200
    assert again.headers["mcp-session-id"] != "of-an-earlier-run"
    assert (await ask(gateway, modern("tools/list").with_headers(mcp_session_id="of-an-earlier-run"))).status == 200


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", "x"])
async def test_initialize_with_another_version_is_answered_with_the_newest_legacy_one(
    gateway: Gateway, version: str
) -> None:
    hello = legacy("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": {}})
    answer = await ask(gateway, hello.with_headers(mcp_protocol_version=None))
    assert answer.message["result"]["protocolVersion"] == "2025-11-25"


async def test_discovery_names_the_same_versions_as_the_refusal_of_another(gateway: Gateway) -> None:
    discovered = (await ask(gateway, modern("server/discover"))).message["result"]
    other = modern("server/discover").with_headers(mcp_protocol_version="2031-01-01")
    other.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2031-01-01"
    refused = await ask(gateway, other)
    assert (refused.status, refused.code) == (400, -32022)
    assert refused.message["error"]["data"]["supported"] == discovered["supportedVersions"] == ["2026-07-28"]
    assert (discovered["resultType"], discovered["cacheScope"], discovered["ttlMs"]) == ("complete", "private", 30_000)


async def test_lists_differ_between_the_eras_by_the_envelope_alone(gateway: Gateway) -> None:
    new = (await ask(gateway, modern("tools/list"))).message["result"]
    old = (await ask(gateway, legacy("tools/list"))).message["result"]
    assert set(new) == {"tools", "resultType", "ttlMs", "cacheScope", "_meta"}
    assert set(old) == {"tools"}
    assert new["tools"] == old["tools"]
    assert list(old["tools"][0]) == ["x-unknown", "name", "inputSchema"]


@pytest.mark.parametrize("target", ["/mcp?session=1", "/mcp/", "http://127.0.0.1/mcp", "http://localhost:1/mcp?x"])
async def test_odd_forms_of_a_target_are_answered_in_full(gateway: Gateway, target: str) -> None:
    answer = await ask(gateway, ADD.to(target))
    assert (answer.status, answer.message["result"]["isError"]) == (200, False)


async def test_the_authority_of_an_absolute_target_is_checked_like_a_host(gateway: Gateway) -> None:
    assert (await ask(gateway, ADD.to("http://evil.example/mcp"))).status == 421


async def test_a_request_is_understood_however_it_is_cut(gateway: Gateway) -> None:
    for step in (1, 7, 64):
        async with await Wire.connect(gateway) as wire:
            data = ADD.data(wire.host)
            for start in range(0, len(data), step):
                wire.write(data[start : start + step])
                await asyncio.sleep(0)
            assert (await wire.answer()).status == 200


async def test_a_chunked_body_is_understood(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        data = ADD.with_headers(transfer_encoding="chunked").data(wire.host)
        head, _, body = data.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length")]
        half = len(body) // 2
        wire.write(b"\r\n".join(lines) + b"\r\n\r\n")
        for piece in (body[:half], body[half:]):
            wire.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        wire.write(b"0\r\n\r\n")
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize("close", [ADD.with_headers(connection="close"), Ask(ADD.message, ADD.headers, version="1.0")])
async def test_a_connection_that_is_not_kept_is_closed_after_its_answer(gateway: Gateway, close: Ask) -> None:
    async with await Wire.connect(gateway) as wire:
        answer = await wire.ask(close)
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert await wire.read_to_end() == b""


async def test_a_client_that_waits_for_100_continue_gets_it(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        head, _, body = ADD.with_headers(expect="100-continue").data(wire.host).partition(b"\r\n\r\n")
        wire.write(head + b"\r\n\r\n")
        assert await wire.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.write(body)
        assert (await wire.answer()).status == 200


@pytest.mark.parametrize("cut", [False, True])
async def test_an_offer_to_upgrade_is_ignored_and_its_request_served(gateway: Gateway, cut: bool) -> None:
    offer = ADD.with_headers(connection="Upgrade, HTTP2-Settings", upgrade="h2c", http2_settings="AAEAAEAAAAIAAAAA")
    async with await Wire.connect(gateway) as wire:
        head, blank, body = offer.data(wire.host).partition(b"\r\n\r\n")
        wire.write(head + blank)
        if cut:
            await asyncio.sleep(0.02)  # so that the body arrives in a packet of its own
        wire.write(body + legacy("ping").data(wire.host))
        assert (await wire.answer()).message["result"]["isError"] is False
        assert (await wire.answer()).message["result"] == {}


@pytest.mark.parametrize("names", [("demo__add", "demo__other"), ("demo__other", "demo__add")])
async def test_an_mcp_name_header_that_comes_twice_is_refused(gateway: Gateway, names: tuple[str, str]) -> None:
    """A proxy may have decided by either header. Tested on a new connection, and after a valid request."""
    async with await Wire.connect(gateway) as wire:
        plain = calling("demo__add")
        twice = plain.with_headers(mcp_name="\r\nmcp-name: ".join(names))
        for ask_, status in ((twice, 400), (plain, 200), (twice, 400)):
            assert (await wire.ask(ask_)).status == status


async def test_many_requests_share_a_connection(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        for number in range(5):
            assert (await wire.ask(calling("demo__add", number=number))).message["id"] == number
            assert (await wire.ask(Ask(verb="GET", body=b"", target="/healthz"))).status == 200


async def test_each_request_of_a_connection_is_held_to_its_own_name(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        for name, status in [("demo__add", 200), ("demo__nope", 400), ("demo__add", 200)]:
            wire.send(calling(name))
            assert (await wire.answer()).status == status
        wire.send(calling("demo__add").with_headers(mcp_name="demo__other"))
        answer = await wire.answer()
        assert (answer.status, answer.code) == (400, -32020)


async def test_pipelined_requests_are_answered_in_order_and_one_at_a_time(tmp_path: Path) -> None:
    running_now = 0
    most = 0

    async def handle(request: Request, reply: Reply) -> None:
        nonlocal running_now, most
        running_now += 1
        most = max(most, running_now)
        # so that later requests could overtake it
        await asyncio.sleep(0.05 if request.params["arguments"]["n"] == 0 else 0)
        running_now -= 1
        reply.result(request, {"content": [], "resultType": "complete"})

    health = Ask(verb="GET", body=b"", target="/healthz")
    calls = [calling("demo__add", {"n": n}, number=n) for n in range(4)]
    async with (
        raw_server(handle) as server,
        running(tmp_path, catalog("demo", server.url, ["add"])) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        wire.send(calls[0], legacy("ping", number="p"), health, calls[1], calls[2], health, calls[3])
        seen = [(await wire.answer()).message for _ in range(7)]
    assert [m.get("id", m.get("status")) for m in seen] == [0, "p", "ok", 1, 2, "ok", 3]
    assert most == 1


async def test_hundreds_of_pipelined_requests_are_answered(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        wire.send(ADD, *(legacy("ping", number=n) for n in range(1500)))
        answers = [await wire.answer() for _ in range(1501)]
    assert [answer.message["id"] for answer in answers[1:]] == list(range(1500))


async def test_a_body_that_announces_to_be_too_large_is_refused_before_it_is_read(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        head = ADD.with_headers(content_length=str(5 << 20)).data(wire.host).partition(b"\r\n\r\n")[0]
        wire.write(head + b"\r\n\r\n")
        assert (await wire.answer()).status == 413
        assert await wire.read_to_end() == b""


async def test_a_body_that_grows_too_large_is_refused(tmp_path: Path, server: RawServer) -> None:
    demo = catalog("demo", server.url, ["add"])
    async with running(tmp_path, demo, max_request_bytes=100_000) as gateway, await Wire.connect(gateway) as wire:
        head = ADD.with_headers(transfer_encoding="chunked").data(wire.host).partition(b"\r\n\r\n")[0]
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"content-length")]
        wire.write(b"\r\n".join(lines) + b"\r\n\r\n")
        for _ in range(20):
            wire.write(b"2710\r\n" + b"x" * 10_000 + b"\r\n")
        assert (await wire.answer()).status == 413


@pytest.mark.parametrize("size", [100_000, 1_000_000])
async def test_headers_that_are_too_large_are_refused(gateway: Gateway, size: int) -> None:
    async with await Wire.connect(gateway) as wire:
        wire.send(ADD.with_headers(x_padding="y" * size))
        assert (await wire.answer()).status == 431


async def test_many_small_headers_are_refused_too(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        wire.send(ADD.with_headers(**{f"x_{n}": "y" for n in range(20_000)}))
        assert (await wire.answer()).status == 431


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n{}",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_bytes_that_are_not_http_get_400_and_end_the_connection(gateway: Gateway, data: bytes) -> None:
    async with await Wire.connect(gateway) as wire:
        wire.write(data)
        assert (await wire.answer()).status == 400
        assert await wire.read_to_end() == b""


async def test_garbage_behind_a_call_does_not_take_its_answer_away(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        wire.write(ADD.data(wire.host) + b"\x00\x01\x02 garbage\r\n\r\n")
        assert (await wire.answer()).message["result"]["isError"] is False
        assert (await wire.answer()).status == 400
        assert await wire.read_to_end() == b""


async def test_malformed_json_is_400_and_the_connection_lives_on(gateway: Gateway) -> None:
    async with await Wire.connect(gateway) as wire:
        answer = await wire.ask(Ask(headers=ADD.headers, body=b"{"))
        assert (answer.status, answer.code) == (400, -32700)
        assert (await wire.ask(ADD)).status == 200


async def test_a_client_that_dribbles_its_headers_is_cut_off(tmp_path: Path, server: RawServer) -> None:
    async with running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        gateway.endpoint.bounds = ClientLimits(head_seconds=0.2)
        async with await Wire.connect(gateway) as wire:
            wire.write(b"POST /mcp HTTP/1.1\r\nHost: loc")
            assert (await wire.answer()).status == 408


async def test_a_client_that_dribbles_its_body_is_cut_off(tmp_path: Path, server: RawServer) -> None:
    async with running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        gateway.endpoint.bounds = ClientLimits(body_seconds=0.2)
        async with await Wire.connect(gateway) as wire:
            wire.write(ADD.data(wire.host)[:-1])
            assert (await wire.answer()).status == 408


async def test_an_idle_connection_is_closed(tmp_path: Path, server: RawServer) -> None:
    async with running(tmp_path, catalog("demo", server.url, ["add"])) as gateway:
        gateway.endpoint.bounds = ClientLimits(keep_alive=0.2)
        async with await Wire.connect(gateway) as wire:
            assert (await wire.ask(ADD)).status == 200
            assert await wire.read_to_end() == b""


async def test_a_client_that_never_reads_is_not_served_without_end(tmp_path: Path, server: RawServer) -> None:
    demo = catalog("demo", server.url, [f"tool{n}" for n in range(500)])
    async with running(tmp_path, demo) as gateway, await Wire.connect(gateway) as wire:
        wire.transport.pause_reading()
        wire.send(*(legacy("tools/list", number=n) for n in range(2000)))
        await eventually(lambda: any(c.write_paused for c in gateway._listener.connections))
        assert sum(series.count for _, series in gateway.call_metrics.histograms()) < 500
        (connection,) = gateway._listener.connections
        assert connection.transport.get_write_buffer_size() < 2_000_000
        wire.transport.resume_reading()
        assert [(await wire.answer()).message["id"] for _ in range(2000)] == list(range(2000))


async def test_a_large_list_arrives_whole(tmp_path: Path, server: RawServer) -> None:
    tools = [{"name": f"tool{n:04}", "description": "d" * 700, "inputSchema": {"type": "object"}} for n in range(1000)]
    async with running(tmp_path, catalog("demo", server.url, tools)) as gateway:
        answer = await ask(gateway, modern("tools/list"))
        assert [t["name"] for t in answer.message["result"]["tools"]] == [f"demo__tool{n:04}" for n in range(1000)]
        assert len(json.dumps(answer.message)) > 700_000
