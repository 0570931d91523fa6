"""The client address behind proxies, in limits and the audit log: taken from headers of trusted proxies only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import fairlead
from fairlead_app.gateway import Gateway
from fairlead_app.metrics.exposition import expose_metrics
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from gatewayworld import Answer, Wire, calling, catalog, running
from restworld import post
from toolservers import modern_server, tool

TABLE: list[tuple[str, str, str | None, str]] = [
    ("no header", "10.0.0.1", None, "10.0.0.1"),
    ("a client that writes one itself", "192.0.2.9", "198.51.100.1", "192.0.2.9"),
    ("a proxy", "10.0.0.1", "198.51.100.1", "198.51.100.1"),
    ("a client that writes one, behind a proxy", "10.0.0.1", "203.0.113.1, 198.51.100.1", "198.51.100.1"),
    ("two proxies", "10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),
    ("a client that names a trusted proxy", "10.0.0.1", "203.0.113.1, 10.0.0.2, 198.51.100.1", "198.51.100.1"),
    ("everybody is trusted", "10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
    ("a port", "10.0.0.1", "198.51.100.1:4711", "198.51.100.1"),
    ("a port, IPv6", "10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
    ("two spellings of one address", "10.0.0.1", "2001:DB8:0::1", "2001:db8::1"),
    ("IPv4 in IPv6", "::ffff:10.0.0.1", "::ffff:198.51.100.1", "198.51.100.1"),
    ("no address", "10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
    ("nothing", "10.0.0.1", "", "10.0.0.1"),
    ("more proxies than there can be", "10.0.0.1", "198.51.100.1" + ", 10.0.0.2" * 40, "10.0.0.2"),
]


@pytest.mark.parametrize(("what", "peer", "header", "client"), TABLE)
def test_the_last_address_that_is_not_a_trusted_proxy_is_the_clients(
    what: str, peer: str, header: str | None, client: str
) -> None:
    written = None if header is None else header.encode()
    assert TrustedProxies(["10.0.0.0/8"]).client(peer, written) == client, what
    assert TrustedProxies().client(peer, written) == peer, "nobody is trusted by default"


async def call_through_proxy(gateway: Gateway, forwarded: str) -> Answer:
    async with await Wire.connect(gateway) as wire:
        return await wire.ask(calling("demo__add").with_headers(x_forwarded_for=forwarded))


async def over_rest(gateway: Gateway, forwarded: str) -> Answer:
    call = {"type": "tool_use", "id": "a", "name": "demo__add", "input": {}}
    body = {"format": "anthropic", "message": {"role": "assistant", "content": [call]}}
    return await post(gateway, "/v1/tool-calls", body, x_forwarded_for=forwarded)


def is_limited(answer: Answer) -> bool:
    return b"RATE_LIMITED" in answer.body


@pytest.mark.parametrize("ask", [call_through_proxy, over_rest])
async def test_anonymous_agents_behind_a_trusted_proxy_are_told_apart(tmp_path: Path, ask: Any) -> None:
    more: dict[str, Any] = {"agent_calls_per_minute": 1, "trusted_proxies": ("127.0.0.1",)}
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), **more) as gateway,
    ):
        assert [is_limited(await ask(gateway, address)) for address in ("192.0.2.1", "192.0.2.2", "192.0.2.1")] == [
            False,
            False,
            True,
        ]
        assert is_limited(await ask(gateway, "198.51.100.7, 192.0.2.1")), (
            "who writes an address before it changes nothing"
        )
        assert gateway.endpoint.proxies.outcomes == {"taken": 4}
        page = (await expose_metrics(gateway.metrics))[0].decode()
        assert 'fairlead_forwarded_requests_total{outcome="taken"} 4.0' in page


@pytest.mark.parametrize("ask", [call_through_proxy, over_rest])
@pytest.mark.parametrize("trusted", [(), ("10.0.0.0/8",)])
async def test_the_header_of_anybody_else_has_no_effect(tmp_path: Path, ask: Any, trusted: tuple[str, ...]) -> None:
    """Without the guard, that is, if this machine is trusted as in the test above, the attack succeeds."""
    log = tmp_path / "audit.log"
    more: dict[str, Any] = {"agent_calls_per_minute": 1, "trusted_proxies": trusted, "audit_file": log}
    async with (
        modern_server([tool("add")]) as server,
        running(tmp_path, catalog("demo", server.url, ["add"]), **more) as gateway,
    ):
        outcomes = [is_limited(await ask(gateway, f"192.0.2.{number}")) for number in range(3)]
        assert outcomes == [False, True, True], "one agent, whatever it calls itself"
        assert gateway.endpoint.proxies.outcomes == ({"ignored": 3} if trusted else {})
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert {line["client"] for line in lines} == {"127.0.0.1"}


async def test_a_network_that_is_none_is_refused_with_a_sentence(tmp_path: Path) -> None:
    code, _, error = await fairlead(
        "gateway", "--documents", str(tmp_path), "--port", "0", FAIRLEAD_TRUSTED_PROXIES="10.0.0.1/8"
    )
    assert code == 1
    assert "FAIRLEAD_TRUSTED_PROXIES: 10.0.0.1/8 has host bits set; write networks such as 10.0.0.0/8" in error
