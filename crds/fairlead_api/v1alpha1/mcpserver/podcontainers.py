"""Containers of a pod template's overlay: probes, hooks and security context included.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import IntOrString, Model, ShortText
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.mcpserver.container import Argument, EnvFromSource, EnvVar, ResourceRequirements
from fairlead_api.v1alpha1.names import DnsLabel

MountPath = Annotated[str, Field(min_length=1, max_length=1024)]
Seconds = Annotated[int, Field(ge=0, le=86400)]
PortNumber = Annotated[int, Field(ge=1, le=65535)]


class SeccompProfile(Model):
    """System calls that a process may make."""

    type: Literal["RuntimeDefault", "Localhost"]
    """Which profile."""
    localhost_profile: ShortText | None = None
    """File of the node, for `Localhost`."""


class UserSecurity(Model):
    """User of the processes."""

    run_as_non_root: Literal[True] | None = None
    """Never `false`."""
    run_as_user: int | None = Field(default=None, ge=1, le=2147483647)
    """User id; never 0, which is root."""
    run_as_group: int | None = Field(default=None, ge=0, le=2147483647)
    """Group id."""
    seccomp_profile: SeccompProfile | None = None
    """Absent: `RuntimeDefault`."""


class Capabilities(Model):
    """Capabilities of the processes."""

    drop: list[Literal["ALL"]] | None = Field(default=None, min_length=1, max_length=1)
    """`[ALL]`, which is the default."""
    add: list[Literal["NET_BIND_SERVICE"]] | None = Field(default=None, max_length=1)
    """`[NET_BIND_SERVICE]`: ports below 1024."""


class ContainerSecurity(UserSecurity):
    """Security context of a container, within the Pod Security Standard "restricted"."""

    privileged: Literal[False] | None = None
    """Never `true`."""
    allow_privilege_escalation: Literal[False] | None = None
    """Never `true`."""
    read_only_root_filesystem: bool | None = None
    """Absent: `true` for the server."""
    capabilities: Capabilities | None = None
    """Absent: none."""


class ExecAction(Model):
    """A program within the container."""

    command: list[Argument] = Field(default=[], max_length=64)
    """Program and arguments; no shell reads them."""


class HttpHeader(Model):
    """A header of a probe's request."""

    name: ShortText
    """Name of the header."""
    value: str = Field(max_length=4096)
    """Its value."""


class HttpGetAction(Model):
    """A request to the pod itself: the kubelet would make one to another host past every NetworkPolicy."""

    path: str | None = Field(default=None, max_length=1024)
    """Path of the request."""
    port: IntOrString
    """Number or name of a port."""
    scheme: Literal["HTTP", "HTTPS"] | None = None
    """Absent: `HTTP`."""
    http_headers: list[HttpHeader] | None = Field(default=None, max_length=16)
    """Headers of the request."""


class TcpSocketAction(Model):
    """A connection to the pod itself."""

    port: IntOrString
    """Number or name of a port."""


class GrpcAction(Model):
    """A call of gRPC's health service."""

    port: PortNumber
    """Number of a port."""
    service: str | None = Field(default=None, max_length=253)
    """Name of the service that is asked for."""


class SleepAction(Model):
    """A pause."""

    seconds: Seconds
    """How long."""


class Handler(Model):
    """Action of the kubelet: one of its members. `null` takes a generated one away."""

    removable: ClassVar[frozenset[str]] = frozenset({"httpGet", "tcpSocket", "exec"})

    exec: ExecAction | None = None
    """Runs a program in the container."""
    http_get: HttpGetAction | None = None
    """Makes an HTTP request to the pod itself."""
    tcp_socket: TcpSocketAction | None = None
    """Opens a connection to the pod."""


class ContainerProbe(Handler):
    """How the kubelet looks whether the container works."""

    grpc: GrpcAction | None = None
    """Makes a call of gRPC to the pod."""
    initial_delay_seconds: Seconds | None = None
    """Wait before the first look."""
    timeout_seconds: Seconds | None = None
    """How long one may take."""
    period_seconds: Seconds | None = None
    """Time between two."""
    success_threshold: int | None = Field(default=None, ge=1, le=1000)
    """Good ones in a row that make it work."""
    failure_threshold: int | None = Field(default=None, ge=1, le=1000)
    """Bad ones in a row that make it fail."""
    termination_grace_period_seconds: Seconds | None = None
    """How long it may take to end after a failure."""


class LifecycleHandler(Handler):
    """Action at the start or the end of a container."""

    sleep: SleepAction | None = None
    """Waits."""


class Lifecycle(Model):
    """Hooks of a container."""

    post_start: LifecycleHandler | None = None
    """Right after its start."""
    pre_stop: LifecycleHandler | None = None
    """Before it is told to end."""
    stop_signal: ShortText | None = None
    """Signal that tells it to end."""


class ContainerPort(Model):
    """A port that the container listens on."""

    container_port: PortNumber
    """Its number."""
    name: Annotated[str, Field(min_length=1, max_length=15)] | None = None
    """Its name; `mcp` is the server's."""
    protocol: Literal["TCP", "UDP", "SCTP"] | None = None
    """Absent: `TCP`."""


class VolumeMount(Model):
    """Where a volume appears in the container."""

    mount_path: MountPath
    """Its folder or file."""
    name: DnsLabel | None = None
    """Name of the volume; absent where a generated mount is changed only."""
    sub_path: str | None = Field(default=None, max_length=1024)
    """Part of the volume."""
    sub_path_expr: str | None = Field(default=None, max_length=1024)
    """Part of the volume, with `$(VARIABLE)`."""
    read_only: bool | None = None
    """Absent: no."""


class PodContainer(Model):
    """A container: `server` is that of the MCP server, and its members are laid over the generated ones."""

    removable: ClassVar[frozenset[str]] = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"})

    name: DnsLabel
    """Its name."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Reference to its image."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled."""
    command: list[Argument] | None = Field(default=None, max_length=64)
    """Program; absent: the image's entry point."""
    args: list[Argument] | None = Field(default=None, max_length=128)
    """Arguments."""
    working_dir: str | None = Field(default=None, max_length=1024)
    """Folder that it starts in."""
    env: Annotated[list[EnvVar], Distinct(key="name")] | None = Field(default=None, max_length=256)
    """Environment variables."""
    env_from: list[EnvFromSource] | None = Field(default=None, max_length=32)
    """Secrets and ConfigMaps whose keys become environment variables."""
    resources: ResourceRequirements | None = None
    """Requests and limits."""
    restart_policy: Literal["Always"] | None = None
    """`Always` makes an init container run beside the others."""
    ports: Annotated[list[ContainerPort], Distinct(key="containerPort")] | None = Field(default=None, max_length=64)
    """Ports, none of the node's."""
    volume_mounts: Annotated[list[VolumeMount], Distinct(key="mountPath")] | None = Field(default=None, max_length=64)
    """Volumes."""
    liveness_probe: ContainerProbe | None = None
    """Restarts it when it fails."""
    readiness_probe: ContainerProbe | None = None
    """Takes it out of service while it fails; `null` takes the generated one away."""
    startup_probe: ContainerProbe | None = None
    """Holds the others back until it works."""
    lifecycle: Lifecycle | None = None
    """Hooks at start and end."""
    security_context: ContainerSecurity | None = None
    """User and privileges."""
    termination_message_path: ShortText | None = None
    """File of its last words."""
    termination_message_policy: Literal["File", "FallbackToLogsOnError"] | None = None
    """Where its last words are."""
