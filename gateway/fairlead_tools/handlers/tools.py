"""Registry of the custom tools of one gateway, which are published as one catalog document."""

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
"""Name of the catalog document of custom tools; the operator never uses this name."""
SERVER: Final = "local"
"""Name of the server under which custom tools are published."""
PROTOCOL: Final = "2025-11-25"
"""MCP revision of the results that `calls` returns."""


class CustomTools:
    """Registry of the custom tools of one gateway, by name."""

    def __init__(self) -> None:
        self._prepared_tools: dict[str, Prepared] = {}
        self.problems = 0
        """Number of modules and tools that could not be registered."""

    def __len__(self) -> int:
        return len(self._prepared_tools)

    def __iter__(self) -> Iterator[Prepared]:
        return iter(self._prepared_tools.values())

    def get(self, name: str) -> Prepared | None:
        return self._prepared_tools.get(name)

    def add(self, tool: CustomTool | Callable[..., Any]) -> Prepared:
        """Register a `CustomTool`, or a function that may be marked by `tool.tool`.

        Raises BadTool, with the tool's name, if the tool is invalid or its name is registered already.
        """
        # imported here, because `preparation` imports pydantic: 14 MB that only gateways with custom tools need
        from fairlead_tools.handlers.preparation import prepare

        custom_tool = tool if isinstance(tool, CustomTool) else find_marked(tool) or CustomTool(handler=tool)
        name = custom_tool.name or str(getattr(custom_tool.handler, "__name__", ""))
        try:
            prepared = prepare(name, custom_tool)
        except BadTool as error:
            raise BadTool(f"the tool {name!r} cannot be published: {error}") from error
        if name in self._prepared_tools:
            raise BadTool(f"the tool {name!r} cannot be published: another tool has this name")
        self._prepared_tools[name] = prepared
        return prepared

    def register(
        self,
        name: str,
        description: str,
        handler: Callable[..., Any],
        *,
        input_schema: Mapping[str, Any],
        **options: Any,
    ) -> Prepared:
        """Register a tool whose handler takes one dictionary, the arguments, which are valid by `input_schema`.

        `options` are other members of `CustomTool`. Raises BadTool.
        """
        return self.add(
            CustomTool(name=name, description=description, handler=handler, input_schema=input_schema, **options)
        )

    def remove(self, name: str) -> None:
        """Remove a tool. Raises KeyError."""
        del self._prepared_tools[name]

    def catalog(self, namespace: str, *, now: datetime | None = None) -> Catalog:
        """Make the catalog document of the registered tools.

        Custom tools have no prefix, so that their exposed names are their own names, and they take precedence over
        tools of servers with the same exposed name.
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
