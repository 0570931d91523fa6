"""`spec.network.egress` of a server as the `egress` of its NetworkPolicy. Pure.

A NetworkPolicy knows no denial, so what no server may reach is taken out of the networks that are allowed: addresses at
which clouds tell a machine its secrets, and the API server unless the server asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from fairlead_api.v1alpha1.mcpserver.network import EgressRule, NetworkEgress, PodPeer
from fairlead_mcp.egress import METADATA_NETWORKS

Json = dict[str, Any]
_Network = IPv4Network | IPv6Network

NAME_SERVERS: Final[Json] = {"ports": [{"port": 53, "protocol": protocol} for protocol in ("UDP", "TCP")]}
_LINK_LOCAL: Final = ("169.254.169.254/32", "169.254.170.0/24")
"""Metadata services of link-local addresses; others of these are name servers of nodes."""
_LOOKUPS: Final[Json] = {
    "toEndpoints": [{"matchLabels": {"k8s:io.kubernetes.pod.namespace": "kube-system", "k8s:k8s-app": "kube-dns"}}],
    "toPorts": [{"ports": [{"port": "53", "protocol": "ANY"}], "rules": {"dns": [{"matchPattern": "*"}]}}],
}
API_PORTS: Final = (443, 6443)
NEVER: Final[tuple[_Network, ...]] = (ip_network("169.254.0.0/16"), ip_network("fe80::/10"), *METADATA_NETWORKS)


def egress_rules(egress: NetworkEgress, api_server: Sequence[str]) -> list[Json]:
    """The rules, name servers first. `api_server` are the networks that the API server is in."""
    api = tuple(ip_network(network, strict=False) for network in api_server)
    denied = NEVER if egress.kubernetes_api else (*NEVER, *api)
    made = [rule for each in egress.rules if (rule := _rule(each, denied)) is not None]
    if egress.kubernetes_api and api:
        made.append({"to": [{"ipBlock": {"cidr": str(each)}} for each in api], "ports": _ports(API_PORTS)})
    return [NAME_SERVERS, *made]


def domain_rules(egress: NetworkEgress, api_server: Sequence[str]) -> Json | None:
    """`egress` and `egressDeny` of a CiliumNetworkPolicy for the rules with domain names; None where there is none.

    Cilium learns the addresses of names from the answers that its proxy sees, so lookups go through that. A name that
    leads to what no server may reach opens nothing: a denial goes before what is allowed.
    """
    rules = [rule for rule in egress.rules if rule.domain_names]
    if not rules:
        return None
    denied = [*_LINK_LOCAL, *map(str, METADATA_NETWORKS), *(() if egress.kubernetes_api else api_server)]
    return {"egress": [_LOOKUPS, *map(_domains, rules)], "egressDeny": [{"toCIDR": sorted(set(denied))}]}


def _domains(rule: EgressRule) -> Json:
    names = [{"matchPattern" if "*" in name else "matchName": name} for name in rule.domain_names]
    ports = [{"port": str(port), "protocol": "TCP"} for port in rule.ports]
    return {"toFQDNs": names, **({"toPorts": [{"ports": ports}]} if ports else {})}


def _rule(rule: EgressRule, denied: Sequence[_Network]) -> Json | None:
    """None where all of it is denied: a rule without peers would allow everything."""
    blocks = [block for cidr in rule.cidrs if (block := _block(cidr, denied)) is not None]
    peers = [{"ipBlock": block} for block in blocks] + [_pods(peer) for peer in rule.pods]
    if not peers:
        return None
    return {"to": peers, **({"ports": _ports(rule.ports)} if rule.ports else {})}


def _block(cidr: str, denied: Iterable[_Network]) -> Json | None:
    """The network without what is denied in it; None where all of it is."""
    network = ip_network(cidr, strict=False)
    excluded: list[str] = []
    for each in denied:
        inside = each.network_address in network and each.prefixlen >= network.prefixlen
        whole = network.network_address in each and network.prefixlen >= each.prefixlen
        if whole:
            return None
        if inside:
            excluded.append(str(each))
    return {"cidr": str(network), **({"except": excluded} if excluded else {})}


def _pods(peer: PodPeer) -> Json:
    made: Json = {"podSelector": {"matchLabels": peer.labels} if peer.labels else {}}
    if peer.namespace_labels is not None:
        made["namespaceSelector"] = {"matchLabels": peer.namespace_labels} if peer.namespace_labels else {}
    return made


def _ports(ports: Iterable[int]) -> list[Json]:
    return [{"port": port, "protocol": "TCP"} for port in ports]
