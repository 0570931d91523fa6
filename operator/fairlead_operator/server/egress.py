"""Translates a server's `spec.network.egress` into the `egress` of its NetworkPolicy. Pure.

A NetworkPolicy cannot deny addresses. Addresses that no server may reach are therefore excluded from the allowed
networks: metadata services of clouds, which return secrets, and the API server unless `kubernetesAPI` is set.
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
"""Link-local addresses of metadata services. A CiliumNetworkPolicy does not deny the whole link-local range, because
nodes have name servers in it, which the denial would block too.
"""
_LOOKUPS: Final[Json] = {
    "toEndpoints": [{"matchLabels": {"k8s:io.kubernetes.pod.namespace": "kube-system", "k8s:k8s-app": "kube-dns"}}],
    "toPorts": [{"ports": [{"port": "53", "protocol": "ANY"}], "rules": {"dns": [{"matchPattern": "*"}]}}],
}
API_PORTS: Final = (443, 6443)
NEVER_ALLOWED: Final[tuple[_Network, ...]] = (ip_network("169.254.0.0/16"), ip_network("fe80::/10"), *METADATA_NETWORKS)
"""Networks that no server may reach."""


def egress_rules(egress: NetworkEgress, api_server: Sequence[str]) -> list[Json]:
    """The egress rules; the first allows name servers. `api_server` are the networks of the API server."""
    api_networks = tuple(ip_network(network, strict=False) for network in api_server)
    denied_networks = NEVER_ALLOWED if egress.kubernetes_api else (*NEVER_ALLOWED, *api_networks)
    rules = [policy_rule for rule in egress.rules if (policy_rule := _policy_rule(rule, denied_networks)) is not None]
    if egress.kubernetes_api and api_networks:
        peers = [{"ipBlock": {"cidr": str(network)}} for network in api_networks]
        rules.append({"to": peers, "ports": _ports(API_PORTS)})
    return [NAME_SERVERS, *rules]


def domain_rules(egress: NetworkEgress, api_server: Sequence[str]) -> Json | None:
    """`egress` and `egressDeny` of a CiliumNetworkPolicy for the rules with domain names; None without such rules.

    Cilium learns the addresses of names from DNS answers in its proxy, so the rules send lookups through that proxy. A
    name that resolves to a denied address opens nothing, because denials take precedence.
    """
    rules = [rule for rule in egress.rules if rule.domain_names]
    if not rules:
        return None
    denied_networks = [*_LINK_LOCAL, *map(str, METADATA_NETWORKS), *(() if egress.kubernetes_api else api_server)]
    return {"egress": [_LOOKUPS, *map(_domain_rule, rules)], "egressDeny": [{"toCIDR": sorted(set(denied_networks))}]}


def _domain_rule(rule: EgressRule) -> Json:
    """A Cilium egress rule that allows the domain names of `rule`."""
    names = [{"matchPattern" if "*" in name else "matchName": name} for name in rule.domain_names]
    ports = [{"port": str(port), "protocol": "TCP"} for port in rule.ports]
    return {"toFQDNs": names, **({"toPorts": [{"ports": ports}]} if ports else {})}


def _policy_rule(rule: EgressRule, denied_networks: Sequence[_Network]) -> Json | None:
    """A NetworkPolicy rule without the denied networks; None if all networks are denied, because a rule without peers
    would allow everything.
    """
    blocks = [block for cidr in rule.cidrs if (block := _ip_block(cidr, denied_networks)) is not None]
    peers = [{"ipBlock": block} for block in blocks] + [_pod_peer(peer) for peer in rule.pods]
    if not peers:
        return None
    return {"to": peers, **({"ports": _ports(rule.ports)} if rule.ports else {})}


def _ip_block(cidr: str, denied_networks: Iterable[_Network]) -> Json | None:
    """An `ipBlock` for a network without its denied parts; None if all of it is denied."""
    network = ip_network(cidr, strict=False)
    excluded_cidrs: list[str] = []
    for denied_network in denied_networks:
        if network.network_address in denied_network and network.prefixlen >= denied_network.prefixlen:
            return None
        if denied_network.network_address in network and denied_network.prefixlen >= network.prefixlen:
            excluded_cidrs.append(str(denied_network))
    return {"cidr": str(network), **({"except": excluded_cidrs} if excluded_cidrs else {})}


def _pod_peer(peer: PodPeer) -> Json:
    """The peer of a NetworkPolicy rule that selects pods by labels."""
    selectors: Json = {"podSelector": {"matchLabels": peer.labels} if peer.labels else {}}
    if peer.namespace_labels is not None:
        selectors["namespaceSelector"] = {"matchLabels": peer.namespace_labels} if peer.namespace_labels else {}
    return selectors


def _ports(ports: Iterable[int]) -> list[Json]:
    return [{"port": port, "protocol": "TCP"} for port in ports]
