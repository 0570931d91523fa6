"""The operations port: which clients and which Host headers it answers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest

from fairlead_app.gateway import Gateway
from fairlead_gateway.endpoint.page_server import CONNECTIONS_EACH, MAX_REQUEST_BYTES
from gatewayworld import running
from waiting import eventually

pytestmark = pytest.mark.both_loops

REBOUND = "evil.example:9464"
"""Host header that a browser sends after DNS rebinding: a foreign name that resolves to this machine."""


async def status_of(gateway: Gateway, path: str, *fields: str, method: str = "GET", source: str = "127.0.0.1") -> int:
    """Status of a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port, local_addr=(source, 0))
    writer.write("\r\n".join([f"{method} {path} HTTP/1.1", *fields, "", ""]).encode())
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    return int(answer.split(b" ")[1])


@pytest.mark.parametrize("path", ["/samples", "/metrics"])
async def test_a_web_page_that_made_a_browser_ask_learns_nothing(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as gateway:
        assert await status_of(gateway, path, f"Host: {REBOUND}") == 421
        assert await status_of(gateway, path, "Host: localhost", f"Host: {REBOUND}") == 400
        assert await status_of(gateway, path) == 400
        assert await status_of(gateway, path, "Host: localhost", "Origin: https://evil.example") == 403
        assert await status_of(gateway, path, "Host: localhost:9464", "Origin: http://localhost:3000") == 200


async def test_kubelets_prometheus_and_the_operator_are_answered_where_hosts_are_listed(tmp_path: Path) -> None:
    async with running(tmp_path, allowed_hosts=("tools.example.com",), pull_token="secret") as gateway:
        for host in ("10.1.2.3:9464", "[fd00::7]:9464", "10.1.2.3", "fairlead-gateway-ops.fairlead-system.svc:9464"):
            assert await status_of(gateway, "/metrics", f"Host: {host}") == 200, host
            assert await status_of(gateway, "/samples", f"Host: {host}", "Authorization: Bearer secret") == 200, host
            assert await status_of(gateway, "/samples", f"Host: {host}") == 401, host
        assert await status_of(gateway, "/metrics", "Host: tools.example.com") == 200
        assert await status_of(gateway, "/metrics", f"Host: {REBOUND}") == 421


async def test_probes_are_answered_under_any_name(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        assert [await status_of(gateway, path, f"Host: {REBOUND}") for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize("path", ["/metrics/", "/healthz/", "/", "/mcp"])
async def test_a_path_that_is_none_of_the_pages_is_not_found(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as gateway:
        assert await status_of(gateway, path, "Host: localhost") == 404


async def test_a_page_is_got_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        assert await status_of(gateway, "/metrics", "Host: localhost", "Content-Length: 0", method="POST") == 405
        assert await status_of(gateway, "/metrics", "Host: localhost", method="DELETE") == 405


@pytest.mark.parametrize("accept", ["text/plain; version=abc", "application/openmetrics-text; version=x", "*/*"])
async def test_metrics_are_told_to_clients_that_accept_odd_things(tmp_path: Path, accept: str) -> None:
    async with running(tmp_path) as gateway:
        assert await status_of(gateway, "/metrics", "Host: localhost", f"Accept: {accept}") == 200


async def test_a_request_without_end_is_cut_off(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * MAX_REQUEST_BYTES)
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionResetError):
                assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()


async def test_probes_are_answered_while_one_address_holds_all_connections_that_it_may(tmp_path: Path) -> None:
    async with running(tmp_path) as gateway, contextlib.AsyncExitStack() as stack:
        for _ in range(CONNECTIONS_EACH):
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
            stack.callback(writer.close)
        await eventually(lambda: len(gateway._operations.connections) == CONNECTIONS_EACH)
        assert await status_of(gateway, "/healthz", "Host: localhost") == 429
        assert await status_of(gateway, "/healthz", "Host: localhost", source="127.0.0.2") == 200


async def test_a_request_that_waits_for_samples_ends_with_the_gateway_without_an_error_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as gateway:
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.metrics_port)
        writer.write(b"GET /samples?wait=30 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await eventually(lambda: any(connection.current is not None for connection in gateway._operations.connections))
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
