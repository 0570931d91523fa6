"""Servers with their tools, prompts and resources in a snapshot of the catalog."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead_api.documents.catalog import Catalog, ToolShape
from fairlead_api.documents.operations import Operation
from fairlead_api.meta import ServerKey
from fairlead_gateway.core.quota import Caps
from fairlead_mcp.apps import NONE, UserInterface
from fairlead_mcp.skills import ApprovedSkills
from fairlead_mcp.uris import UriNames

ToolRef = tuple[ServerKey, str]
"""Reference to a tool: its server and the server's own name of the tool."""


class Item(msgspec.Struct, frozen=True):
    """A prompt, resource, resource template or skill."""

    name: str
    """The server's own name, URI or URI template."""
    definition: bytes
    """Raw definition for the server's own endpoint."""
    exposed_name: str | None
    """Name or URI on merged endpoints; None if the server is not on them."""
    merged: bytes
    """Raw definition for merged endpoints; empty if there is none."""
    files: tuple[str, ...] = ()
    """For a skill: the URIs of the skill and its files that get no server prefix on merged endpoints."""


class OfferedItems(msgspec.Struct, frozen=True):
    """Prompts, resources, templates and skills of one server, sorted by name."""

    prompts: tuple[Item, ...] = ()
    resources: tuple[Item, ...] = ()
    templates: tuple[Item, ...] = ()
    skills: tuple[Item, ...] = ()
    problems: tuple[str, ...] = ()
    """One message per definition that is left out."""


class Tool(msgspec.Struct, frozen=True):
    """An enabled tool of one server with a valid definition."""

    name: str
    """The server's own name of the tool."""
    ref: ToolRef
    """Key of the tool in sets and tables. All use this one object, so that look-ups compare identities, not strings."""
    definition: bytes
    """Raw definition for the server's own endpoint."""
    exposed_name: str | None
    """Name on merged endpoints; None if the server is not on them."""
    merged: bytes
    """Raw definition for merged endpoints; empty if there is none."""
    legacy_definition: bytes | None = None
    """Definition for legacy clients; None if it equals `definition`, empty if they are not shown the tool."""
    legacy_merged: bytes | None = None
    """Definition for legacy clients on merged endpoints; None if it equals `merged`, empty if they are not shown the
    tool.
    """
    max_duration_ms: int | None = None
    idempotent: bool = False
    """Whether a call may be sent again although the server may have executed it."""
    cacheable_seconds: int = 0
    """How long a result is cached for equal calls, in seconds."""
    hash: str = ""
    """Hash of the definition that the server sent; empty if unknown."""
    estimated_duration_ms: int | None = None
    """Declared median duration of a call, in milliseconds; None if not declared."""
    estimate_untrusted: bool = False
    """Whether the declared duration comes from the server and the server is not trusted."""
    min_tier: str | None = None
    """The fastest latency tier that may show the tool, according to the McpServer."""
    authored_min_tier: str | None = None
    """The fastest latency tier according to the tool's definition; the slower of both applies."""
    caps: Caps | None = None
    """Limits on calls of all agents together; None if unlimited."""
    result_tokens: int | None = None
    """Maximum number of tokens of a result; None if unlimited."""
    speech: str | None = None
    """When a speech model speaks about the result: `Wait`, `WhenIdle`, `Interrupt` or `Silent`; None to decide by the
    tool's duration.
    """
    tags: tuple[str, ...] = ()
    """Tags in the McpServer, which policies may select."""
    categories: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """Client capabilities that a session needs for its server to list the tool."""
    interface: UserInterface = NONE
    operation: Operation | None = None
    """HTTP request of a call, if the server is an HTTP API."""
    renamed: str | None = None
    """Clients' name on the server's own endpoint; None if it is `name`."""
    shape: ToolShape | None = None
    """Shape of the tool for clients; None if clients see it as the server defines it."""
    server_definition: bytes = b""
    """Raw definition of the server, if the tool has a shape; else empty."""

    @property
    def shown_name(self) -> str:
        """Clients' name on the server's own endpoint."""
        return self.name if self.renamed is None else self.renamed


class Server(msgspec.Struct, frozen=True):
    """A server with its tools, sorted by the names that clients see."""

    key: ServerKey
    catalog: Catalog
    tools: tuple[Tool, ...]
    problems: tuple[str, ...] = ()
    """One message per definition that is left out."""
    offered: OfferedItems = OfferedItems()
    """Prompts, resources, templates and skills."""
    interfaces: Mapping[str, tuple[str, ...]] = {}
    """Names of the tools that refer to a user interface, by the server's URI of the interface. Disabled tools and
    unlisted resources are included.
    """
    approved: ApprovedSkills | None = None
    """Approved skills of a pinned server; None if the server is not pinned."""

    @property
    def uris(self) -> UriNames:
        """Renaming of the server's URIs on merged endpoints."""
        return UriNames(self.catalog.prefix or "")
