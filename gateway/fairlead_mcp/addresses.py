"""IP addresses and host names: as they are written, and which `Host` and `Origin` a request may carry.

Pure but for a small memory of what was allowed. `AllowList` is the defense against DNS rebinding: a browser that was
lured onto a name pointing at this machine sends that name as `Host`, and its page as `Origin`; neither is on the lists
(MCP 2025-11-25 and 2026-07-28, Transports, "Security").
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network
from typing import Final
from urllib.parse import urlsplit

EVERY_ADDRESS: Final = "::"
"""Address to listen on: every address of the machine, IPv4 ones too."""
EVERY_IPV4_ADDRESS: Final = "0.0.0.0"
_MAPPED: Final = "::ffff:"
_CLIENT_BITS: Final = 64
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
ANY: Final = "*"
_REMEMBERED: Final = 1024
_REMEMBERED_BYTES: Final = 256
"""Longer hosts are looked at each time: where any host is let in, a client chooses what would be kept."""


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


def is_loopback(host: str) -> bool:
    """Whether a bind address is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class AllowList:
    """Hosts and origins that are let in.

    An entry is a host name with or without a port (any port then), for origins with or without a scheme; `*` is
    anything.
    """

    def __init__(self, hosts: Iterable[str], origins: Iterable[str], *, cluster: bool = False) -> None:
        self._cluster = cluster
        self._hosts = frozenset(entry.lower() for entry in hosts)
        self._origins = frozenset(entry.lower().rstrip("/") for entry in origins)
        self._good_hosts: set[bytes] = set()

    @classmethod
    def for_bind(cls, host: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> AllowList:
        """The configured lists. Without one for hosts: local names on a loopback address, any name elsewhere.

        Local origins are allowed unless origins are configured.
        """
        default = LOCAL_NAMES if is_loopback(host) else (ANY,)
        return cls(tuple(hosts) or default, tuple(origins) or LOCAL_NAMES)

    @classmethod
    def for_operations(cls, host: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> AllowList:
        """As `for_bind`, and by what a cluster reaches pods: IP addresses (kubelets, Prometheus), names of Services."""
        default = LOCAL_NAMES if is_loopback(host) else (ANY,)
        return cls(tuple(hosts) or default, tuple(origins) or LOCAL_NAMES, cluster=True)

    def host(self, value: bytes | None) -> bool:
        if value in self._good_hosts:
            return True
        if value is None:
            return ANY in self._hosts
        if not self._allows(value.decode("latin-1").lower(), self._hosts):
            return False
        if len(value) <= _REMEMBERED_BYTES and len(self._good_hosts) < _REMEMBERED:
            self._good_hosts.add(value)
        return True

    def origin(self, value: bytes | None) -> bool:
        """A request without an origin does not come from a web page."""
        if value is None or ANY in self._origins:
            return True
        origin = value.decode("latin-1").lower()
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in ("http", "https"):
            return origin in self._origins
        return origin in self._origins or self._allows(parts.netloc, self._origins)

    def _allows(self, authority: str, entries: frozenset[str]) -> bool:
        if ANY in entries or authority in entries:
            return True
        name, colon, port = authority.rpartition(":")
        if colon and port.isdigit() and name in entries:
            return True
        return self._cluster and entries is self._hosts and is_within_cluster(authority)


def is_within_cluster(authority: str) -> bool:
    """Whether a Host is an IP address, or the name of a Service (`.svc`): no web page can have pointed such a name
    here, as public DNS has none.
    """
    name, colon, port = authority.rpartition(":")
    bare = name if colon and port.isdigit() else authority
    if bare.rstrip(".").endswith((".svc", ".svc.cluster.local")):
        return True
    try:
        ipaddress.ip_address(bare.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
