"""Rules for the addresses that servers may have, against server-side request forgery through a server's `url`.

Operator and gateway resolve names through `Egress.guard`, which checks each resolved address right before the
connection: DNS rebinding has no effect. A name is judged by the namespace that it belongs to, an address by the network
that it is in. Redirects to other hosts are not followed. The module does no I/O apart from the resolver that it gets.
"""

from __future__ import annotations

import os
from asyncio import gather
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final

from fairlead_api.setting_types import check_host_or_network, parsed_network
from fairlead_mcp.addresses import service_namespace
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.dial import Address, NameOf, Resolve, Resolved, name_by_dns

_IN_A_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
METADATA_NETWORKS: Final = tuple(
    map(
        ip_network,
        (
            "100.100.100.200",  # Alibaba
            "168.63.129.16",  # Azure
            "192.0.0.192",  # Oracle
            "fd00:c1::a9fe:a9fe",  # Oracle
            "fd00:ec2::/32",  # AWS: the machine at ::254, credentials of a pod at ::23
            "fd20:ce::254",  # GCP
            "fd00:42::42",  # Scaleway
        ),
    )
)
"""Metadata services of clouds, which return a machine's credentials; the link-local 169.254.169.254 is denied
separately."""
_LAST_32_BITS: Final = tuple(
    map(
        ip_network,
        (
            "64:ff9b::/96",  # NAT64 (RFC 6052)
            "::ffff:0:0:0/96",  # IPv4-translated (RFC 2765)
            "::/96",  # IPv4-compatible, deprecated in RFC 4291
        ),
    )
)
"""IPv6 networks whose addresses embed an IPv4 address in their last 32 bits."""
_LOCAL_NAT64: Final = ip_network("64:ff9b:1::/48")
"""Local-use NAT64 (RFC 8215), with prefixes of 48 bits or any longer length of RFC 6052."""
_ISATAP: Final = frozenset((0x00005EFE, 0x02005EFE))
"""Bits 64 to 95 of an ISATAP address, which embeds an IPv4 address behind any prefix (RFC 5214)."""
_TRANSLATED: Final = (ip_network("64:ff9b::/96"), ip_network("::ffff:0:0/96"), _LOCAL_NAT64)
"""IPv6 networks whose addresses are as public as the IPv4 address that they embed."""
_GLOBAL_UNICAST: Final = ip_network("2000::/3")
_SPECIAL_USE: Final = (
    ip_network("192.88.99.0/24"),  # relays of 6to4, deprecated in RFC 7526
    ip_network("3fff::/20"),  # documentation (RFC 9637)
)
_NODE_PORTS: Final[Mapping[int, str]] = {
    10250: "the kubelet of a node",
    10255: "the kubelet of a node",
    10249: "the kube-proxy of a node",
    10256: "the kube-proxy of a node",
    10257: "the cluster's control plane",
    10259: "the cluster's control plane",
    2379: "the cluster's etcd",
    2380: "the cluster's etcd",
}
"""Ports of Kubernetes components on nodes. They are denied by port because the addresses of nodes are unknown here."""
NOT_ALLOWED: Final = "AddressNotAllowed"
_API_SERVER: Final = "kubernetes.default.svc"
MAX_ADDRESSES: Final = 32
"""Maximum number of addresses of a name that is not trusted. Each takes a reverse lookup, and a name server could name
thousands, whose lookups would keep those of other servers waiting.
"""

_Ip = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


class AddressNotAllowed(ConnectFailed):
    """A host resolves to an address that servers may not have; nothing was sent. `target` names host and address."""

    reason = NOT_ALLOWED

    def __init__(self, target: str, allowed_by: str) -> None:
        super().__init__(f"{target}, which is not allowed for servers; to allow it, set {allowed_by}")
        self.target = target

    @property
    def problem(self) -> str:
        return f"{self.target}, which is not allowed for servers"


class BadEgress(ValueError):
    """An entry of a setting is neither a host name or pattern nor a network; the message names setting and entry."""


