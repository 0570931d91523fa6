"""Custom tools of one gateway: registered one by one, published as one catalog document.

Filled from modules, or in code; read by `calls` for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_api.documents.catalog import (
    Catalog,
    DeclaredLatency,
    LocalEndpoint,
    ToolEntry,
    definition_hash,
    list_hash,
    search_hash,
)
from fairlead_mcp import jsonrpc
from fairlead_tools.handlers.prepared import Prepared
from fairlead_tools.handlers.problems import BadTool
from fairlead_tools.handlers.tool import CustomTool, find_marked
from fairlead_tools.version import NAME, VERSION

DOCUMENT: Final = f".{NAME}-local"
"""Name of their catalog document among the others; no operator writes one of this name."""
SERVER: Final = "local"
"""Name of the server that custom tools are published as."""
PROTOCOL: Final = "2025-11-25"
"""Revision in whose form `calls` answers."""


class CustomTools:
    """Registry of the custom tools of one gateway, by name."""

    def __init__(self) -> None:
        self._prepared: dict[str, Prepared] = {}
        self.problems = 0
        """Modules and tools that could not be taken in."""

    def __len__(self) -> int:
        return len(self._prepared)

    def __iter__(self) -> Iterator[Prepared]:
        return iter(self._prepared.values())

    def get(self, name: str) -> Prepared | None:
        return self._prepared.get(name)

    def add(self, tool: CustomTool | Callable[..., Any]) -> Prepared:
        """Take a tool in: what `tool.tool` marked, a `CustomTool`, or a plain function.

        Raises BadTool, with the tool's name, also where the name is taken.
        """
        # It imports pydantic: 14 MB that a gateway without tools is spared.
        from fairlead_tools.handlers.preparation import prepare

        wanted = tool if isinstance(tool, CustomTool) else find_marked(tool) or CustomTool(handler=tool)
        name = wanted.name or str(getattr(wanted.handler, "__name__", ""))
        try:
            prepared = prepare(name, wanted)
        except BadTool as error:
            raise BadTool(f"the tool {name!r} cannot be published: {error}") from error
        if name in self._prepared:
            raise BadTool(f"the tool {name!r} cannot be published: there is another of that name")
        self._prepared[name] = prepared
        return prepared

    def register(
        self, name: str, description: str, handler: Callable[..., Any], *, input_schema: Mapping[str, Any], **more: Any
    ) -> Prepared:
        """Take in a tool whose handler takes one dictionary: the arguments, which fit `input_schema`.

        `more` are the other members of `CustomTool`. Raises BadTool.
        """
        return self.add(
            CustomTool(name=name, description=description, handler=handler, input_schema=input_schema, **more)
        )

    def remove(self, name: str) -> None:
        """Forget a tool. Raises KeyError."""
        del self._prepared[name]

    def catalog(self, namespace: str, *, now: datetime | None = None) -> Catalog:
        """The document that publishes them. Without a prefix of their own, they are shown under their own names and
        before any tool of a server that is called the same.
        """
        info = {"name": SERVER, "title": "Custom tools of this gateway", "version": VERSION}
        catalog = Catalog(
            namespace=namespace,
            name=SERVER,
            uid="",
            generation=1,
            prefix="",
            endpoint=LocalEndpoint(),
            protocol_version=PROTOCOL,
            server_info=Raw(jsonrpc.encode(info)),
            capabilities=Raw(b'{"tools":{},"logging":{}}'),
            trust_annotations=True,
            tools=tuple(_entry(prepared) for prepared in self),
            updated_at=(now or datetime.now(UTC)).isoformat(timespec="seconds").replace("+00:00", "Z"),
        )
        return msgspec.structs.replace(catalog, hash=list_hash(catalog))


def _entry(prepared: Prepared) -> ToolEntry:
    tool = prepared.tool
    latency = DeclaredLatency(
        estimated_duration_ms=tool.estimated_duration_ms,
        max_duration_ms=tool.max_duration_ms,
        idempotent=tool.idempotent,
        cacheable_seconds=tool.cacheable_seconds,
    )
    return ToolEntry(
        name=prepared.name,
        definition=Raw(prepared.definition),
        hash=definition_hash(prepared.definition),
        search_hash=search_hash(prepared.name, prepared.definition, tags=tool.tags, categories=tool.categories),
        tags=tool.tags,
        categories=tool.categories,
        latency=None if latency == DeclaredLatency() else latency,
        min_tier=tool.min_tier,
        result_tokens=tool.result_tokens,
    )
