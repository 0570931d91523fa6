"""Servers with their tools, prompts and resources, as one snapshot of the catalog has them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead_api.documents.catalog import Catalog
from fairlead_api.meta import ServerKey
from fairlead_gateway.core.quota import Caps
from fairlead_mcp.apps import NONE, UserInterface
from fairlead_mcp.skills import ApprovedSkills
from fairlead_mcp.uris import UriNames

ToolRef = tuple[ServerKey, str]
"""A tool of a server, as that calls it."""


class Item(msgspec.Struct, frozen=True):
    """One prompt, resource or template."""

    name: str
    """As the server calls it: a name, a URI, or a URI template."""
    definition: bytes
    """For the server's own endpoint."""
    exposed: str | None
    """Name on merged endpoints; None where the server is kept off them."""
    merged: bytes
    """The definition under the exposed name; empty where there is none."""
    files: tuple[str, ...] = ()
    """URIs of a skill and its files that have no server's part on merged endpoints."""


class Offered(msgspec.Struct, frozen=True):
    """Prompts, resources, templates and skills of one server, sorted by name."""

    prompts: tuple[Item, ...] = ()
    resources: tuple[Item, ...] = ()
    templates: tuple[Item, ...] = ()
    skills: tuple[Item, ...] = ()
    problems: tuple[str, ...] = ()
    """A sentence for each that could not be taken in."""


class Tool(msgspec.Struct, frozen=True):
    """One tool of one server, enabled and listable."""

    name: str
    """As the server calls it."""
    ref: ToolRef
    """Key of the tool in sets and tables; one object, so that a look-up need not compare texts."""
    definition: bytes
    """For the server's own endpoint."""
    exposed: str | None
    """Name on merged endpoints; None where the server is kept off them."""
    merged: bytes
    """The definition under the exposed name; empty where there is none."""
    legacy_definition: bytes | None = None
    """For clients of 2025-11-25 and before: None where it is `definition`, empty where they do not list the tool."""
    legacy_merged: bytes | None = None
    """Likewise for `merged`."""
    max_duration_ms: int | None = None
    idempotent: bool = False
    """Whether a call of it may be made again although the server may have got it."""
    cacheable_seconds: int = 0
    """How long a result answers equal calls."""
    hash: str = ""
    """Hash of the definition as the server sent it; empty where it is not known."""
    estimated_duration_ms: int | None = None
    """Declared median."""
    estimate_untrusted: bool = False
    """Whether it is the word of an author who is not trusted."""
    min_tier: str | None = None
    """The fastest latency tier that may show it, by the McpServer."""
    authored_min_tier: str | None = None
    """By its definition; the slower of both counts."""
    caps: Caps | None = None
    """How often it may be called, by all agents together; None for as often as one likes."""
    result_tokens: int | None = None
    """Tokens of a result; None for any number."""
    speech: str | None = None
    """When a speech model says a result: `Wait`, `WhenIdle`, `Interrupt` or `Silent`; None: by how long calls take."""
    tags: tuple[str, ...] = ()
    """As given in the McpServer; policies name them."""
    categories: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    """Client capabilities without which its server does not know it."""
    interface: UserInterface = NONE


class Server(msgspec.Struct, frozen=True):
    """One server with its tools sorted by name."""

    key: ServerKey
    catalog: Catalog
    tools: tuple[Tool, ...]
    problems: tuple[str, ...] = ()
    """A sentence for everything that could not be taken in."""
    offered: Offered = Offered()
    """Prompts, resources, templates and skills."""
    interfaces: Mapping[str, tuple[str, ...]] = {}
    """Resources that definitions of tools name, listed or not: own URI to the tools, disabled ones among them."""
    approved: ApprovedSkills | None = None
    """Skills of a pinned server; None where all that it says may be served."""

    @property
    def uris(self) -> UriNames:
        """Names of its URIs on merged endpoints."""
        return UriNames(self.catalog.prefix or "")
