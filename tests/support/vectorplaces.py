"""Kinds of stores for vectors of tools, for tests that apply to each kind."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Raw

from fairlead_search.index_cache import IndexedCatalogs, NewTool, NewVectors, SearchRequest, SearchResult
from fairlead_search.index_interfaces import ToolVector

MEMORY: Final = "memory"
LANCEDB: Final = "lancedb"
WHY: Final = "not installed: the extra `lancedb`"
PLACES: Final = [MEMORY, pytest.param(LANCEDB, marks=pytest.mark.skipif(find_spec("lancedb") is None, reason=WHY))]


class VectorPlace:
    """Catalogs whose vectors are in one store."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder = str(folder) if kind == LANCEDB else ""
        self.catalogs = IndexedCatalogs()

    def search(
        self, catalog: str, query: str, vector: bytes | None = None, limit: int = 5, **more: Any
    ) -> SearchResult:
        request = SearchRequest(catalog, [query], limit, folder=self.folder, vectors=[vector] if vector else (), **more)
        return self.catalogs.search(request)

    def keys(self, query: str, vector: bytes, new: list[NewTool] | None = None, **more: Any) -> list[str]:
        """Keys that a search in the catalog `one` finds. With `new`, the catalog is first created with these tools."""
        results = self.search("one", query, vector, base=None if new is None else "", added=new or (), **more)
        return [hit.key for hit in results.hits[0]]

    def put(self, vectors: dict[str, bytes]) -> int:
        return self.catalogs.put(
            NewVectors({key: tool_vector(key, each) for key, each in vectors.items()}, self.folder)
        )

    def close(self) -> None:
        self.catalogs.close()


def tool_vector(key: str, vector: bytes) -> ToolVector:
    """A tool's vector. The key of its texts is the key of the tool."""
    return ToolVector(vector, f"text of {key}")


def tool(key: str, name: str, vector: bytes | None = None) -> NewTool:
    return NewTool(key, name, "s", Raw(b"{}"), None if vector is None else tool_vector(key, vector))
