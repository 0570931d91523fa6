"""Members of an McpServer that belong to one source: the image that is deployed, the server behind a URL.

Pure.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from fairlead_api.v1alpha1.common import Model
from fairlead_api.v1alpha1.mcpserver.container import Argument
from fairlead_api.v1alpha1.mcpserver.spec_rules import CA_BUNDLE, HOST_HEADER, IMAGE, IMAGE_SOURCE, PATH
from fairlead_api.v1alpha1.mcpserver.status import Transport
from fairlead_api.v1alpha1.rules import ValidationRule

HostHeader = Annotated[str, Field(min_length=1, max_length=253), HOST_HEADER]


class ImageSource(Model):
    """Container image of a server, how it is started and where it listens."""

    name: Annotated[str, Field(min_length=1, max_length=512), IMAGE]
    """Reference to the image, such as `ghcr.io/example/server:1.2.3`."""
    command: list[Argument] | None = Field(default=None, min_length=1, max_length=64)
    """Program that its container runs. Absent: the image's own entry point; `stdio` needs it."""
    args: list[Argument] = Field(default=[], max_length=128)
    """Arguments, one per item; no shell reads them."""
    transport: Transport | None = None
    """How the server speaks MCP. Absent: `streamable-http`."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port that it listens on. Absent: 8080."""
    path: Annotated[str, Field(min_length=1, max_length=1024), PATH] | None = None
    """Path of its MCP endpoint. Absent: `/mcp`, for `sse` `/sse`."""
    host_header: HostHeader | None = None
    """Sent as `Host`, for servers that answer to certain names only. Absent: the address that is dialled."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (IMAGE_SOURCE,)


class RemoteSource(Model):
    """How the server behind `url` is reached."""

    transport: Literal["streamable-http", "sse"] | None = None
    """How it speaks MCP. Absent: `streamable-http`."""
    host_header: HostHeader | None = None
    """Sent as `Host`, for servers that answer to certain names only. Absent: the host of the URL."""
    ca_bundle: Annotated[str, Field(min_length=1, max_length=131072), CA_BUNDLE] | None = None
    """Certificates (PEM) that an https server is verified against. Absent: the authorities of the system."""
