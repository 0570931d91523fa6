"""Sources of an McpServer: the image that Fairlead deploys, or the remote server behind a URL.

This module has no I/O.
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
    """Container image of a server, how the server is started and where it listens."""

    name: Annotated[str, Field(min_length=1, max_length=512), IMAGE]
    """Reference to the image, such as `ghcr.io/example/server:1.2.3`."""
    command: list[Argument] | None = Field(default=None, min_length=1, max_length=64)
    """Program that the container runs; required for `stdio`. Absent: the image's entry point."""
    args: list[Argument] = Field(default=[], max_length=128)
    """Arguments of the program, one per item, without a shell."""
    transport: Transport | None = None
    """Transport of the server. Absent: `streamable-http`."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Port that the server listens on. Absent: 8080."""
    path: Annotated[str, Field(min_length=1, max_length=1024), PATH] | None = None
    """Path of the MCP endpoint. Absent: `/mcp`, or `/sse` for `sse`."""
    host_header: HostHeader | None = None
    """Value of the `Host` header, for servers that only accept certain names. Absent: the address of the connection."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (IMAGE_SOURCE,)


class RemoteSource(Model):
    """How to connect to the server behind `url`."""

    transport: Literal["streamable-http", "sse"] | None = None
    """Transport of the server. Absent: `streamable-http`."""
    host_header: HostHeader | None = None
    """Value of the `Host` header, for servers that only accept certain names. Absent: the host of the URL."""
    ca_bundle: Annotated[str, Field(min_length=1, max_length=131072), CA_BUNDLE] | None = None
    """Certificates (PEM) that verify an https server. Absent: the system's authorities."""
