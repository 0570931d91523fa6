"""The CRD of CiliumNetworkPolicy, for API servers of tests. Cilium itself does not run."""

from __future__ import annotations

from typing import Any

POLICIES = "ciliumnetworkpolicies.cilium.io"


def _list_schema(**members: Any) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object", "properties": members}}


def definition() -> dict[str, Any]:
    """The CRD with the fields that Fairlead sets, so that the API server prunes all others."""
    text = {"type": "string"}
    labels = {"type": "object", "additionalProperties": text}
    chosen = {"type": "object", "properties": {"matchLabels": labels}}
    lookups = {"type": "object", "properties": {"dns": _list_schema(matchPattern=text)}}
    ports = _list_schema(
        ports=_list_schema(port=text, protocol={"type": "string", "enum": ["TCP", "UDP", "ANY"]}), rules=lookups
    )
    rule = _list_schema(
        toEndpoints={"type": "array", "items": chosen},
        toFQDNs=_list_schema(matchName=text, matchPattern=text),
        toPorts=ports,
    )
    denials = _list_schema(toCIDR={"type": "array", "items": {"type": "string", "format": "cidr"}})
    spec = {"type": "object", "properties": {"endpointSelector": chosen, "egress": rule, "egressDeny": denials}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    names = {"plural": "ciliumnetworkpolicies", "singular": "ciliumnetworkpolicy", "kind": "CiliumNetworkPolicy"}
    version = {"name": "v2", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": POLICIES},
        "spec": {"group": "cilium.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