@dataclass(frozen=True)
class Egress:
    """Egress rules of one installation. `Egress()` suits a laptop: it denies link-local and metadata addresses only.

    `confined` suits a pod: it also denies the pod itself, the API server and Services of other namespaces.
    """

    confined: bool = False
    hosts: tuple[str, ...] = ()
    """Names that are allowed even if they are Services of another namespace; `*` matches any text."""
    networks: tuple[_Network, ...] = ()
    """Networks whose addresses are allowed although a rule denies them."""
    denied: tuple[_Network, ...] = ()
    """Networks of the cluster's pods and Services, whose addresses only `hosts` and Services of the server's own
    namespace may have."""
    api_server: tuple[_Ip, ...] = ()
    """Addresses of the API server, which are denied."""
    api_names: tuple[str, ...] = ()
    """Names of the API server, whose addresses are denied as well."""

    @classmethod
    def of(
        cls,
        allowed: Sequence[str],
        denied: Sequence[str],
        *,
        confined: bool | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Egress:
        """Make the rules from settings: `allowed` has host names and networks, `denied` networks.

        `confined` defaults to whether this process runs in a pod. Raises BadEgress.
        """
        inside = _IN_A_POD.exists() if confined is None else confined
        hosts = tuple(entry.lower() for entry in allowed if _network(entry) is None)
        for host in hosts:
            try:
                check_host_or_network(host)
            except ValueError as error:
                raise BadEgress(
                    f"FAIRLEAD_ALLOWED_URLS: {host!r} is neither a host name, such as *.tools.svc, nor a network"
                ) from error
        kubernetes = environ.get("KUBERNETES_SERVICE_HOST", "")
        api = _parse_address(kubernetes)
        return cls(
            confined=inside,
            hosts=hosts,
            networks=tuple(network for entry in allowed if (network := _network(entry)) is not None),
            denied=tuple(_require_network(entry) for entry in denied),
            api_server=(api,) if inside and api is not None else (),
            api_names=tuple(name for name in (_API_SERVER, kubernetes) if name and _parse_address(name) is None)
            if inside
            else (),
        )

    def guard(self, resolve: Resolve, namespace: str, name_of: NameOf = name_by_dns) -> Resolve:
        """Wrap `resolve` for a server of `namespace`, so that it returns allowed addresses only.

        It raises AddressNotAllowed if all addresses are denied. `name_of` returns the DNS name of an address, by
        which a Service is recognized.
        """

        async def resolve_allowed(host: str, port: int) -> list[Address]:
            is_listed = self._matches_host(host)
            trusted = is_listed or self._is_own_service(host, namespace)
            resolved, *others = await gather(
                resolve(self._absolute_name(host), port), *(_resolve_optional(resolve, name) for name in self.api_names)
            )
            if not is_listed and isinstance(resolved, Resolved) and resolved.canonical:
                trusted = self._is_own_service(resolved.canonical, namespace)  # a name can be an alias of a Service
            api = {_parse_address(address) for each in others for address, _ in each}.union(self.api_server)
            names = [""] * len(resolved)
            if self.confined and not trusted:
                resolved = resolved[:MAX_ADDRESSES]
                names = await gather(*(name_of(address) for address, _ in resolved))
            denial = ""
            allowed_addresses = []
            for address, name in zip(resolved, names, strict=True):
                reason = self._explain_denial(
                    address[0], trusted=trusted, api=api, another=_describe_foreign_service(name, namespace)
                )
                if not reason and self.confined and not self._is_excepted(address[0]) and not is_listed:
                    reason = _NODE_PORTS.get(port, "")
                if reason:
                    denial = reason
                else:
                    allowed_addresses.append(address)
            if denial and not allowed_addresses:
                raise self._refusal(host, denial)
            return allowed_addresses

        return resolve_allowed

    def _matches_host(self, host: str) -> bool:
        """Whether `hosts` has a pattern that matches a name."""
        name = host.lower().removesuffix(".")
        return _parse_address(name) is None and any(fnmatchcase(name, allowed) for allowed in self.hosts)

    def _is_own_service(self, host: str, namespace: str) -> bool:
        """Whether a name is a Service of the server's own namespace. Raises AddressNotAllowed for another namespace."""
        name = host.lower().removesuffix(".")
        if _parse_address(name) is not None:
            return False
        if not self.confined:
            return False
        owner = service_namespace(name)
        if owner is not None and owner != namespace:
            service = f"{name}.{namespace}.svc"
            hint = "" if "." in name or name == "localhost" else f" (this namespace's Service is {service})"
            raise self._refusal(host, _describe_namespace(owner) + hint)
        return owner is not None

    def _absolute_name(self, host: str) -> str:
        """In a pod, append a dot to an external name, as the pod's DNS search list would first look up `a.b` as the
        Service `a` of namespace `b`.
        """
        is_absolute = not self.confined or host.endswith(".") or _parse_address(host) is not None
        return host if is_absolute or service_namespace(host.lower()) is not None else f"{host}."

    def _explain_denial(self, text: str, *, trusted: bool, api: AbstractSet[_Ip | None], another: str) -> str:
        """Describe where a denied address leads; empty for an allowed one. `another` describes a Service of another
        namespace that has the address.
        """
        address = _parse_address(text.partition("%")[0])
        if address is None:
            return "an address that cannot be parsed"
        if self._is_excepted(text):
            return ""
        for each in (address, *_embedded_addresses(address)):
            reason = self._classify(each, trusted=trusted, api=api)
            if reason:
                return reason
        return another

    def _is_excepted(self, text: str) -> bool:
        """Whether `networks` has an address, or the only IPv4 address that it embeds."""
        address = _parse_address(text.partition("%")[0])
        if address is None:
            return False
        inner = _embedded_addresses(address)
        meant = (address, *inner) if len(inner) < 2 else (address,)
        return any(each in network for each in meant for network in self.networks)

    def _classify(self, address: _Ip, *, trusted: bool, api: AbstractSet[_Ip | None]) -> str:
        if any(address in network for network in METADATA_NETWORKS):
            return "the address of a cloud's metadata service"
        if address.is_link_local:
            return "a link-local address"
        if address.is_multicast:
            return "a multicast address"
        if address in api:
            return "the API server"
        if self.confined and (address.is_loopback or address.is_unspecified):
            return "an address of this machine"
        if not trusted and any(address in network for network in self.denied):
            return "an address inside the cluster"
        return ""

    def _refusal(self, host: str, why: str) -> AddressNotAllowed:
        how = "servers.allowedUrls of the chart" if self.confined else "FAIRLEAD_ALLOWED_URLS"
        return AddressNotAllowed(f"{host} leads to {why}", how)


def _describe_foreign_service(name: str, namespace: str) -> str:
    """Describe an address whose DNS name belongs to a Service of another namespace; empty for other addresses.

    A name without a dot is from this machine's hosts file and says nothing.
    """
    owner = service_namespace(name.lower()) if "." in name else None
    if owner is None or owner == namespace:
        return ""
    return _describe_namespace(owner)


def _describe_namespace(owner: str) -> str:
    return f"a Service of namespace {owner}" if owner else "a name inside the cluster"


async def _resolve_optional(resolve: Resolve, name: str) -> list[Address]:
    """Resolve a name; empty if it does not exist."""
    try:
        return await resolve(name, 443)
    except (OSError, UnicodeError):
        return []


def public_only(resolve: Resolve) -> Resolve:
    """Wrap `resolve` so that it returns only public internet addresses, whatever the settings allow for servers. It
    raises AddressNotAllowed if a name has no such address.
    """

    async def resolve_public(host: str, port: int) -> list[Address]:
        addresses = await resolve(host, port)
        allowed_addresses = [address for address in addresses if is_public_address(address[0])]
        if addresses and not allowed_addresses:
            raise AddressNotAllowed(f"{host} leads to an address that is not public", "a host with a public address")
        return allowed_addresses

    return resolve_public


def is_public_address(text: str, *, default: bool = False) -> bool:
    """Whether an address and all addresses embedded in it are public internet addresses. Returns `default` if the
    text is not an address.
    """
    address = _parse_address(text.partition("%")[0])
    if address is None:
        return default
    return all(map(_is_public, (address, *_embedded_addresses(address))))


def _is_public(address: _Ip) -> bool:
    """Whether an address is a public internet address, ignoring what it embeds. Depending on its version, Python's
    `is_global` is also true for several special-purpose networks.
    """
    if address.is_multicast or any(address in network for network in (*METADATA_NETWORKS, *_SPECIAL_USE)):
        return False
    if isinstance(address, IPv6Address) and any(address in network for network in _TRANSLATED):
        return True
    return address.is_global and (isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST)


def is_loopback_address(text: str) -> bool:
    """Whether an address is a loopback address, or embeds one."""
    address = _parse_address(text.partition("%")[0])
    meant = () if address is None else (address, *_embedded_addresses(address))
    return any(each.is_loopback or each.is_unspecified for each in meant)


def _embedded_addresses(address: _Ip) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address may embed: several, if that depends on the network's settings."""
    if isinstance(address, IPv4Address):
        return ()
    bits = int(address)
    if inner := address.ipv4_mapped or address.sixtofour:
        return (inner,)
    if address.teredo is not None:
        return address.teredo
    if address in _LOCAL_NAT64:
        # RFC 6052, section 2.2: behind a prefix of 48, 56, 64 or 96 bits, without the bits 64 to 71.
        joined = (bits >> 64 & 0xFFFF) << 56 | (bits & 0xFFFFFFFFFFFFFF)
        words = [joined >> 40 & 0xFFFFFFFF, joined >> 32 & 0xFFFFFFFF, joined >> 24 & 0xFFFFFFFF, bits & 0xFFFFFFFF]
        return tuple(IPv4Address(each) for each in dict.fromkeys(words) if each)
    last = IPv4Address(bits & 0xFFFFFFFF)
    if any(address in network for network in _LAST_32_BITS):
        return (last,) if bits > 1 else ()
    return (last,) if bits >> 32 & 0xFFFFFFFF in _ISATAP else ()


def _parse_address(text: str) -> _Ip | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> _Network | None:
    try:
        return parsed_network(text)
    except ValueError:
        return None


def _require_network(text: str) -> _Network:
    network = _network(text)
    if network is None:
        raise BadEgress(f"FAIRLEAD_DENIED_NETWORKS: {text!r} is not a network, such as 10.96.0.0/12")
    return network
