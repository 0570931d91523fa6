"""Overlay on the pods of a server: the fields of a pod template that servers may set in every installation.

The models are an allow-list: a field of a later Kubernetes is unknown until it is added here. Every valid overlay on
the generated template meets the Pod Security Standard "restricted". This module has no I/O.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from fairlead_api.meta import LABEL_MANAGED_BY, LABEL_NAME
from fairlead_api.patterns import IPV4_ADDRESS, IPV6_ADDRESS
from fairlead_api.v1alpha1.common import Model, ShortText
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.mcpserver.podcontainers import PodContainer, UserSecurity
from fairlead_api.v1alpha1.mcpserver.podplacement import (
    SPREAD_ONCE,
    PodAffinityRules,
    Toleration,
    TopologySpreadConstraint,
)
from fairlead_api.v1alpha1.mcpserver.podvolumes import PodVolume
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.names import LABEL_NAMES, Labels, ObjectName
from fairlead_api.v1alpha1.rules import ValidationRule

_PROFILES: Final = ("container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/")
"""Annotations that Kubernetes treats as members of a security context."""

ANNOTATIONS: Final = ValidationRule(
    cel="self.all(name, " + " && ".join(f"!name.startsWith('{prefix}')" for prefix in _PROFILES) + ")",
    message="AppArmor and seccomp cannot be set by annotations: use securityContext.seccompProfile",
    holds=lambda annotations: not any(name.startswith(_PROFILES) for name in annotations),
)

OWN_LABELS: Final = ValidationRule(
    cel=f"!('{LABEL_MANAGED_BY}' in self) && !('{LABEL_NAME}' in self)",
    message=f"remove {LABEL_MANAGED_BY} and {LABEL_NAME}: the operator sets these labels and selects the server's pods "
    "by them",
    holds=lambda labels: LABEL_MANAGED_BY not in labels and LABEL_NAME not in labels,
)


NOT_ALLOWED: Final = (
    "this installation does not allow spec.unrestrictedPodTemplate: remove it, or have servers.podTemplates of the "
    "chart set to Any (FAIRLEAD_POD_TEMPLATES of the operator)"
)
"""Message for an `unrestrictedPodTemplate` that is not allowed; the chart's admission policy has the same."""


class PodOverlayMetadata(Model):
    """Labels and annotations of the pods."""

    labels: Annotated[Labels, OWN_LABELS] | None = Field(default=None, max_length=64)
    """Labels in addition to those of the operator, by which Services and policies select the pods."""
    annotations: Annotated[dict[str, str], Field(max_length=64), LABEL_NAMES, ANNOTATIONS] | None = None
    """Annotations in addition to those of the operator."""


GroupId = Annotated[int, Field(ge=0, le=2147483647)]
IP_PATTERN: Final = f"^({IPV4_ADDRESS}|{IPV6_ADDRESS})$"
IpAddress = Annotated[str, Field(min_length=1, max_length=64, pattern=IP_PATTERN)]


class PodSecurity(UserSecurity):
    """Security context of the pod, within the Pod Security Standard "restricted"."""

    fs_group: int | None = Field(default=None, ge=0, le=2147483647)
    """Group that owns the files of volumes."""
    fs_group_change_policy: Literal["OnRootMismatch", "Always"] | None = None
    """When the group of files is changed."""
    supplemental_groups: list[GroupId] | None = Field(default=None, max_length=32)
    """Additional groups of the processes."""
    supplemental_groups_policy: Literal["Merge", "Strict"] | None = None
    """Whether the groups in the image count too."""


class LocalReference(Model):
    """Reference to an object of the same namespace."""

    atomic: ClassVar[bool] = True

    name: ObjectName
    """Name of the object."""


class HostAlias(Model):
    """Entry of `/etc/hosts`."""

    ip: IpAddress
    """IP address."""
    hostnames: list[ObjectName] = Field(default=[], max_length=32)
    """Host names of the address."""


