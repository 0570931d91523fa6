"""Source of an McpServer that is an HTTP API with an OpenAPI document, whose operations become tools.

This module has no I/O.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from fairlead_api.v1alpha1.common import Model, SecretKey
from fairlead_api.v1alpha1.mcpserver.schemes import SchemeCredential
from fairlead_api.v1alpha1.mcpserver.spec_rules import CA_BUNDLE, HOST_HEADER, URL
from fairlead_api.v1alpha1.names import ObjectName
from fairlead_api.v1alpha1.rules import ValidationRule

OperationPattern = Annotated[str, Field(min_length=1, max_length=512)]


class ConfigMapDocument(Model):
    """A document in a ConfigMap of the same namespace."""

    name: ObjectName
    """Name of the ConfigMap."""
    key: SecretKey | None = None
    """Key within `data`, or within `binaryData`, where the document may be compressed with gzip. Absent: the only
    key."""


def _documents(source: Any) -> int:
    return sum(document is not None for document in (source.url, source.config_map_ref, source.file))


ONE_DOCUMENT: Final = ValidationRule(
    cel="[has(self.url), has(self.configMapRef), has(self.file)].filter(x, x).size() == 1",
    message="set exactly one of url, configMapRef, file, which says where the OpenAPI document is",
    holds=lambda source: _documents(source) == 1,
)
NO_FILE_ON_A_CLUSTER: Final = ValidationRule(
    cel="!has(self.file)",
    message="file is read from the disk of `fairlead up`, which a cluster does not have: use configMapRef or url",
    holds=None,
    path=".file",
    reason="FieldValueForbidden",
)
CERTIFICATES_OF_HTTPS: Final = ValidationRule(
    cel="!has(self.caBundle) || (has(self.baseURL) && self.baseURL.startsWith('https://'))",
    message="caBundle verifies an https baseURL: set baseURL too",
    holds=lambda source: source.ca_bundle is None or (source.base_url or "").startswith("https://"),
    path=".caBundle",
)
HOST_OF_CREDENTIALS: Final = ValidationRule(
    cel="!has(self.credentials) || size(self.credentials) == 0 || has(self.baseURL)",
    message="credentials need baseURL, such as https://api.example.com: a credential is only sent to a URL that you "
    "wrote, and not where a document says",
    holds=lambda source: not source.credentials or source.base_url is not None,
    path=".credentials",
)


class OpenApiSource(Model):
    """An HTTP API: its OpenAPI document (3.0 or 3.1, JSON or YAML), and which of its operations become tools."""

    url: Annotated[str, Field(min_length=1, max_length=2048), URL] | None = None
    """URL of the document, at most 32 MiB. It is requested without a credential at each discovery."""
    config_map_ref: ConfigMapDocument | None = None
    """ConfigMap with the document, at most 1 MiB as stored."""
    file: str | None = Field(default=None, min_length=1, max_length=4096)
    """Path of the document; relative to the manifest. For `fairlead up` only."""
    base_url: Annotated[str, Field(min_length=1, max_length=2048), URL] | None = Field(default=None, alias="baseURL")
    """URL that the paths of operations are appended to. Absent: the first of the document's `servers`, which is only
    possible without `auth` and `credentials`, because a credential may not go where a document says."""
    host_header: Annotated[str, Field(min_length=1, max_length=253), HOST_HEADER] | None = None
    """Value of the `Host` header, for APIs that only accept certain names. Absent: the host of the base URL."""
    ca_bundle: Annotated[str, Field(min_length=1, max_length=131072), CA_BUNDLE] | None = None
    """Certificates (PEM) that verify an https `baseURL`. Absent: the system's authorities."""
    include: list[OperationPattern] = Field(default=[], max_length=1000)
    """Operations that become tools, as patterns with `*` and `?` for an operation id, a tag or `METHOD /path`.
    Absent: all."""
    exclude: list[OperationPattern] = Field(default=[], max_length=1000)
    """Operations that do not become tools although `include` matches them; the same patterns."""
    credentials: dict[str, SchemeCredential] = Field(default={}, max_length=16)
    """Credentials by the names of the document's `securitySchemes`, for APIs whose operations need different ones, or
    several at once. A request has those of the first alternative in its operation's `security` that is complete here,
    besides `auth`."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ONE_DOCUMENT,
        NO_FILE_ON_A_CLUSTER,
        CERTIFICATES_OF_HTTPS,
        HOST_OF_CREDENTIALS,
    )
