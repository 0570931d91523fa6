"""Server `memory`: searches a game's past sessions, entities and facts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from pydantic import Field

from fairlead_servers.archive.opening import ArchiveSettings, archive_errors, open_archive
from fairlead_servers.archive.searching import (
    EntitiesFound,
    FactsFound,
    Limit,
    Query,
    SessionId,
    SessionsFound,
    Summary,
    find_entities,
    find_facts,
    find_sessions,
    summary_of,
)
from fairlead_servers.archive.store import Archive
from fairlead_servers.definition import ToolServer
from fairlead_servers.tool import READS, LatencyDeclaration, tool
from fairlead_tools.version import VERSION

Kind = Annotated[str, Field(description="Only entities of this kind, for example person or place", max_length=100)]


class Memory:
    """Tools of the server."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def search_sessions(self, query: Query, limit: Limit = 5) -> SessionsFound:
        """Find past sessions by their transcripts, titles and summaries."""
        with archive_errors():
            return find_sessions(self._archive, query, limit)

    def query_entities(self, query: Query, kind: Kind = "", limit: Limit = 5) -> EntitiesFound:
        """Find people, places and things by their names, aliases and descriptions."""
        with archive_errors():
            return find_entities(self._archive, query, kind.strip(), limit)

    def get_summary(self, session_id: SessionId) -> Summary:
        """Get the summary of a session."""
        with archive_errors():
            return summary_of(self._archive, session_id)

    def search_facts(self, query: Query, limit: Limit = 5) -> FactsFound:
        """Find facts that were established in the game, each with its session."""
        with archive_errors():
            return find_facts(self._archive, query, limit)


def open_server(folder: Path, settings: ArchiveSettings) -> MCPServer[Any]:
    """Open the server on the archive in a data folder."""
    memory = Memory(open_archive(folder, settings))
    return MCPServer(
        "memory",
        instructions="Past sessions, entities and facts of this game. "
        "Names and ids are returned exactly as they are stored.",
        tools=[
            tool(memory.search_sessions, READS, "Search sessions", LatencyDeclaration(200, 5000, "standard")),
            tool(memory.query_entities, READS, "Query entities", LatencyDeclaration(50, 5000, "fast")),
            tool(memory.get_summary, READS, "Summary of a session", LatencyDeclaration(100, 5000, "standard")),
            tool(memory.search_facts, READS, "Search facts", LatencyDeclaration(200, 5000, "standard")),
        ],
        version=VERSION,
        log_level="WARNING",
    )


SERVER: Final = ToolServer(ArchiveSettings, open_server)
