"""Restricts the addresses of authorization servers that only a server names, and of the endpoints in their metadata.

A remote server must not lead the gateway to services on the gateway's own machine or network. Hosts that it names must
therefore have public addresses, unless the server's own address is not public either. Hosts in the settings are not
restricted here. The rules of `fairlead_mcp.egress` apply to all hosts.
"""

from __future__ import annotations

from dataclasses import replace

from fairlead_api.documents.oauth import OAuthSettings
from fairlead_mcp.addresses import service_namespace
from fairlead_mcp.egress import AddressNotAllowed, is_loopback_address, is_public_address
from fairlead_mcp.http.dial import Address
from fairlead_mcp.http.target import Target
from fairlead_mcp.oauth.token_access import TokenAccess


def guard_named_hosts(settings: OAuthSettings, access: TokenAccess) -> TokenAccess:
    """Return `access` with a resolver that raises AddressNotAllowed for a host that only the server names, if the host
    has no public address.
    """
    if settings.issuer or settings.token_url:
        return access
    server = Target.from_url(access.server_url)
    if _is_inside(server.host):
        return access
    resolve = access.resolve

    async def resolve_named(host: str, port: int) -> list[Address]:
        addresses = await resolve(host, port)
        if host == server.host:
            return addresses
        allowed_addresses = [address for address in addresses if is_public_address(address[0])]
        private_addresses = [address for address in addresses if not is_loopback_address(address[0])]
        if not allowed_addresses and private_addresses and not _is_inside(host):
            # the server may be in the same private network, which only its current addresses show, not its name
            own_addresses = await resolve(server.host, server.port)
            allowed_addresses = (
                [] if any(is_public_address(address[0]) for address in own_addresses) else private_addresses
            )
        if addresses and not allowed_addresses:
            target = f"{host}, which the server at {server.host} names, leads to an address that is not public"
            raise AddressNotAllowed(target, "issuer in the server's auth.userConsent")
        return allowed_addresses

    return replace(access, resolve=resolve_named)


def _is_inside(host: str) -> bool:
    """Whether a host is in this machine, its network or its cluster, judged only by its name or literal address."""
    return not is_public_address(host, default=True) or service_namespace(host.lower()) is not None
