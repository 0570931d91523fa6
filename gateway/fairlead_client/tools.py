"""Tools of a registry, made from the listings of servers.

Pure module.
"""

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
"""Characters of a tool's name."""


class Tool(msgspec.Struct, frozen=True):
    """One tool of a registry, under the `name` that calls it."""

    name: str
    """In this registry: `{prefix}__{tool}`; of a local tool its own."""
    own_name: str
    """As its server calls it."""
    server: str
    """As the registry's user called the server; `local` for tools of this process."""
    id: str
    """`mcp.{server}.{tool}`, as REST shows it too."""
    definition: JsonObject
    """MCP's form (2026-07-28, `Tool`), under `name`. To be read, not to be changed."""
    raw: bytes
    """The definition as JSON."""
    key: str
    """Changes with the definition."""
    local: bool = False
    """Whether it runs in this process."""
    trusted: bool = False
    """Whether its annotations are believed."""
    idempotent: bool = False
    """Whether its author, or a manifest, says so."""
    longest: float | None = None
    """Seconds after which a call is given up in any case."""
    requires: tuple[str, ...] = ()
    """Client capabilities without which its server does not know it; a registry has none, and refuses its calls."""
    other_names: dict[str, str] = {}
    """Names of its properties in formats that do not take the original ones, to these; mostly empty."""

    @property
    def description(self) -> str:
        """For the model; empty where there is none."""
        description = self.definition.get("description")
        return description if isinstance(description, str) else ""

    @property
    def input_schema(self) -> JsonObject:
        """JSON Schema of the arguments."""
        schema = self.definition.get("inputSchema")
        return schema if isinstance(schema, dict) else {"type": "object"}

    @property
    def output_schema(self) -> JsonObject | None:
        """JSON Schema of `structuredContent`, where the tool has one."""
        schema = self.definition.get("outputSchema")
        return schema if isinstance(schema, dict) else None

    @property
    def annotations(self) -> JsonObject:
        """Hints of the tool about itself (MCP, `ToolAnnotations`), believed only where `trusted`."""
        annotations = self.definition.get("annotations")
        return annotations if isinstance(annotations, dict) else {}

    @property
    def repeatable(self) -> bool:
        """Whether a call that may have been carried out may be made again."""
        hints = self.annotations if self.trusted else {}
        return self.idempotent or hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


class _NamedTool(msgspec.Struct):
    name: str = ""


_named = msgspec.json.Decoder(_NamedTool).decode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


_ANYBODY: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


def list_tools(
    server: ServerDeclaration, items: Iterable[Raw], requires: Mapping[str, tuple[str, ...]] = _ANYBODY
) -> dict[str, Tool]:
    """The tools of a listing by their own names. What cannot be used is logged and left out; of two tools of one name
    the first counts. `requires` has client capabilities by the names of the tools that require them.
    """
    tools: dict[str, Tool] = {}
    for item in items:
        try:
            tool = _tool(server, bytes(item), requires)
        except (msgspec.MsgspecError, UnusableDefinition, RecursionError) as error:
            logger.warning("a tool of %s is left out: %s", server.name, error)
            continue
        if tool is not None and tool.own_name not in tools:
            tools[tool.own_name] = tool
    return tools


def _tool(server: ServerDeclaration, raw: bytes, requires: Mapping[str, tuple[str, ...]]) -> Tool | None:
    name = _named(raw).name
    if not name or len(name) > MAX_NAME:
        raise UnusableDefinition(f"its name is empty or longer than {MAX_NAME} characters")
    override = server.overrides.get(name)
    if server.named_only if override is None else not override.enabled:
        return None
    stated = override.latency if override is not None else None
    latency = effective_latency(stated, authored_latency(raw).latency, trusted=server.trusted)
    exposed = exposed_name(server.prefix, name) if server.prefix else name
    definition = with_name(raw, name=exposed, description=override.description if override is not None else None)
    decoded = _decode(definition)
    return Tool(
        name=exposed,
        own_name=name,
        server=server.name,
        id=tool_id(ServerKey(server.key.namespace, server.name), name),
        raw=definition,
        definition=decoded,
        key=hashlib.blake2b(definition, digest_size=16).hexdigest(),
        trusted=server.trusted,
        idempotent=latency is not None and latency.idempotent is True,
        longest=seconds(latency.max_duration_ms if latency is not None else None),
        requires=requires.get(name, ()),
        other_names=other_names(decoded.get("inputSchema")),
    )


def seconds(milliseconds: int | None) -> float | None:
    """Milliseconds in seconds."""
    return None if milliseconds is None else milliseconds / 1000