class DnsOption(Model):
    """One option of the DNS resolver."""

    name: ShortText
    """Name of the option, such as `ndots`."""
    value: str | None = Field(default=None, max_length=253)
    """Value of the option, if it has one."""


class DnsConfig(Model):
    """Settings of the DNS resolver in addition to those of `dnsPolicy`."""

    nameservers: list[IpAddress] | None = Field(default=None, max_length=8)
    """Addresses of name servers."""
    searches: list[Annotated[str, Field(max_length=253)]] | None = Field(default=None, max_length=32)
    """Search domains for short names."""
    options: list[DnsOption] | None = Field(default=None, max_length=16)
    """Options of the DNS resolver."""


Containers = Annotated[list[PodContainer], Distinct(key="name"), Field(max_length=16)]


class PodOverlaySpec(Model):
    """Fields of the pod. Lists of named items are merged by name; other lists are replaced."""

    containers: Containers | None = None
    """Containers. `server` is the MCP server's container; the others run beside it."""
    init_containers: Containers | None = None
    """Init containers, which run before the others; with `restartPolicy: Always`, beside them."""
    volumes: Annotated[list[PodVolume], Distinct(key="name")] | None = Field(default=None, max_length=64)
    """Volumes in addition to the generated `tmp` and `home`, and `cache` for a package."""
    security_context: PodSecurity | None = None
    """User, groups and seccomp profile of all containers."""
    image_pull_secrets: Annotated[list[LocalReference], Distinct(key="name")] | None = Field(
        default=None, max_length=16
    )
    """Secrets for private registries, labelled `fairlead.dev/credential: "true"`."""

    node_selector: Labels | None = Field(default=None, max_length=32)
    """Labels that a node must have."""
    affinity: PodAffinityRules | None = None
    """Affinity to nodes and pods."""
    tolerations: list[Toleration] | None = Field(default=None, max_length=32)
    """Taints of nodes that the pod tolerates."""
    topology_spread_constraints: Annotated[list[TopologySpreadConstraint], SPREAD_ONCE] | None = Field(
        default=None, max_length=16
    )
    """How replicas are spread over zones and nodes."""

    termination_grace_period_seconds: int | None = Field(default=None, ge=0, le=86400)
    """Seconds that a pod has to stop."""
    dns_policy: Literal["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"] | None = None
    """DNS policy of the pod."""
    dns_config: DnsConfig | None = None
    """Settings of the DNS resolver."""
    host_aliases: Annotated[list[HostAlias], Distinct(key="ip")] | None = Field(default=None, max_length=32)
    """Entries of `/etc/hosts`."""
    enable_service_links: bool | None = None
    """Whether Services of the namespace become environment variables. Absent: no."""

    automount_service_account_token: Literal[False] | None = None
    """Whether the pod has an API server token. Never `true`."""
    host_network: Literal[False] | None = None
    """Whether the pod uses the node's network. Never `true`."""
    host_pid: Literal[False] | None = Field(default=None, alias="hostPID")
    """Whether the pod sees the node's processes. Never `true`."""
    host_ipc: Literal[False] | None = Field(default=None, alias="hostIPC")
    """Whether the pod sees the node's shared memory. Never `true`."""
    host_users: Literal[False] | None = None
    """Whether the pod uses the node's user ids. `false` maps them to others."""

    moved: ClassVar[tuple[MovedField, ...]] = (MovedField("runtimeClassName", "string", "spec.runtimeClassName"),)


class PodTemplateOverlay(Model):
    """Overlay on the generated pod template, merged member by member.

    Other fields need `unrestrictedPodTemplate`, if the installation allows it.
    """

    metadata: PodOverlayMetadata | None = None
    """Labels and annotations."""
    spec: PodOverlaySpec | None = None
    """The pod."""

    def overlay(self) -> dict[str, Any]:
        """The members that were set; null removes a member of the generated template."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
