"""Connections that the pods of a server may open.

This module has no I/O.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final

from pydantic import Field

from fairlead_api.patterns import IPV4_ADDRESS, IPV4_LENGTH, IPV6_ADDRESS, IPV6_LENGTH
from fairlead_api.v1alpha1.common import Model
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.names import LabelValue
from fairlead_api.v1alpha1.rules import ValidationRule

_CIDR: Final = f"^({IPV4_ADDRESS}{IPV4_LENGTH}|{IPV6_ADDRESS}{IPV6_LENGTH})$"

CIDR: Final = ValidationRule(
    cel=f"self.matches(r'{_CIDR}')",
    message="must be a network with its prefix length, such as 10.1.0.0/16 or 203.0.113.7/32",
    holds=lambda text: re.fullmatch(_CIDR, text) is not None,
)

_DOMAIN: Final = r"^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]*[a-z0-9])?$"

DOMAIN: Final = ValidationRule(
    cel=f"self.matches(r'{_DOMAIN}')",
    message="must be a domain name in lower case, such as api.example.com, or *.example.com for its direct subdomains",
    holds=lambda text: re.fullmatch(_DOMAIN, text) is not None,
)

DomainName = Annotated[str, Field(min_length=1, max_length=253), DOMAIN]
Cidr = Annotated[str, Field(min_length=1, max_length=64), CIDR]
Port = Annotated[int, Field(ge=1, le=65535)]


class PodPeer(Model):
    """Pods of the cluster, by their labels and by those of their namespace."""

    namespace_labels: dict[str, LabelValue] | None = Field(default=None, max_length=16)
    """Labels of the namespaces; an empty map is every namespace. Absent: the server's own namespace."""
    labels: dict[str, LabelValue] = Field(default={}, max_length=16)
    """Labels of the pods. Empty: all pods of these namespaces."""


class EgressRule(Model):
    """Allowed destinations; each may be reached at each of the ports."""

    cidrs: Annotated[list[Cidr], Distinct()] = Field(default=[], max_length=64)
    """Networks. Cloud metadata addresses and the API server are always excluded."""
    pods: list[PodPeer] = Field(default=[], max_length=32)
    """Pods of the cluster."""
    domain_names: Annotated[list[DomainName], Distinct()] = Field(default=[], max_length=64)
    """Host names; `*.example.com` stands for its direct subdomains. Needs Cilium."""
    ports: Annotated[list[Port], Distinct()] = Field(default=[], max_length=64)
    """TCP ports. Empty: every port and protocol."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="(has(self.cidrs) && size(self.cidrs) > 0) || (has(self.pods) && size(self.pods) > 0) || "
            "(has(self.domainNames) && size(self.domainNames) > 0)",
            message="must have a destination: set cidrs, pods or domainNames",
            holds=lambda rule: bool(rule.cidrs or rule.pods or rule.domain_names),
        ),
    )


class NetworkEgress(Model):
    """All destinations that the pods may connect to, in addition to name servers. Empty: none."""

    rules: list[EgressRule] = Field(default=[], max_length=32)
    """Allowed destinations."""
    kubernetes_api: bool = Field(default=False, alias="kubernetesAPI")
    """Whether the pods may connect to the cluster's API server. It requires a credential, which pods only have if
    `podTemplate` gives them one."""


class Network(Model):
    """Allowed connections of the pods. It has an effect only if the cluster enforces NetworkPolicies."""

    egress: NetworkEgress | None = None
    """Destinations that the pods may connect to. Absent: any."""
