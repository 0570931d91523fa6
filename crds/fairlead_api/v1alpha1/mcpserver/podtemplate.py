"""Overlay on the pods of a server: the fields of a pod template that every installation lets it set.

The models are an allow-list: a field that a later Kubernetes adds is unknown until it is listed here. What they take,
laid over the generated template, fulfils the Pod Security Standard "restricted". Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from fairlead_api.patterns import IPV4_ADDRESS, IPV6_ADDRESS
from fairlead_api.v1alpha1.common import Model, ShortText
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.mcpserver.podcontainers import PodContainer, UserSecurity
from fairlead_api.v1alpha1.mcpserver.podplacement import PodAffinityRules, Toleration, TopologySpreadConstraint
from fairlead_api.v1alpha1.mcpserver.podvolumes import PodVolume
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.names import LABEL_NAMES, Labels, ObjectName
from fairlead_api.v1alpha1.rules import ValidationRule

_PROFILES: Final = ("container.apparmor.security.beta.kubernetes.io/", "seccomp.security.alpha.kubernetes.io/")
"""Annotations that older versions read as members of a security context, and newer ones turn into such."""

ANNOTATIONS: Final = ValidationRule(
    cel="self.all(name, " + " && ".join(f"!name.startsWith('{prefix}')" for prefix in _PROFILES) + ")",
    message="AppArmor and seccomp are not set by annotations: use securityContext.seccompProfile",
    holds=lambda annotations: not any(name.startswith(_PROFILES) for name in annotations),
)


NOT_ALLOWED: Final = (
    "this installation does not let a server set spec.unrestrictedPodTemplate: leave it out, or have "
    "servers.podTemplates of the chart set to Any (FAIRLEAD_POD_TEMPLATES of the operator)"
)
"""Refusal of an `unrestrictedPodTemplate`; the chart's admission policy says the same."""


class PodOverlayMetadata(Model):
    """Labels and annotations of the pods."""

    labels: Labels | None = Field(default=None, max_length=64)
    """Added to those that Services and policies select the pods by."""
    annotations: Annotated[dict[str, str], Field(max_length=64), LABEL_NAMES, ANNOTATIONS] | None = None
    """Added to those of the operator."""


GroupId = Annotated[int, Field(ge=0, le=2147483647)]
IpAddress = Annotated[str, Field(min_length=1, max_length=64, pattern=f"^({IPV4_ADDRESS}|{IPV6_ADDRESS})$")]


class PodSecurity(UserSecurity):
    """Security context of the pod, within the Pod Security Standard "restricted"."""

    fs_group: int | None = Field(default=None, ge=0, le=2147483647)
    """Group that owns the files of volumes."""
    fs_group_change_policy: Literal["OnRootMismatch", "Always"] | None = None
    """When their owner is set."""
    supplemental_groups: list[GroupId] | None = Field(default=None, max_length=32)
    """Further groups of the processes."""
    supplemental_groups_policy: Literal["Merge", "Strict"] | None = None
    """Whether groups of the image's own count too."""


class LocalReference(Model):
    """An object of the same namespace, by its name."""

    atomic: ClassVar[bool] = True

    name: ObjectName
    """Its name."""


class HostAlias(Model):
    """Names that an address has in `/etc/hosts`."""

    ip: IpAddress
    """The address."""
    hostnames: list[ObjectName] = Field(default=[], max_length=32)
    """The names."""


class DnsOption(Model):
    """One option of the resolver."""

    name: ShortText
    """Name of the option, such as `ndots`."""
    value: str | None = Field(default=None, max_length=253)
    """Its value, where it has one."""


class DnsConfig(Model):
    """Settings of the resolver, beside those of `dnsPolicy`."""

    nameservers: list[IpAddress] | None = Field(default=None, max_length=8)
    """Addresses of name servers."""
    searches: list[Annotated[str, Field(max_length=253)]] | None = Field(default=None, max_length=32)
    """Domains that short names are looked up in."""
    options: list[DnsOption] | None = Field(default=None, max_length=16)
    """Options of the resolver."""


Containers = Annotated[list[PodContainer], Distinct(key="name"), Field(max_length=16)]


class PodOverlaySpec(Model):
    """Fields of the pod. Lists whose items have a name are merged by it, all others are replaced."""

    containers: Containers | None = None
    """Containers: `server` is that of the MCP server; others run beside it."""
    init_containers: Containers | None = None
    """Containers that run before, or beside with `restartPolicy: Always`."""
    volumes: Annotated[list[PodVolume], Distinct(key="name")] | None = Field(default=None, max_length=64)
    """Volumes; `tmp` and `home` are there, for a package `cache` too."""
    security_context: PodSecurity | None = None
    """User, groups and seccomp profile of all containers."""
    image_pull_secrets: Annotated[list[LocalReference], Distinct(key="name")] | None = Field(
        default=None, max_length=16
    )
    """Secrets for private registries, labelled `fairlead.dev/credential: "true"`."""

    node_selector: Labels | None = Field(default=None, max_length=32)
    """Labels that a node needs."""
    affinity: PodAffinityRules | None = None
    """Nodes and pods that it is placed by."""
    tolerations: list[Toleration] | None = Field(default=None, max_length=32)
    """Taints of nodes that do not keep it away."""
    topology_spread_constraints: list[TopologySpreadConstraint] | None = Field(default=None, max_length=16)
    """How replicas are spread over zones and nodes."""

    termination_grace_period_seconds: int | None = Field(default=None, ge=0, le=86400)
    """How long a pod may take to end."""
    dns_policy: Literal["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"] | None = None
    """Where names are looked up."""
    dns_config: DnsConfig | None = None
    """Settings of the resolver."""
    host_aliases: Annotated[list[HostAlias], Distinct(key="ip")] | None = Field(default=None, max_length=32)
    """Lines of `/etc/hosts`."""
    enable_service_links: bool | None = None
    """Whether Services of the namespace become environment variables. Absent: no."""

    automount_service_account_token: Literal[False] | None = None
    """A token of the API server: never."""
    host_network: Literal[False] | None = None
    """Network of the node: never."""
    host_pid: Literal[False] | None = Field(default=None, alias="hostPID")
    """Processes of the node: never."""
    host_ipc: Literal[False] | None = Field(default=None, alias="hostIPC")
    """Shared memory of the node: never."""
    host_users: Literal[False] | None = None
    """`false` maps the pod's users to others on the node."""

    moved: ClassVar[tuple[MovedField, ...]] = (MovedField("runtimeClassName", "string", "spec.runtimeClassName"),)


class PodTemplateOverlay(Model):
    """Laid over the generated pod template, member by member.

    What is not listed here goes into `unrestrictedPodTemplate`, where the installation allows that.
    """

    metadata: PodOverlayMetadata | None = None
    """Labels and annotations."""
    spec: PodOverlaySpec | None = None
    """The pod."""

    def overlay(self) -> dict[str, Any]:
        """As it was written: members that were set, null where one removes a member of the generated template."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
