"""Addresses of the authorization server that only a server names, and of the endpoints of its metadata.

A remote server must not lead the gateway to what listens on the gateway's own machine or network, so there they have
public addresses, unless the server's own address is not public either. What the settings name is not judged here, but
by the rules of `fairlead_mcp.egress` alone, as everything is.
"""

from __future__ import annotations

from dataclasses import replace

from fairlead_api.documents.oauth import OAuthSettings
from fairlead_mcp.egress import AddressNotAllowed, is_loopback_address, is_public_address, service_namespace
from fairlead_mcp.http.dial import Address
from fairlead_mcp.http.target import Target
from fairlead_mcp.oauth.token_access import TokenAccess


def guard_named_hosts(settings: OAuthSettings, access: TokenAccess) -> TokenAccess:
    """The surroundings with a resolver that raises AddressNotAllowed for inner addresses that only the server names."""
    if settings.issuer or settings.token_url:
        return access
    own = Target.from_url(access.server_url)
    if _is_inside(own.host):
        return access
    resolve = access.resolve

    async def resolve_named(host: str, port: int) -> list[Address]:
        addresses = await resolve(host, port)
        if host == own.host:
            return addresses
        good = [address for address in addresses if is_public_address(address[0])]
        private = [address for address in addresses if not is_loopback_address(address[0])]
        if not good and private and not _is_inside(host):
            # of one private network, as the server; a name alone says nothing, for its owner can change its addresses
            mine = await resolve(own.host, own.port)
            good = [] if any(is_public_address(address[0]) for address in mine) else private
        if addresses and not good:
            target = f"{host}, which the server at {own.host} names, leads to an address that is not public"
            raise AddressNotAllowed(target, "issuer in the server's auth.userConsent")
        return good

    return replace(access, resolve=resolve_named)


def _is_inside(host: str) -> bool:
    """Whether a name or address says by itself that it is of this machine, its network or its cluster."""
    return not is_public_address(host, unless_name=True) or service_namespace(host.lower()) is not None
