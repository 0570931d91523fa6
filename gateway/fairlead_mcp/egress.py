"""Where servers may be: what keeps a `url` from leading the operator or a gateway into places that are not its own.

Both connect through a `Resolve` of `Egress.guarded`, so the address that is connected to is the very one that was
looked at: a name that resolves to something else the next time is looked at the next time. Names are judged by what
they are, addresses by where they lead. Redirects are never followed, so there is no other way out.
Pure but for the resolver that it is given.
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
"""Where clouds tell a machine its secrets, beside the link-local 169.254.169.254."""
_LAST_32_BITS: Final = tuple(
    map(
        ip_network,
        (
            "64:ff9b::/96",  # NAT64 (RFC 6052)
            "::ffff:0:0:0/96",  # IPv4-translated (RFC 2765)
            "::/96",  # IPv4-compatible, given up in RFC 4291
        ),
    )
)
"""IPv6 for the IPv4 address of its last 32 bits."""
_LOCAL_NAT64: Final = ip_network("64:ff9b:1::/48")
"""NAT64 of a network's own (RFC 8215), with a prefix of any length that RFC 6052 knows from 48 bits on."""
_ISATAP: Final = frozenset((0x00005EFE, 0x02005EFE))
"""Bits 64 to 95 of an IPv6 address for an IPv4 address behind any prefix (RFC 5214)."""
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
"""Ports of what runs on every node, or beside the API server: the nodes' addresses are not known here."""
NOT_ALLOWED: Final = "AddressNotAllowed"
_API_SERVER: Final = "kubernetes.default.svc"

_Ip = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


class AddressNotAllowed(ConnectFailed):
    """A host leads to where no server may be; nothing was sent. `target` says which host, and where it leads."""

    reason = NOT_ALLOWED

    def __init__(self, target: str, allowed_by: str) -> None:
        super().__init__(f"{target}, where no server may be; {allowed_by} can allow it")
        self.target = target

    @property
    def problem(self) -> str:
        return f"{self.target}, where no server may be"


class BadEgress(ValueError):
    """An entry that is neither a host name with `*` in it nor a network; the message says which."""


