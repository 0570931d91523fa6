"""IP addresses as they are written: with a port, of a client, of a pod. Pure module."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network
from typing import Final

EVERY_ADDRESS: Final = "::"
"""Address to listen on: every address of the machine, IPv4 ones too."""
EVERY_IPV4_ADDRESS: Final = "0.0.0.0"
_MAPPED: Final = "::ffff:"
_CLIENT_BITS: Final = 64


def authority(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address (RFC 3986 section 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_address(pod_ips: Iterable[str]) -> str:
    """Address that a process in a pod with these addresses listens on: `::` where one is IPv6, else `0.0.0.0`."""
    return EVERY_ADDRESS if any(":" in address for address in pod_ips) else EVERY_IPV4_ADDRESS


def unmapped(address: str) -> str:
    """The IPv4 address of a peer that a socket of both families calls `::ffff:192.0.2.1` (RFC 4291 section 2.5.5.2);
    any other as it is.
    """
    return address[len(_MAPPED) :] if address.startswith(_MAPPED) and "." in address else address


def client_of(address: str) -> str:
    """Name that an unknown client is counted by: its address, of IPv6 the /64 network, in which every machine may
    choose its address (RFC 4862, RFC 8981). Loopback addresses and what is not an address stay as they are.
    """
    return _network(address) if ":" in address else address


@lru_cache(maxsize=1024)
def _network(address: str) -> str:
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    if parsed.is_loopback or parsed.is_link_local:
        return address
    return str(IPv6Network((int(parsed), _CLIENT_BITS), strict=False))
