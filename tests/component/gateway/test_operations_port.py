"""The operations port: whom it answers, under which name it is asked."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest

from fairlead_gateway.admin_server import MAX_REQUEST_BYTES, AdminServer
from fairlead_gateway.app import Gateway
from fairlead_gateway.core.operations_page import PageRequest, PageResponse
from fairlead_mcp.hosts import AllowList
from gatewayworld import running
from waiting import eventually

pytestmark = pytest.mark.both_loops

REBOUND = "evil.example:9464"
"""What a browser sends that looked up a name which points at this machine."""


async def exchanged(port: int, *pieces: bytes) -> bytes:
    """All that is answered to what is sent, one piece after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return answer


async def asked(gateway: Gateway, path: str, *fields: str, method: str = "GET") -> int:
    """The status."""
    answer = await exchanged(gateway.metrics_port, "\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode())
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize("path", ["/samples", "/metrics"])
async def test_a_web_page_that_made_a_browser_ask_learns_nothing(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as gateway:
        assert await asked(gateway, path, f"Host: {REBOUND}") == 421
        assert await asked(gateway, path, "Host: localhost", f"Host: {REBOUND}") == 400
        assert await asked(gateway, path) == 400
        assert await asked(gateway, path, "Host: localhost", "Origin: https://evil.example") == 403
        assert await asked(gateway, path, "Host: localhost:9464", "Origin: http://localhost:3000") == 200


async def test_kubelets_prometheus_and_the_operator_are_answered_where_hosts_are_listed(tmp_path: Path) -> None:
    async with running(tmp_path, allowed_hosts=("tools.example.com",), pull_token="secret") as gateway:
        for host in ("10.1.2.3:9464", "[fd00::7]:9464", "10.1.2.3", "fairlead-gateway-ops.fairlead-system.svc:9464"):
            assert await asked(gateway, "/metrics", f"Host: {host}") == 200, host
            assert await asked(gateway, "/samples", f"Host: {host}", "Authorization: Bearer secret") == 200, host
            assert await asked(gateway, "/samples", f"Host: {host}") == 401, host
        assert await asked(gateway, "/metrics", "Host: tools.example.com") == 200
        assert await asked(gateway, "/metrics", f"Host: {REBOUND}") == 421


async def test_probes_are_answered_under_any_name(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        assert [await asked(gateway, path, f"Host: {REBOUND}") for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize("path", ["/metrics/", "/healthz/", "/", "/mcp"])
async def test_a_path_that_is_none_of_the_pages_is_not_found(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as gateway:
        assert await asked(gateway, path, "Host: localhost") == 404


async def test_a_page_is_got_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        assert await asked(gateway, "/metrics", "Host: localhost", "Content-Length: 0", method="POST") == 405
        assert await asked(gateway, "/metrics", "Host: localhost", method="DELETE") == 405


async def test_a_refused_method_is_told_which_ones_there_are(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        answer = await exchanged(
            gateway.metrics_port, b"PUT /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
        )
        assert b"\r\nallow: GET, HEAD\r\n" in answer


async def test_whoever_asks_for_the_head_alone_gets_no_body(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        answer = await exchanged(gateway.metrics_port, b"HEAD /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head, end, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"\r\ncontent-length: 8\r\nconnection: close" in head
        assert (end, body) == (b"\r\n\r\n", b"")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET http://localhost:9464/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /metrics?x=%7B&y HTTP/1.1\r\nhost:localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
async def test_a_request_is_answered_however_it_arrives(tmp_path: Path, request_bytes: bytes, size: int) -> None:
    pieces = [request_bytes[at : at + size] for at in range(0, len(request_bytes), size)]
    async with running(tmp_path) as gateway:
        answer = await exchanged(gateway.metrics_port, *pieces)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"fairlead_build_info" in body


@pytest.mark.parametrize("more", [b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x00 that is no request"])
async def test_one_request_is_answered_whatever_follows(tmp_path: Path, more: bytes) -> None:
    async with running(tmp_path) as gateway:
        first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answer = await exchanged(gateway.metrics_port, first + more)
    assert answer.endswith(b"\r\n\r\nok\n")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"HELLO\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /metrics HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
        (b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
    ],
)
async def test_what_is_no_request_for_this_port_is_refused(tmp_path: Path, request_bytes: bytes, status: int) -> None:
    async with running(tmp_path) as gateway:
        answer = await exchanged(gateway.metrics_port, request_bytes)
    assert answer.startswith(b"HTTP/1.1 %d " % status)


async def test_a_page_that_fails_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(request: PageRequest) -> PageResponse:
        raise OSError("no such thing")

    server = AdminServer({"/broken": broken}, AllowList.for_operations("127.0.0.1"), "127.0.0.1", 0)
    await server.start()
    answer = await exchanged(server.port, b"GET /broken HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await server.stop()
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert "The page /broken cannot be made" in caplog.text


async def test_whoever_goes_while_a_report_is_waited_for_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
        writer.write(b"GET /samples?wait=30 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: gateway._admin.answering == 1)
        writer.close()
        await eventually(lambda: gateway._admin.answering == 0)


async def test_a_request_without_end_is_cut_off(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * MAX_REQUEST_BYTES)
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()


async def test_whoever_waits_for_a_report_is_let_go_at_the_end_without_a_word_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
        writer.write(b"GET /samples?wait=30 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: gateway._admin.answering == 1)
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
