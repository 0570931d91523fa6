"""A gateway that listens on IPv6: on `::1`, and on `::` for IPv4 and IPv6 clients at the same port."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from pathlib import Path
from typing import Any

import pytest
import uvloop

from fairlead_api.reports import PATH
from fairlead_app.settings import Settings
from fairlead_gateway.endpoint.listener import PortTaken
from fairlead_mcp.addresses import authority
from gatewayworld import Wire, calling, catalog, running
from toolservers import modern_server, tool
from waiting import eventually

pytestmark = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this kernel has no IPv6")
BOTH = ("127.0.0.1", "::1")


async def status(host: str, port: int, path: str) -> int:
    """Status of a GET with the Host header for the address."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {authority(host, port)}\r\nconnection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


async def check_addresses(folder: Path, host: str, clients: tuple[str, ...], **settings: Any) -> None:
    """Call a tool and read the pages of the operations port, from each of these addresses."""
    async with (
        modern_server([tool("add")]) as server,
        running(folder, catalog("demo", server.url, ["add"]), host=host, **settings) as gateway,
    ):
        for client in clients:
            connection = await asyncio.open_connection(client, gateway.port)
            async with Wire(*connection, authority(client, gateway.port)) as wire:
                answer = await wire.ask(calling("demo__add"))
                assert answer.status == 200, (client, answer.body)
            for path in ("/healthz", "/metrics", PATH):
                assert await status(client, gateway.metrics_port, path) == 200, (client, path)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_every_address_serves_clients_of_ipv6_and_of_ipv4(run: Any, tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    run(check_addresses(tmp_path, "::", BOTH, audit="all", audit_file=log))
    assert [json.loads(line)["client"] for line in log.read_text().splitlines()] == list(BOTH)


async def test_a_loopback_address_of_ipv6_serves_its_own_names(tmp_path: Path) -> None:
    await check_addresses(tmp_path, "::1", ("::1",))


async def test_every_address_is_that_of_ipv4_where_the_kernel_has_no_ipv6(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    await check_addresses(tmp_path, "::", ("127.0.0.1",))


@pytest.mark.parametrize("taken_by", ["127.0.0.1", "::1"])
async def test_a_port_that_is_taken_in_one_family_is_taken(taken_by: str, tmp_path: Path) -> None:
    family = socket.AF_INET6 if ":" in taken_by else socket.AF_INET
    with socket.create_server((taken_by, 0), family=family) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} of :: is already in use") as caught:
            async with running(tmp_path, host="::", port=port):
                pytest.fail("two listen")
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.EADDRINUSE


async def test_connections_at_every_address_send_each_packet_at_once(tmp_path: Path) -> None:
    async with running(tmp_path, host="::") as gateway, await Wire.connect(gateway):
        await eventually(lambda: bool(gateway._listener.connections))
        (connection,) = gateway._listener.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "127.0.0.1"),
        ({"pod_ips": "10.244.0.7"}, "0.0.0.0"),
        ({"pod_ips": "10.244.0.7,fd00:10:244::7"}, "::"),
        ({"pod_ips": "fd00:10:244::7"}, "::"),
        ({"pod_ips": "fd00:10:244::7", "host": "127.0.0.1"}, "127.0.0.1"),
    ],
)
def test_the_address_follows_from_those_of_the_pod(settings: dict[str, Any], address: str) -> None:
    assert Settings.of(**settings).listening.address == address


async def test_anonymous_clients_of_one_ipv6_network_are_one_agent(tmp_path: Path) -> None:
    more: dict[str, Any] = {"agent_calls_per_minute": 1, "trusted_proxies": ("127.0.0.1",)}
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), **more) as gateway,
    ):
        limited = []
        for address in ("2001:db8::1", "2001:db8::2", "2001:db8:0:0:ffff::1", "2001:db8:0:1::1"):
            async with await Wire.connect(gateway) as wire:
                answer = await wire.ask(calling("demo__add").with_headers(x_forwarded_for=address))
                limited.append(b"RATE_LIMITED" in answer.body)
    assert limited == [False, True, True, False]
