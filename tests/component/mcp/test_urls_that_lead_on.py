"""URLs that differ from the server's: a missing or additional slash, or the event stream of an older server."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fairlead_api.documents.catalog import Credential, EventsEndpoint, HttpEndpoint
from fairlead_mcp.errors import HandshakeRefused, HttpRefused, McpError, NotMcp
from fairlead_mcp.opening import NetworkAccess, network_session, reached_endpoint
from fairlead_mcp.session import McpSession
from linkservers import Respond, events_handler
from rawserver import Handler, Reply, Request, raw_server
from scriptedserver import ERAS, handshake, over_http, responder

SECRET = Credential(headers={"Authorization": "Bearer not for others"})
OLD = handshake("2024-11-05")


def session_at(url: str, *, older: bool = False, host_header: str | None = None) -> McpSession:
    kind = EventsEndpoint if older else HttpEndpoint
    return network_session("demo", kind(url=url, host_header=host_header), NetworkAccess(SECRET))


async def names_of(session: McpSession) -> list[str]:
    return [json.loads(bytes(item))["name"] for item in await session.list_all("tools/list")]


def redirecting_handler(
    respond: Respond, location: Callable[[Request], str], status: int = 307, path: str = "/mcp/"
) -> Handler:
    """Handler that answers at `path`, and redirects all other paths."""
    answer = over_http(respond)

    async def handle(request: Request, reply: Reply) -> None:
        if request.path == path:
            return await answer(request, reply)
        return reply.send(status, location=location(request))

    return handle


LOCATIONS: dict[str, Callable[[Request], str]] = {
    "absolute": lambda request: f"http://{request.headers['host']}{request.path}/",
    "relative": lambda request: f"{request.path}/",
    "beside": lambda request: "mcp/",
    "without-scheme": lambda request: f"//{request.headers['host']}{request.path}/",
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("how", LOCATIONS)
async def test_a_redirect_to_the_slash_is_followed_once(how: str, status: int, era: str) -> None:
    handler = redirecting_handler(responder(handshake(era)), LOCATIONS[how], status)
    async with raw_server(handler) as server, session_at(server.url) as session:
        assert await names_of(session) == ["fine"]
        await session.call_tool("fine")
        assert [request.path for request in server.seen].count("/mcp") == 1, "the rest goes to where it leads"
        assert session.remarks == ("the server redirects to /mcp/: put that path into its url",)
        assert reached_endpoint(session, HttpEndpoint(url=server.url)) == HttpEndpoint(url=server.url + "/")
        assert {request.headers["authorization"] for request in server.seen} == {"Bearer not for others"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_redirect_from_the_slash_is_followed_with_its_query(era: str) -> None:
    handler = redirecting_handler(responder(handshake(era)), lambda request: "/mcp?key=1", path="/mcp?key=1")
    async with raw_server(handler) as server:
        url = f"{server.url}/?key=1"
        async with session_at(url) as session:
            assert await names_of(session) == ["fine"]
            assert reached_endpoint(session, HttpEndpoint(url=url)) == HttpEndpoint(url=f"{server.url}?key=1")


async def test_a_redirect_in_the_name_of_the_host_header_is_one_to_the_same_server() -> None:
    handler = redirecting_handler(responder(handshake(ERAS[0])), LOCATIONS["absolute"])
    async with raw_server(handler) as server, session_at(server.url, host_header="tools.example") as session:
        assert await names_of(session) == ["fine"]


ELSEWHERE: dict[str, tuple[str, int]] = {
    "another-host": ("http://elsewhere.example/mcp/", 307),
    "another-port": ("http://127.0.0.1:1/mcp/", 307),
    "another-scheme": ("https://HOST/mcp/", 307),
    "another-path": ("/login/", 307),
    "two-slashes": ("/mcp//", 307),
    "a-path-that-begins-alike": ("/mcp/sse/", 307),
    "another-query": ("/mcp/?token=x", 307),
    "a-user": ("http://me@HOST/mcp/", 307),
    "the-same": ("/mcp", 307),
    "not-a-url": ("http://[/mcp/", 307),
    "moved-permanently": ("/mcp/", 301),
    "found": ("/mcp/", 302),
    "see-other": ("/mcp/", 303),
}


@pytest.mark.parametrize("how", ELSEWHERE)
@pytest.mark.parametrize("older", [False, True])
async def test_no_other_redirect_is_followed(how: str, older: bool) -> None:
    location, status = ELSEWHERE[how]
    handler = redirecting_handler(
        responder(OLD), lambda request: location.replace("HOST", request.headers["host"]), status, path="/nowhere"
    )
    async with raw_server(handler) as server:
        session = session_at(server.url, older=older)
        with pytest.raises(HttpRefused, match=rf"redirects to .* \({status}\)") as refused:
            await session.connect()
        await session.aclose()
        assert refused.value.reason == "Redirected"
        assert {request.path for request in server.seen} == {"/mcp"}


async def test_two_addresses_that_lead_to_each_other_are_told_apart_from_a_server() -> None:
    handler = redirecting_handler(
        responder(OLD), lambda request: "/mcp" if request.path == "/mcp/" else "/mcp/", path="/nowhere"
    )
    async with raw_server(handler) as server:
        session = session_at(server.url)
        with pytest.raises(HttpRefused, match=r"redirects to /mcp \(307\)"):
            await session.connect()
        await session.aclose()
        assert len(server.seen) == 3  # the probe at both URLs, and the handshake at the redirect's target


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_server_that_refuses_initialize_and_has_a_stream_is_spoken_to_over_it(status: int) -> None:
    handler = events_handler(responder(OLD), lambda reply: reply.send(status, b"Cannot POST /mcp", kind="text/plain"))
    async with raw_server(handler) as server, session_at(server.url) as session:
        assert await names_of(session) == ["fine"]
        await session.call_tool("fine")
        assert session.protocol_version == "2024-11-05"
        assert reached_endpoint(session, HttpEndpoint(url=server.url)) == EventsEndpoint(url=server.url)
        assert [remark for remark in session.remarks if '"type": "sse"' in remark]
        assert len([request for request in server.seen if request.path == "/mcp"]) == 3


async def test_a_server_that_opens_a_stream_for_a_post_too_is_spoken_to_over_it() -> None:
    def open_another(reply: Reply) -> None:
        reply.open_stream()
        reply.chunk(b"event: endpoint\ndata: /post/99\n\n")

    async with raw_server(events_handler(responder(OLD), open_another)) as server, session_at(server.url) as session:
        assert await names_of(session) == ["fine"]
        assert reached_endpoint(session, HttpEndpoint(url=server.url)) == EventsEndpoint(url=server.url)


@pytest.mark.parametrize("status", [401, 403, 406, 500])
async def test_a_server_that_refuses_for_another_reason_is_not_asked_for_a_stream(status: int) -> None:
    handler = events_handler(responder(OLD), lambda reply: reply.send(status, b"no", kind="text/plain"))
    async with raw_server(handler) as server:
        session = session_at(server.url)
        with pytest.raises(HttpRefused):
            await session.connect()
        await session.aclose()
        assert {request.verb for request in server.seen} == {"POST"}


async def test_a_server_that_refuses_in_json_rpc_speaks_the_newer_transport() -> None:
    refusal = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"not today"}}'
    handler = events_handler(responder(OLD), lambda reply: reply.send(400, refusal))
    async with raw_server(handler) as server:
        session = session_at(server.url)
        with pytest.raises(HandshakeRefused, match="not today"):
            await session.connect()
        await session.aclose()
        assert {request.verb for request in server.seen} == {"POST"}


@pytest.mark.parametrize("streams", ["refused", "html", "elsewhere"])
async def test_the_answer_to_initialize_is_told_where_a_url_has_no_stream(streams: str) -> None:
    async def handle(request: Request, reply: Reply) -> None:
        if request.verb == "POST" or streams == "refused":
            reply.send(404, b"nothing of the kind", kind="text/plain")
        elif streams == "html":
            reply.send(200, b"<html>", kind="text/html")
        else:
            reply.open_stream()
            reply.chunk(b"event: endpoint\ndata: http://elsewhere.example/post\n\n")

    async with raw_server(handle) as server:
        session = session_at(server.url)
        with pytest.raises(HttpRefused, match="nothing of the kind"):
            await session.connect()
        await session.aclose()
        assert [request.verb for request in server.seen] == ["POST", "POST", "GET"]


BEFORE: dict[str, bytes] = {
    "a-ping": b"event: ping\ndata: {}\n\n",
    "a-comment": b": hello\n\n",
    "a-message": b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n',
    "a-path-of-another-event": b"event: session\ndata: /not/this\n\n",
    "many": b"event: ping\ndata: x\n\n" * 63,
}


@pytest.mark.parametrize("how", BEFORE)
@pytest.mark.parametrize("older", [False, True])
async def test_events_before_the_one_that_names_the_address_are_skipped(how: str, older: bool) -> None:
    handler = events_handler(responder(OLD), lambda reply: reply.send(405), BEFORE[how])
    async with raw_server(handler) as server, session_at(server.url, older=older) as session:
        assert await names_of(session) == ["fine"]


async def test_an_address_in_an_event_without_a_name_is_taken() -> None:
    respond = responder(OLD)
    handler = events_handler(respond, lambda reply: reply.send(405), b"data: /post/0\n\n")
    async with raw_server(handler) as server, session_at(server.url, older=True) as session:
        assert await names_of(session) == ["fine"]


async def test_events_without_end_before_the_address_end_in_a_refusal() -> None:
    handler = events_handler(responder(OLD), lambda reply: reply.send(405), b"event: ping\ndata: x\n\n" * 64)
    async with raw_server(handler) as server:
        session = session_at(server.url, older=True)
        with pytest.raises(McpError, match="none of the server's first 64 events") as refused:
            await session.connect()
        assert isinstance(refused.value, NotMcp)
        await session.aclose()


async def test_a_stream_and_its_posts_are_followed_to_the_slash() -> None:
    handler = events_handler(responder(OLD), lambda reply: reply.send(405))

    async def handle(request: Request, reply: Reply) -> None:
        if request.path in ("/mcp", "/post/0"):
            return reply.send(307, location=f"{request.path}/")
        moved = Request(request.verb, request.path.rstrip("/"), request.headers, request.body, request.message)
        return await handler(moved, reply)

    async with raw_server(handle) as server, session_at(server.url, older=True) as session:
        assert await names_of(session) == ["fine"]
        assert [request.path for request in server.seen].count("/post/0") == 1
        assert [request.path for request in server.seen].count("/mcp") == 1


@pytest.mark.parametrize("older", [False, True])
async def test_no_compressed_answer_is_asked_for(older: bool) -> None:
    handler = events_handler(responder(OLD), lambda reply: reply.send(405)) if older else over_http(responder(OLD))
    async with raw_server(handler) as server, session_at(server.url, older=older) as session:
        assert await names_of(session) == ["fine"]
        assert {request.headers.get("accept-encoding") for request in server.seen} == {"identity"}
