"""Tools of a registry, created from the lists of servers. No I/O."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.latency_metadata import authored_latency, effective_latency
from fairlead_api.meta import ServerKey
from fairlead_client.servers import ServerDeclaration
from fairlead_formats.schema.property_names import other_names
from fairlead_formats.tool_format import JsonObject
from fairlead_formats.tools.verbatim import UnusableDefinition, with_name
from fairlead_tools.names import exposed_name, tool_id

logger = logging.getLogger(__name__)

MAX_NAME: Final = 1024
"""Maximum number of characters of a tool's name."""


class Tool(msgspec.Struct, frozen=True):
    """A tool of a registry."""

    name: str
    """Name in this registry: `{prefix}__{tool}`, or the plain name of a local tool."""
    own_name: str
    """The server's own name for the tool."""
    server: str
    """The name that the user chose for the server; `local` for tools of this process."""
    id: str
    """`mcp.{server}.{tool}`, as in the REST API."""
    definition: JsonObject
    """MCP definition (2026-07-28, `Tool`) with `name`. Must not be changed."""
    raw: bytes
    """The definition as JSON."""
    key: str
    """Hash of the definition."""
    local: bool = False
    """Whether the tool runs in this process."""
    trusted: bool = False
    """Whether the annotations of the tool are trusted."""
    idempotent: bool = False
    """Whether the author or a manifest declares the tool idempotent."""
    longest: float | None = None
    """Maximum timeout of a call in seconds; None for no maximum."""
    requires: tuple[str, ...] = ()
    """Client capabilities without which the server does not list the tool. A registry has no capabilities: it finds
    such a tool only by name, and refuses calls of it.
    """
    other_names: dict[str, str] = {}
    """Original names of properties by their names in formats that do not accept the original ones; usually empty."""

    @property
    def description(self) -> str:
        """Description for the model; empty if there is none."""
        description = self.definition.get("description")
        return description if isinstance(description, str) else ""

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of the arguments."""
        schema = self.definition.get("inputSchema")
        return schema if isinstance(schema, dict) else {"type": "object"}

    @property
    def output_schema(self) -> JsonObject | None:
        """JSON Schema of `structuredContent`; None if the tool has none."""
        schema = self.definition.get("outputSchema")
        return schema if isinstance(schema, dict) else None

    @property
    def annotations(self) -> JsonObject:
        """Annotations of the tool (MCP, `ToolAnnotations`). They have an effect only if the tool is `trusted`."""
        annotations = self.definition.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def repeatable(self) -> bool:
        """Whether a call that may have been executed may be repeated."""
        hints = self.annotations if self.trusted else {}
        return self.idempotent or hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


class _NamedTool(msgspec.Struct):
    name: str = ""


_decode_name = msgspec.json.Decoder(_NamedTool).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


_NO_REQUIREMENTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


def list_tools(
    server: ServerDeclaration, items: Iterable[Raw], requires: Mapping[str, tuple[str, ...]] = _NO_REQUIREMENTS
) -> dict[str, Tool]:
    """Create the tools of a server's list, by the server's own names. Unusable definitions are logged and left out. If
    two tools have the same name, the first is used. `requires` maps tool names to the client capabilities that they
    require.
    """
    tools: dict[str, Tool] = {}
    for item in items:
        try:
            tool = _tool(server, bytes(item), requires)
        except (msgspec.MsgspecError, UnusableDefinition, RecursionError) as error:
            logger.warning("a tool of server %s is left out: %s", server.name, error)
            continue
        if tool is not None and tool.own_name not in tools:
            tools[tool.own_name] = tool
    return tools


def _tool(server: ServerDeclaration, raw: bytes, requires: Mapping[str, tuple[str, ...]]) -> Tool | None:
    name = _decode_name(raw).name
    if not name or len(name) > MAX_NAME:
        raise UnusableDefinition(f"the tool's name is empty or longer than {MAX_NAME} characters")
    override = server.overrides.get(name)
    if server.named_only if override is None else not override.enabled:
        return None
    override_latency = override.latency if override is not None else None
    latency = effective_latency(override_latency, authored_latency(raw).latency, trusted=server.trusted)
    registry_name = exposed_name(server.prefix, name) if server.prefix else name
    definition = with_name(raw, name=registry_name, description=override.description if override is not None else None)
    definition_object = _decode(definition)
    return Tool(
        name=registry_name,
        own_name=name,
        server=server.name,
        id=tool_id(ServerKey(server.key.namespace, server.name), name),
        raw=definition,
        definition=definition_object,
        key=hashlib.blake2b(definition, digest_size=16).hexdigest(),
        trusted=server.trusted,
        idempotent=latency is not None and latency.idempotent is True,
        longest=to_seconds(latency.max_duration_ms if latency is not None else None),
        requires=requires.get(name, ()),
        other_names=other_names(definition_object.get("inputSchema")),
    )


def to_seconds(milliseconds: int | None) -> float | None:
    """Convert milliseconds to seconds; None stays None."""
    return None if milliseconds is None else milliseconds / 1000
