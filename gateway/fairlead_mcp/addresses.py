"""IP addresses and host names: their notation, and the check of the `Host` and `Origin` of requests. No I/O.

`AllowList` prevents DNS rebinding: a browser on a page whose name resolves to this machine sends that name as `Host`
and the page as `Origin`, and neither is listed (MCP 2025-11-25 and 2026-07-28, Transports, "Security").
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network
from typing import Final
from urllib.parse import urlsplit

EVERY_ADDRESS: Final = "::"
"""Bind address for all interfaces, over IPv6 and IPv4."""
EVERY_IPV4_ADDRESS: Final = "0.0.0.0"
_MAPPED: Final = "::ffff:"
_CLIENT_BITS: Final = 64
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
ANY: Final = "*"
"""Entry that allows every host or origin."""
_MAX_CACHED_HOSTS: Final = 1024
_MAX_CACHED_BYTES: Final = 256
"""Most bytes of a `Host` that is cached, as clients can fill the cache where any host is allowed."""


def is_address(host: str) -> bool:
    """Whether a host is an IP address, which may be in brackets, and not a name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def authority(host: str, port: int) -> str:
    """`host:port`, with brackets around an IPv6 address (RFC 3986 section 3.2.2)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_address(pod_ips: Iterable[str]) -> str:
    """Bind address of a process in a pod with these addresses: `::` if one of them is IPv6, else `0.0.0.0`."""
    return EVERY_ADDRESS if any(":" in address for address in pod_ips) else EVERY_IPV4_ADDRESS


def to_ipv4(address: str) -> str:
    """Convert an IPv4-mapped address such as `::ffff:192.0.2.1` (RFC 4291 section 2.5.5.2) to IPv4; return others
    unchanged.
    """
    return address[len(_MAPPED) :] if address.startswith(_MAPPED) and "." in address else address


def client_of(address: str) -> str:
    """Key for the limits of an unauthenticated client: its IPv4 address, or the /64 network of its IPv6 address, within
    which a machine may choose its address (RFC 4862, RFC 8981). Loopback addresses and other texts stay unchanged.
    """
    return _network(address) if ":" in address else address


@lru_cache(maxsize=1024)
def _network(address: str) -> str:
    try:
        ip = IPv6Address(address)
    except ValueError:
        return address
    if ip.is_loopback or ip.is_link_local:
        return address
    return str(IPv6Network((int(ip), _CLIENT_BITS), strict=False))


def is_loopback(host: str) -> bool:
    """Whether a bind address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class AllowList:
    """Hosts and origins that requests may have.

    An entry is a host name with a port, or without one for any port; entries for origins may have a scheme. `*` allows
    all. With `cluster`, hosts may also be IP addresses and names of Services.
    """

    def __init__(
        self, hosts: Iterable[str], origins: Iterable[str], *, cluster: bool = False, has_chosen_origins: bool = False
    ) -> None:
        self._cluster = cluster
        self._hosts = frozenset(entry.lower() for entry in hosts)
        self._origins = frozenset(entry.lower().rstrip("/") for entry in origins)
        self.has_chosen_origins = has_chosen_origins
        """Whether an administrator has chosen the origins; otherwise, they are the local ones by default."""
        self._good_hosts: set[bytes] = set()

    @classmethod
    def for_bind(cls, host: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> AllowList:
        """Make the list for a bind address. Hosts default to local names on a loopback address, else to any name.

        Origins default to local ones.
        """
        default = LOCAL_NAMES if is_loopback(host) else (ANY,)
        return cls(tuple(hosts) or default, tuple(origins) or LOCAL_NAMES, has_chosen_origins=bool(tuple(origins)))

    @classmethod
    def for_operations(cls, host: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> AllowList:
        """Make the list for the bind address of an operations port: like `for_bind`, and with the IP addresses and
        names of Services by which kubelets and Prometheus reach pods.
        """
        default = LOCAL_NAMES if is_loopback(host) else (ANY,)
        return cls(tuple(hosts) or default, tuple(origins) or LOCAL_NAMES, cluster=True)

    def allows_host(self, value: bytes | None) -> bool:
        """Whether a value of `Host` is allowed."""
        if value in self._good_hosts:
            return True
        if value is None:
            return ANY in self._hosts
        if not self._allows(value.decode("latin-1").lower(), self._hosts):
            return False
        if len(value) <= _MAX_CACHED_BYTES and len(self._good_hosts) < _MAX_CACHED_HOSTS:
            self._good_hosts.add(value)
        return True

    def allows_origin(self, value: bytes | None) -> bool:
        """Whether a value of `Origin` is allowed. A request without `Origin` is allowed, as it does not come from a
        page.
        """
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
    """Whether a `Host` is an IP address or the name of a Service (`.svc`), which public DNS cannot point at a pod."""
    name, colon, port = authority.rpartition(":")
    host = name if colon and port.isdigit() else authority
    if host.rstrip(".").endswith((".svc", ".svc.cluster.local")):
        return True
    return is_address(host)


def service_namespace(name: str) -> str | None:
    """Return the namespace of a name inside a cluster, such as `team` of `demo.team.svc.cluster.local`.

    Empty if the name is ambiguous, None for a name outside of clusters.
    """
    labels = name.removesuffix(".").split(".")
    if len(labels) == 1:
        return ""
    namespaces = {
        labels[at - 1] if at > 1 else ""
        for at, label in enumerate(labels)
        if at > 0 and (label == "svc" or (label == "pod" and labels[at + 1 :] == ["cluster", "local"]))
    }
    if namespaces:
        return namespaces.pop() if len(namespaces) == 1 else ""
    return "" if labels[-2:] == ["cluster", "local"] else None