@dataclass(frozen=True)
class Egress:
    """The rules of one installation. `Egress()` is that of a laptop: everything but link-local and metadata addresses.

    `confined` is that of a pod, which sees what its tenants must not: itself, the API server, the Services of others.
    """

    confined: bool = False
    hosts: tuple[str, ...] = ()
    """Names that are allowed although they are Services of another namespace; `*` stands for any part."""
    networks: tuple[_Network, ...] = ()
    """Addresses that are allowed although they are none for servers."""
    denied: tuple[_Network, ...] = ()
    """Addresses that only Services of a server's own namespace, and names in `hosts`, may have: those of the cluster's
    pods and Services."""
    api_server: tuple[_Ip, ...] = ()
    api_names: tuple[str, ...] = ()
    """Names of the API server: what they resolve to counts as its address too."""

    @classmethod
    def of(
        cls,
        allowed: Sequence[str],
        denied: Sequence[str],
        *,
        confined: bool | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Egress:
        """From settings. `allowed` has host names and networks, `denied` networks; None confines in a pod only.

        Raises BadEgress.
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
        api = _numeric(kubernetes)
        return cls(
            confined=inside,
            hosts=hosts,
            networks=tuple(network for entry in allowed if (network := _network(entry)) is not None),
            denied=tuple(_require(entry) for entry in denied),
            api_server=(api,) if inside and api is not None else (),
            api_names=tuple(name for name in (_API_SERVER, kubernetes) if name and _numeric(name) is None)
            if inside
            else (),
        )

    def guard(self, resolve: Resolve, namespace: str, name_of: NameOf = name_by_dns) -> Resolve:
        """`resolve` for a server of `namespace`: gives addresses that it may be at. Raises AddressNotAllowed where
        there is none. `name_of` tells which Service an address is that of.
        """

        async def look(host: str, port: int) -> list[Address]:
            listed = self._lists(host)
            trusted = listed or self._trusts(host, namespace)
            resolved, *others = await gather(
                resolve(self._absolute(host), port), *(_if_known(resolve, name) for name in self.api_names)
            )
            if not listed and isinstance(resolved, Resolved) and resolved.canonical:
                trusted = self._trusts(resolved.canonical, namespace)  # a Service can be an alias, too (ExternalName)
            api = {_numeric(address) for each in others for address, _ in each}.union(self.api_server)
            names = [""] * len(resolved)
            if self.confined and not trusted:
                names = await gather(*(name_of(address) for address, _ in resolved))
            refused = ""
            good = []
            for address, name in zip(resolved, names, strict=True):
                why = self._why_not(address[0], trusted=trusted, api=api, another=_of_another(name, namespace))
                if not why and self.confined and not self._lifts(address[0]) and not listed:
                    why = _NODE_PORTS.get(port, "")
                if why:
                    refused = why
                else:
                    good.append(address)
            if refused and not good:
                raise self._refusal(host, refused)
            return good

        return look

    def _lists(self, host: str) -> bool:
        """Whether a setting names it."""
        name = host.lower().removesuffix(".")
        return _numeric(name) is None and any(fnmatchcase(name, allowed) for allowed in self.hosts)

    def _trusts(self, host: str, namespace: str) -> bool:
        """Whether a name is known to lead to where this server may be. Raises AddressNotAllowed where it must not."""
        name = host.lower().removesuffix(".")
        if _numeric(name) is not None:
            return False
        if not self.confined:
            return False
        owner = service_namespace(name)
        if owner is not None and owner != namespace:
            raise self._refusal(host, _whereabouts(owner))
        return owner is not None

    def _absolute(self, host: str) -> str:
        """In a pod `a.b` would be tried as a Service first, by the search list of its resolver."""
        inside = not self.confined or host.endswith(".") or _numeric(host) is not None
        return host if inside or service_namespace(host.lower()) is not None else f"{host}."

    def _why_not(self, text: str, *, trusted: bool, api: AbstractSet[_Ip | None], another: str) -> str:
        address = _numeric(text.partition("%")[0])
        if address is None:
            return "an address that is not understood"
        if self._lifts(text):
            return ""
        for each in (address, *_within(address)):
            why = self._about(each, trusted=trusted, api=api)
            if why:
                return why
        return another

    def _lifts(self, text: str) -> bool:
        """Whether a setting names an address, or the IPv4 address that it certainly stands for."""
        address = _numeric(text.partition("%")[0])
        if address is None:
            return False
        inner = _within(address)
        meant = (address, *inner) if len(inner) < 2 else (address,)
        return any(each in network for each in meant for network in self.networks)

    def _about(self, address: _Ip, *, trusted: bool, api: AbstractSet[_Ip | None]) -> str:
        if any(address in network for network in METADATA_NETWORKS):
            return "an address for metadata of the machine"
        if address.is_link_local:
            return "a link-local address"
        if address.is_multicast:
            return "a multicast address"
        if address in api:
            return "the API server"
        if self.confined and (address.is_loopback or address.is_unspecified):
            return "this machine itself"
        if not trusted and any(address in network for network in self.denied):
            return "an address inside of the cluster"
        return ""

    def _refusal(self, host: str, why: str) -> AddressNotAllowed:
        how = "servers.allowedUrls of the chart" if self.confined else "FAIRLEAD_ALLOWED_URLS"
        return AddressNotAllowed(f"{host} leads to {why}", how)


def _of_another(name: str, namespace: str) -> str:
    """Description of an address by the name that the cluster's name server has for it, where that is not this
    namespace's; else empty. A bare name is from this machine's own list.
    """
    owner = service_namespace(name.lower()) if "." in name else None
    if owner is None or owner == namespace:
        return ""
    return _whereabouts(owner)


def _whereabouts(owner: str) -> str:
    return f"a Service of namespace {owner}" if owner else "a name inside of the cluster"


async def _if_known(resolve: Resolve, name: str) -> list[Address]:
    """The addresses of a name that may be one of nobody."""
    try:
        return await resolve(name, 443)
    except (OSError, UnicodeError):
        return []


def service_namespace(name: str) -> str | None:
    """The namespace that a name inside of a cluster belongs to: `demo.team.svc`, with more before and after it. Empty
    where it cannot be told, None for a name that is none of a cluster.
    """
    labels = name.removesuffix(".").split(".")
    if len(labels) == 1:
        return ""
    match = {
        labels[at - 1] if at > 1 else ""
        for at, label in enumerate(labels)
        if at > 0 and (label == "svc" or (label == "pod" and labels[at + 1 :] == ["cluster", "local"]))
    }
    if match:
        return match.pop() if len(match) == 1 else ""
    return "" if labels[-2:] == ["cluster", "local"] else None


def _within(address: _Ip) -> tuple[IPv4Address, ...]:
    """IPv4 addresses that an IPv6 address stands for: more than one, where that depends on a network's settings."""
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


def _numeric(text: str) -> _Ip | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> _Network | None:
    try:
        return parsed_network(text)
    except ValueError:
        return None


def _require(text: str) -> _Network:
    network = _network(text)
    if network is None:
        raise BadEgress(f"FAIRLEAD_DENIED_NETWORKS: {text!r} is not a network, such as 10.96.0.0/12")
    return network
