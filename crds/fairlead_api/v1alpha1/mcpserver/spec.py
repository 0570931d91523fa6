"""The spec of an McpServer: where the server runs, how Fairlead connects to it and how its tools are offered.

Rules between the fields are in `spec_rules`. This module has no I/O.
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
from fairlead_api.v1alpha1.mcpserver.network import Network
from fairlead_api.v1alpha1.mcpserver.openapi import OpenApiSource
from fairlead_api.v1alpha1.mcpserver.operation import Calibration, DefinitionApproval, Discovery, ServerLimits
from fairlead_api.v1alpha1.mcpserver.podtemplate import PodTemplateOverlay
from fairlead_api.v1alpha1.mcpserver.source import ImageSource, RemoteSource
from fairlead_api.v1alpha1.mcpserver.spec_rules import (
    ENOUGH_BYTES,
    PREFIX,
    REAL_CPUS,
    RESOURCE_NAMES,
    SPEC,
    URL,
    WITHIN_LIMITS,
)
from fairlead_api.v1alpha1.mcpserver.status import UsedTransport
from fairlead_api.v1alpha1.mcpserver.tools import ToolOverride
from fairlead_api.v1alpha1.moved import MovedField
from fairlead_api.v1alpha1.names import ObjectName
from fairlead_api.v1alpha1.rules import ValidationRule

SourceKind = Literal["image", "package", "url", "openapi", "command"]

DEFAULT_PORT: Final = 8080
_DEFAULT_PATHS: Final = {"streamable-http": "/mcp", "sse": "/sse", "stdio": "", "openapi": ""}


class McpServerSpec(Model):
    """Desired state of an MCP server. Exactly one of `image`, `package`, `url`, `openapi` and `command` says where
    it runs."""

    image: ImageSource | None = None
    """Container image of the server, which the operator deploys. On a cluster only."""
    package: Package | None = None
    """Published package of the server. It runs in a runner image on a cluster, and as a child process on a laptop."""
    url: Annotated[str, Field(min_length=1, max_length=2048), URL] | None = None
    """URL of a server that Fairlead does not run, with its path: `https://tools.example.com/mcp`."""
    remote: RemoteSource | None = None
    """How to connect to the server behind `url`. Absent: streamable HTTP, with the host and certificate of the URL."""
    openapi: OpenApiSource | None = None
    """HTTP API that an OpenAPI document describes; its operations become tools."""
    command: list[Argument] | None = Field(default=None, min_length=1, max_length=129)
    """Program and arguments of a local stdio server, one per item; for `fairlead up` only."""

    env: Annotated[list[EnvVar], Distinct(key="name")] = Field(default=[], max_length=256)
    """Environment variables of a server that Fairlead starts. A Secret or ConfigMap that changes replaces the pods."""
    env_from: list[EnvFromSource] = Field(default=[], max_length=32)
    """Secrets and ConfigMaps whose keys become environment variables. Changed data replaces the pods."""
    resources: Annotated[ResourceRequirements, RESOURCE_NAMES, ENOUGH_BYTES, REAL_CPUS, WITHIN_LIMITS] | None = None
    """Resources of the container: `cpu` in cores, `memory` in bytes; requests must not exceed limits. Absent: the
    namespace's defaults."""
    replicas: int | None = Field(default=None, ge=0, le=1000)
    """Number of pods; 0 stops the server. `kubectl scale` and autoscalers of this object set it. Absent: 1, or the
    number that an autoscaler of the Deployment sets."""
    pod_template: PodTemplateOverlay | None = None
    """Overlay on the generated pod template, merged strategically: nodes, volumes, other containers, users. It only has
    fields that keep pods within the Pod Security Standard "restricted"."""
    unrestricted_pod_template: dict[str, Any] | None = None
    """Overlay of any fields of a pod template, applied after `podTemplate`. It needs `servers.podTemplates: Any` or
    `servers.anyPodTemplatesIn` of the chart, because it can give pods access to the node."""

    network: Network | None = None
    """Connections that the pods of an image or package may open, on a cluster. Absent: any."""
    runtime_class_name: ObjectName | None = None
    """RuntimeClass of the pods of an image or package, such as gVisor or Kata. Absent: the nodes' default."""

    auth: Auth | None = None
    """Credential that is sent to the server. Absent: none. A stdio server receives its credential in `env` instead."""
    prefix: Annotated[str, Field(min_length=1, max_length=40), PREFIX] | None = None
    """Prefix of its tools' names: `PREFIX__TOOL`.
    Absent: the resource's name, or `namespace-name`, as the installation is configured."""
    trust_annotations: bool | None = None
    """Whether the server's own `readOnlyHint` and `idempotentHint` allow retries, hedges and, with
    `calibration.probe: ReadOnly`, probes. Absent: true for `image`, `package` and `command`, false for `url` and
    `openapi`."""
    pin: bool = False
    """Whether changed definitions are held back until `approval` names their hash. Until then, the approved definitions
    are served, or those of the first listing."""
    approval: DefinitionApproval | None = None
    """The last approval of definitions that were held back, as `fairlead approve` writes it. Absent: none. The
    annotation
    `fairlead.dev/approve` can give the hash, too."""
    discovery: Discovery = Discovery()
    """When the server's tools are listed, and what happens to them when the server is unreachable."""
    calibration: Calibration = Calibration()
    """Which tools Fairlead probes to measure their latency."""
    session: Literal["Shared", "PerClient"] = "Shared"
    """`Shared`: all clients share sessions with the server.
    `PerClient`: each client has its own session, for servers that keep state."""
    limits: ServerLimits = ServerLimits()
    """Limits on calls of this server."""
    tools: Annotated[list[ToolOverride], Distinct(key="name")] = Field(default=[], max_length=1000)
    """Overrides for single tools; a tool without an override is offered as the server lists it."""

    moved: ClassVar[tuple[MovedField, ...]] = (
        MovedField("args", "array", "image.args, or the items of command after the program"),
        MovedField("transport", "string", "image.transport or remote.transport"),
        MovedField("port", "integer", "image.port"),
        MovedField("path", "string", "image.path"),
        MovedField("hostHeader", "string", "image.hostHeader or remote.hostHeader"),
        MovedField("caBundle", "string", "remote.caBundle"),
    )
    guards: ClassVar[tuple[ValidationRule, ...]] = SPEC

    @property
    def source_kind(self) -> SourceKind:
        """Which of the sources is set."""
        if self.image is not None:
            return "image"
        if self.package is not None:
            return "package"
        if self.openapi is not None:
            return "openapi"
        return "url" if self.url is not None else "command"

    @property
    def effective_transport(self) -> UsedTransport:
        """Transport of an image or a URL, or its default; packages and commands use stdio, and an HTTP API
        is `openapi`.
        """
        if self.image is not None:
            return self.image.transport or "streamable-http"
        if self.url is not None:
            return (self.remote and self.remote.transport) or "streamable-http"
        return "stdio" if self.openapi is None else "openapi"

    @property
    def effective_port(self) -> int:
        """Port of the server's container."""
        return DEFAULT_PORT if self.image is None or self.image.port is None else self.image.port

    @property
    def effective_path(self) -> str:
        """Path of an image's MCP endpoint; empty for stdio."""
        path = None if self.image is None else self.image.path
        return _DEFAULT_PATHS[self.effective_transport] if path is None else path

    @property
    def host_header(self) -> str | None:
        """`hostHeader` of the image, the URL or the HTTP API."""
        source = self.image or self.remote or self.openapi
        return None if source is None else source.host_header

    @property
    def ca_bundle(self) -> str | None:
        """Certificates that verify the server; None: the system's authorities."""
        source = self.remote or self.openapi
        return None if source is None else source.ca_bundle

    @property
    def is_started(self) -> bool:
        """Whether Fairlead starts the server; False for one that runs elsewhere."""
        return self.url is None and self.openapi is None

    @property
    def remote_url(self) -> str | None:
        """`url`, or the base URL of an HTTP API; None where Fairlead runs the server or the document says it."""
        return self.url if self.openapi is None else self.openapi.base_url

    @property
    def effective_replicas(self) -> int:
        """Number of pods that the spec asks for."""
        return 1 if self.replicas is None else self.replicas

    def offers(self, override: ToolOverride | None) -> bool:
        """Whether a tool with that override in `tools`, or with none, is offered."""
        return self.discovery.tools == "All" if override is None else override.enabled

    def lists_with_first_grant(self, *, default: bool) -> bool:
        """Whether the server is listed with the grant of the first user who signs in; `default` is that of a server
        without `discovery.auth`.
        """
        if self.auth is None or self.auth.of_person is None or self.starts_with_keys or self.openapi is not None:
            return False
        return default if self.discovery.auth is None else self.discovery.auth.first_grant

    @property
    def starts_with_keys(self) -> bool:
        """Whether each process of the server has the key of a person in its environment."""
        return bool(self.key_variable)

    @property
    def key_variable(self) -> str:
        """Environment variable that has the key of a process's person; empty for a server without one."""
        return "" if self.auth is None or self.auth.user_key is None else self.auth.user_key.env or ""

    @property
    def trusts_annotations(self) -> bool:
        """`trustAnnotations`, or its default for the source."""
        return self.source_kind not in ("url", "openapi") if self.trust_annotations is None else self.trust_annotations
