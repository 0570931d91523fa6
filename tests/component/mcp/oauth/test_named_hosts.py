"""Authorization servers that a server names may have internal addresses only if the server has one."""

from __future__ import annotations

import msgspec
import pytest

from consentissuer import consent_world
from fairlead_api.documents.oauth import USER_CONSENT, OAuthSettings
from fairlead_mcp.egress import AddressNotAllowed
from fairlead_mcp.http.dial import Address, resolve_by_dns
from fairlead_mcp.oauth.errors import HOST_NOT_ALLOWED, GrantFailed
from fairlead_mcp.oauth.named_hosts import guard_named_hosts
from fairlead_mcp.oauth.token_access import TokenAccess

DISCOVERED = OAuthSettings(grant=USER_CONSENT)
REMOTE = "https://mcp.example.com/mcp"
NAMES = {
    "mcp.example.com": ["1.1.1.1"],
    "login.example.com": ["1.0.0.1"],
    "both.example.com": ["127.0.0.1", "1.0.0.1"],
    "mcp.corp.example": ["10.1.2.3"],
    "login.corp.example": ["10.1.2.4"],
    "loopback.example.com": ["127.0.0.1"],
    "mapped.example.com": ["::ffff:127.0.0.1"],
    "linear.team.svc": ["10.96.0.7"],
    "localhost": ["127.0.0.1", "::1"],
}


async def resolve(host: str, port: int) -> list[Address]:
    return [(address, port) for address in NAMES.get(host, [host])]


async def addresses(url: str, host: str, settings: OAuthSettings = DISCOVERED) -> list[str]:
    """Addresses of `host`, which the server at `url` names; empty if the host is refused."""
    access = guard_named_hosts(settings, TokenAccess(url, resolve))
    try:
        return [address for address, _ in await access.resolve(host, 443)]
    except AddressNotAllowed:
        return []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "::1",
        "0.0.0.0",
        "localhost",
        "loopback.example.com",
        "mapped.example.com",
        "10.1.2.4",
        "192.168.1.1",
        "100.64.0.1",
        "fd00::1",
        "64:ff9b::a00:1",
        "login.corp.example",
        "linear.team.svc",
    ],
)
async def test_a_remote_server_names_no_host_inside(host: str) -> None:
    assert await addresses(REMOTE, host) == []
    assert await addresses(REMOTE, host, OAuthSettings(grant=USER_CONSENT, issuer="https://as.example"))


async def test_a_remote_server_names_other_hosts_of_the_internet() -> None:
    assert await addresses(REMOTE, "login.example.com") == ["1.0.0.1"]
    assert await addresses(REMOTE, "both.example.com") == ["1.0.0.1"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "http://localhost:1/mcp", "http://linear.team.svc/mcp"])
async def test_a_server_that_is_inside_by_its_url_names_hosts_inside(url: str) -> None:
    assert await addresses(url, "127.0.0.1") == ["127.0.0.1"]
    assert await addresses(url, "login.corp.example") == ["10.1.2.4"]


async def test_a_server_of_a_private_network_names_hosts_of_private_networks_alone() -> None:
    url = "https://mcp.corp.example/mcp"
    assert await addresses(url, "mcp.corp.example") == ["10.1.2.3"]
    assert await addresses(url, "login.corp.example") == ["10.1.2.4"]
    for host in ("localhost", "127.0.0.1", "loopback.example.com", "mapped.example.com", "linear.team.svc"):
        assert await addresses(url, host) == []


async def test_metadata_of_a_remote_server_leads_to_no_address_of_this_machine() -> None:
    """By the resolver's answer, the server is remote. Its authorization server is at 127.0.0.1."""

    async def resolve_remote(host: str, port: int) -> list[Address]:
        return [("1.1.1.1", port)] if host == "mcp.example.com" else await resolve_by_dns(host, port)

    async with consent_world() as world:
        grant, _ = await world.sign_in("alice")
        before = len(world.issuer.received)
        world.server_url = "http://mcp.example.com/mcp"
        world.options["resolve"] = resolve_remote
        await world.store.write(world.key("alice"), msgspec.structs.replace(grant, server_address=world.server_url))
        with pytest.raises(GrantFailed, match=r"which the server at mcp\.example\.com names") as failed:
            await world.make_source().obtain(world.person("alice"))
        assert not await world.make_flow().revoke(grant)
        assert len(world.issuer.received) == before
        assert (await world.make_source(issuer=world.issuer.url).obtain(world.person("alice"))).value
    assert failed.value.cause == HOST_NOT_ALLOWED
