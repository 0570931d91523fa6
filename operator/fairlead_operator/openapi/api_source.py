"""Source of the listing of an HTTP API: the location of its document, and settings of its McpServer. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from fairlead_api.documents.catalog import OpenApiEndpoint
from fairlead_api.v1alpha1.mcpserver import McpServer


@dataclass(frozen=True)
class ConfigMapLocation:
    """A document in a ConfigMap. If `key` is None, the ConfigMap must have only one key."""

    namespace: str
    name: str
    key: str | None

    def __str__(self) -> str:
        return f"the ConfigMap {self.name}" if self.key is None else f"{self.key} of the ConfigMap {self.name}"


@dataclass(frozen=True)
class FileLocation:
    """A document on this machine's disk, at an absolute path."""

    path: str

    def __str__(self) -> str:
        return self.path


@dataclass(frozen=True)
class UrlLocation:
    """A document at a URL."""

    url: str

    def __str__(self) -> str:
        return self.url


DocumentLocation = ConfigMapLocation | FileLocation | UrlLocation


@dataclass(frozen=True)
class ApiSource:
    """Everything that determines the tools of an HTTP API."""

    location: DocumentLocation
    base_url: str | None
    """Base URL of calls; None: that in the document."""
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    has_auth: bool
    """Whether calls carry a credential, which may be sent only to the origin of `base_url`."""
    tools_with_secrets: frozenset[str] = frozenset()
    """Tools whose calls carry values of Secrets in arguments, which may be sent only to the origin of `base_url`."""
    host_header: str | None = None
    ca_bundle: str | None = None

    @classmethod
    def of(cls, server: McpServer) -> ApiSource | None:
        """The source of a server; None for an MCP server."""
        api = server.spec.openapi
        if api is None:
            return None
        location: DocumentLocation
        if api.url is not None:
            location = UrlLocation(api.url)
        elif api.config_map_ref is not None:
            location = ConfigMapLocation(server.metadata.namespace, api.config_map_ref.name, api.config_map_ref.key)
        else:
            location = FileLocation(api.file or "")
        return cls(
            location,
            api.base_url,
            tuple(api.include),
            tuple(api.exclude),
            has_auth=server.spec.auth is not None or bool(api.credentials),
            tools_with_secrets=frozenset(
                tool.name
                for tool in server.spec.tools
                if any(argument.secret_ref for argument in tool.arguments.values())
            ),
            host_header=api.host_header,
            ca_bundle=api.ca_bundle,
        )

    def confines_secrets(self, tool: str) -> bool:
        """Whether calls of a tool carry a secret that may be sent only to the origin of `base_url`."""
        return self.has_auth or tool in self.tools_with_secrets

    def endpoint(self, url: str | None = None) -> OpenApiEndpoint:
        """The endpoint of calls: at `url`, or else at the base URL, or else without URL until the document is read."""
        return OpenApiEndpoint(url=url or self.base_url or "", host_header=self.host_header, ca_bundle=self.ca_bundle)
