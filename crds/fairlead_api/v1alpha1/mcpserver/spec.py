"""The spec of an McpServer: where it runs, how it is spoken to, what Fairlead does with it.

The one place for its fields; rules between them stand in `spec_rules`. Pure.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Model
from fairlead_api.v1alpha1.lists import Distinct
from fairlead_api.v1alpha1.mcpserver.auth import Auth
from fairlead_api.v1alpha1.mcpserver.container import (
    Argument,
    EnvFromSource,
    EnvVar,
    Package,
    ResourceRequirements,
)
from fairlead_api.v1alpha1.mcpserver.operation import Calibration, Discovery, ServerLimits
from fairlead_api.v1alpha1.mcpserver.spec_rules import CA_BUNDLE, HOST_HEADER, IMAGE, PATH, PREFIX, SPEC, URL
from fairlead_api.v1alpha1.mcpserver.status import Transport
from fairlead_api.v1alpha1.mcpserver.tools import ToolOverride
from fairlead_api.v1alpha1.rules import ValidationRule

SourceKind = Literal["image", "package", "url", "command"]

DEFAULT_PORT: Final = 8080
_DEFAULT_PATHS: Final = {"streamable-http": "/mcp", "sse": "/sse", "stdio": ""}


class McpServerSpec(Model):
    """Exactly one of `image`, `package`, `url`, or `command` alone says where the server runs."""

    image: Annotated[str, Field(min_length=1, max_length=512), IMAGE] | None = None
    """Container image of the server, which the operator deploys. On a cluster only."""
    package: Package | None = None
    """Published package of the server: run in a runner image on a cluster, as a child process off one."""
    url: Annotated[str, Field(min_length=1, max_length=2048), URL] | None = None
    """Address of a server that runs elsewhere, with its path: `https://tools.example.com/mcp`."""
    command: list[Argument] | None = Field(default=None, min_length=1, max_length=64)
    """With `image`: what its container runs, instead of the image's own entry point.
    Alone: a local child process speaking stdio, for `fairlead up` only."""
    args: list[Argument] = Field(default=[], max_length=128)
    """Arguments, one per item; no shell reads them. A package has arguments of its own."""

    transport: Transport | None = None
    """How the server speaks MCP.
    Absent: `streamable-http` for `image` and `url`, `stdio` for `package` and `command`."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port that an image listens on. Absent: 8080."""
    path: Annotated[str, Field(min_length=1, max_length=1024), PATH] | None = None
    """Path of the MCP endpoint of an image. Absent: `/mcp`, for `sse` `/sse`."""
    host_header: Annotated[str, Field(min_length=1, max_length=253), HOST_HEADER] | None = None
    """Sent as `Host`, for servers that answer to certain names only. Absent: the address that is dialled."""

    env: Annotated[list[EnvVar], Distinct(key="name")] = Field(default=[], max_length=256)
    """Environment variables of a server that Fairlead starts."""
    env_from: list[EnvFromSource] = Field(default=[], max_length=32)
    """Secrets and ConfigMaps whose keys become environment variables."""
    resources: ResourceRequirements | None = None
    """Resources of the container. Absent: the namespace's defaults."""
    replicas: int | None = Field(default=None, ge=0, le=1000)
    """Pods; 0 stops the server. Absent: 1."""
    pod_template: dict[str, Any] | None = None
    """Overlay on the generated pod template (`metadata`, `spec`), merged strategically:
    nodes, volumes, security context."""

    auth: Auth | None = None
    """Credential that is sent to the server. Absent: none. A server on stdio takes it from `env` instead."""
    ca_bundle: Annotated[str, Field(min_length=1, max_length=131072), CA_BUNDLE] | None = None
    """Certificates (PEM) that an https server is verified against. Absent: the authorities of the system."""

    prefix: Annotated[str, Field(min_length=1, max_length=40), PREFIX] | None = None
    """Put before the names of its tools: `PREFIX__TOOL`.
    Absent: the resource's name, or `namespace-name`, as installed."""
    trust_annotations: bool | None = None
    """Whether the server's own `readOnlyHint` and `idempotentHint` allow retries, hedges and, with
    `calibration.probe: ReadOnly`, probes.
    Absent: true for `image`, `package` and `command`, false for `url`."""
    pin: bool = False
    """Whether definitions that change are held back until the annotation `fairlead.dev/approve` names their hash.
    What was approved, or listed first, is served meanwhile."""
    discovery: Discovery = Discovery()
    """When the server's tools are listed, and what becomes of them when it is gone."""
    calibration: Calibration = Calibration()
    """Which of its tools Fairlead calls by itself to measure them."""
    session: Literal["Shared", "PerClient"] = "Shared"
    """`Shared`: all clients share sessions with the server.
    `PerClient`: each has one of its own, for servers that keep state."""
    limits: ServerLimits = ServerLimits()
    """Bounds on the calls to this server."""
    tools: Annotated[list[ToolOverride], Distinct(key="name")] = Field(default=[], max_length=1000)
    """Overrides for single tools; a tool that is not named here is offered as the server lists it."""

    guards: ClassVar[tuple[ValidationRule, ...]] = SPEC

    @property
    def source_kind(self) -> SourceKind:
        """Where the server runs."""
        if self.image is not None:
            return "image"
        if self.package is not None:
            return "package"
        return "url" if self.url is not None else "command"

    @property
    def effective_transport(self) -> Transport:
        """`transport`, or its default for the source."""
        if self.transport is not None:
            return self.transport
        return "streamable-http" if self.source_kind in ("image", "url") else "stdio"

    @property
    def effective_port(self) -> int:
        """Port of an image's container."""
        return DEFAULT_PORT if self.port is None else self.port

    @property
    def effective_path(self) -> str:
        """Path of an image's endpoint; empty for stdio."""
        return _DEFAULT_PATHS[self.effective_transport] if self.path is None else self.path

    @property
    def effective_replicas(self) -> int:
        """Pods wanted."""
        return 1 if self.replicas is None else self.replicas

    @property
    def trusts_annotations(self) -> bool:
        """`trustAnnotations`, or its default for the source."""
        return self.source_kind != "url" if self.trust_annotations is None else self.trust_annotations
