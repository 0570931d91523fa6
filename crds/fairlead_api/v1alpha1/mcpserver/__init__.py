"""The McpServer kind: one MCP server, how Fairlead runs or reaches it, and how it offers the server's tools.

The modules are `spec` with `spec_rules`, `source`, `container`, `podtemplate`, `auth`, `operation` and `tools`, and
`status`. Import their names from this package.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final, Literal

from fairlead_api.v1alpha1.common import Resource
from fairlead_api.v1alpha1.mcpserver.auth import (
    Auth,
    BearerAuth,
    ClientCredentialsAuth,
    CredentialSource,
    DiscoveryAuth,
    Grant,
    HeaderAuth,
    TokenExchangeAuth,
    UserConsentAuth,
    UserKeyAuth,
    UserKeyHeader,
)
from fairlead_api.v1alpha1.mcpserver.container import EnvFromSource, EnvVar, Package, ResourceRequirements
from fairlead_api.v1alpha1.mcpserver.operation import (
    Calibration,
    DefinitionApproval,
    Discovery,
    ProbePolicy,
    ServerLimits,
)
from fairlead_api.v1alpha1.mcpserver.podtemplate import PodTemplateOverlay
from fairlead_api.v1alpha1.mcpserver.schemes import CookieAuth, QueryAuth, SchemeCredential
from fairlead_api.v1alpha1.mcpserver.source import ImageSource, RemoteSource
from fairlead_api.v1alpha1.mcpserver.spec import DEFAULT_PORT, McpServerSpec, SourceKind
from fairlead_api.v1alpha1.mcpserver.status import (
    ApiStatus,
    ApprovalRecord,
    CatalogReference,
    LatencySummary,
    McpServerStatus,
    OperationStatus,
    ServerInfo,
    Transport,
)
from fairlead_api.v1alpha1.mcpserver.tools import Probe, ToolLatency, ToolLimits, ToolOverride
from fairlead_api.v1alpha1.rules import ValidationRule

__all__ = [
    "DEFAULT_PORT",
    "ApiStatus",
    "ApprovalRecord",
    "Auth",
    "BearerAuth",
    "Calibration",
    "CatalogReference",
    "ClientCredentialsAuth",
    "CookieAuth",
    "CredentialSource",
    "DefinitionApproval",
    "Discovery",
    "DiscoveryAuth",
    "EnvFromSource",
    "EnvVar",
    "Grant",
    "HeaderAuth",
    "ImageSource",
    "LatencySummary",
    "McpServer",
    "McpServerSpec",
    "McpServerStatus",
    "OperationStatus",
    "Package",
    "PodTemplateOverlay",
    "Probe",
    "ProbePolicy",
    "QueryAuth",
    "RemoteSource",
    "ResourceRequirements",
    "SchemeCredential",
    "ServerInfo",
    "ServerLimits",
    "SourceKind",
    "TokenExchangeAuth",
    "ToolLatency",
    "ToolLimits",
    "ToolOverride",
    "Transport",
    "UserConsentAuth",
    "UserKeyAuth",
    "UserKeyHeader",
]

_NAME: Final = r"^[a-z]([a-z0-9-]{0,48}[a-z0-9])?$"


class McpServer(Resource):
    """An MCP server: Fairlead runs it or connects to it, lists its tools, measures them and offers them to agents."""

    kind_name: ClassVar[str] = "McpServer"
    plural: ClassVar[str] = "mcpservers"
    short_name: ClassVar[str] = "mcps"

    api_version: Literal["fairlead.dev/v1alpha1"] = "fairlead.dev/v1alpha1"
    kind: Literal["McpServer"] = "McpServer"
    spec: McpServerSpec
    """Desired state."""
    status: McpServerStatus = McpServerStatus()
    """Observed state."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel=f"self.metadata.name.matches('{_NAME}')",
            message="an McpServer's name must begin with a lower-case letter, continue with lower-case letters, digits "
            "and -, and have at most 50 characters: its Service and its tools are named after it",
            holds=lambda server: re.fullmatch(_NAME, server.metadata.name) is not None,
            path=".metadata.name",
        ),
    )
