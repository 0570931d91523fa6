"""Containers of a pod template's overlay, including probes, hooks and security context.

This module has no I/O.
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
    """Type of the profile."""
    localhost_profile: ShortText | None = None
    """File on the node, for `Localhost`."""


class UserSecurity(Model):
    """User of a container's processes."""

    run_as_non_root: Literal[True] | None = None
    """Whether the kubelet rejects containers that run as root. Never `false`."""
    run_as_user: int | None = Field(default=None, ge=1, le=2147483647)
    """User id; never 0, which is root."""
    run_as_group: int | None = Field(default=None, ge=0, le=2147483647)
    """Group id."""
    seccomp_profile: SeccompProfile | None = None
    """Seccomp profile. Absent: `RuntimeDefault`."""


class Capabilities(Model):
    """Linux capabilities of a container's processes."""

    drop: list[Literal["ALL"]] | None = Field(default=None, min_length=1, max_length=1)
    """Capabilities to drop: `[ALL]`, which is the default."""
    add: list[Literal["NET_BIND_SERVICE"]] | None = Field(default=None, max_length=1)
    """Capabilities to add: `[NET_BIND_SERVICE]`, for ports below 1024."""


class ContainerSecurity(UserSecurity):
    """Security context of a container, within the Pod Security Standard "restricted"."""

    privileged: Literal[False] | None = None
    """Whether the container is privileged. Never `true`."""
    allow_privilege_escalation: Literal[False] | None = None
    """Whether a process can gain privileges. Never `true`."""
    read_only_root_filesystem: bool | None = None
    """Whether the root file system is read-only. Absent: `true` for the server."""
    capabilities: Capabilities | None = None
    """Linux capabilities. Absent: none."""


class ExecAction(Model):
    """A program within the container."""

    command: list[Argument] = Field(default=[], max_length=64)
    """Program and arguments, which run without a shell."""


class HttpHeader(Model):
    """A header of a probe's request."""

    name: ShortText
    """Name of the header."""
    value: str = Field(max_length=4096)
    """Value of the header."""


class HttpGetAction(Model):
    """An HTTP request to the pod itself. Other hosts are not allowed: the kubelet would bypass every NetworkPolicy."""

    path: str | None = Field(default=None, max_length=1024)
    """Path of the request."""
    port: IntOrString
    """Number or name of a port."""
    scheme: Literal["HTTP", "HTTPS"] | None = None
    """URL scheme. Absent: `HTTP`."""
    http_headers: list[HttpHeader] | None = Field(default=None, max_length=16)
    """Headers of the request."""


class TcpSocketAction(Model):
    """A connection to the pod itself."""

    port: IntOrString
    """Number or name of a port."""


class GrpcAction(Model):
    """A call of gRPC's health checking service."""

    port: PortNumber
    """Number of a port."""
    service: str | None = Field(default=None, max_length=253)
    """Name of the service to check."""


class SleepAction(Model):
    """A pause."""

    seconds: Seconds
    """Length of the pause in seconds."""


class Handler(Model):
    """Action of the kubelet: exactly one of its actions, such as `exec`, is set. `null` removes a generated one."""

    removable: ClassVar[frozenset[str]] = frozenset({"httpGet", "tcpSocket", "exec"})

    exec: ExecAction | None = None
    """Runs a program in the container."""
    http_get: HttpGetAction | None = None
    """Makes an HTTP request to the pod itself."""
    tcp_socket: TcpSocketAction | None = None
    """Opens a connection to the pod."""


class ContainerProbe(Handler):
    """Check of the kubelet whether the container works."""

    grpc: GrpcAction | None = None
    """Calls the gRPC health checking service of the pod."""
    initial_delay_seconds: Seconds | None = None
    """Seconds before the first check."""
    timeout_seconds: Seconds | None = None
    """Seconds that one check may take."""
    period_seconds: Seconds | None = None
    """Seconds between two checks."""
    success_threshold: int | None = Field(default=None, ge=1, le=1000)
    """Number of successful checks in a row after which the container counts as working."""
    failure_threshold: int | None = Field(default=None, ge=1, le=1000)
    """Number of failed checks in a row after which the probe fails."""
    termination_grace_period_seconds: Seconds | None = None
    """Seconds that the container has to exit after the probe failed."""


class LifecycleHandler(Handler):
    """Action after the start or before the stop of a container."""

    sleep: SleepAction | None = None
    """Pauses."""


class Lifecycle(Model):
    """Hooks of a container."""

    post_start: LifecycleHandler | None = None
    """Action right after the start."""
    pre_stop: LifecycleHandler | None = None
    """Action before the stop signal is sent."""
    stop_signal: ShortText | None = None
    """Signal that stops the container."""


class ContainerPort(Model):
    """A port that the container listens on."""

    container_port: PortNumber
    """Port number."""
    name: Annotated[str, Field(min_length=1, max_length=15)] | None = None
    """Name of the port; the server's port is `mcp`."""
    protocol: Literal["TCP", "UDP", "SCTP"] | None = None
    """Protocol. Absent: `TCP`."""


class VolumeMount(Model):
    """Mount of a volume in the container."""

    mount_path: MountPath
    """Path of the mount in the container."""
    name: DnsLabel | None = None
    """Name of the volume; absent to only change a generated mount."""
    sub_path: str | None = Field(default=None, max_length=1024)
    """Path within the volume."""
    sub_path_expr: str | None = Field(default=None, max_length=1024)
    """Path within the volume, with variables as `$(VARIABLE)`."""
    read_only: bool | None = None
    """Whether the mount is read-only. Absent: no."""


class PodContainer(Model):
    """A container. `server` is the MCP server's container, whose members override the generated ones."""

    removable: ClassVar[frozenset[str]] = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"})

    name: DnsLabel
    """Name of the container."""
    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Reference to the image."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When to pull the image."""
    command: list[Argument] | None = Field(default=None, max_length=64)
    """Program. Absent: the image's entry point."""
    args: list[Argument] | None = Field(default=None, max_length=128)
    """Arguments of the program."""
    working_dir: str | None = Field(default=None, max_length=1024)
    """Working directory."""
    env: Annotated[list[EnvVar], Distinct(key="name")] | None = Field(default=None, max_length=256)
    """Environment variables."""
    env_from: list[EnvFromSource] | None = Field(default=None, max_length=32)
    """Secrets and ConfigMaps whose keys become environment variables."""
    resources: ResourceRequirements | None = None
    """Resource requests and limits."""
    restart_policy: Literal["Always"] | None = None
    """`Always` makes an init container a sidecar, which runs beside the others."""
    ports: Annotated[list[ContainerPort], Distinct(key="containerPort")] | None = Field(default=None, max_length=64)
    """Ports of the container; host ports are not allowed."""
    volume_mounts: Annotated[list[VolumeMount], Distinct(key="mountPath")] | None = Field(default=None, max_length=64)
    """Mounts of volumes."""
    liveness_probe: ContainerProbe | None = None
    """Probe whose failure restarts the container."""
    readiness_probe: ContainerProbe | None = None
    """Probe during whose failure the pod receives no traffic; `null` removes the generated probe."""
    startup_probe: ContainerProbe | None = None
    """Probe that must succeed before the other probes start."""
    lifecycle: Lifecycle | None = None
    """Hooks after the start and before the stop."""
    security_context: ContainerSecurity | None = None
    """User and privileges."""
    termination_message_path: ShortText | None = None
    """File with the container's termination message."""
    termination_message_policy: Literal["File", "FallbackToLogsOnError"] | None = None
    """Source of the termination message."""
