"""Server `session-manager`: `get_summary(session_id)` and `search_history(query)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mcp.server import MCPServer

from fairlead_servers.archive.opening import ArchiveSettings, archive_errors, open_archive
from fairlead_servers.archive.searching import (
    Limit,
    Query,
    SessionId,
    Summary,
    TurnsFound,
    find_turns,
    summary_of,
)
from fairlead_servers.archive.store import Archive
from fairlead_servers.definition import ToolServer
from fairlead_servers.tool import READS, LatencyDeclaration, tool
from fairlead_tools.version import VERSION

CONTEXT_TURNS: Final = 2
"""Turns before and after a matching turn."""


class SessionManager:
    """Tools of the server."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def get_summary(self, session_id: SessionId) -> Summary:
        """Get the summary of a session."""
        with archive_errors():
            return summary_of(self._archive, session_id)

    def search_history(self, query: Query, limit: Limit = 5) -> TurnsFound:
        """Find passages of transcripts, each with the two turns before and after it."""
        with archive_errors():
            return find_turns(self._archive, query, limit, CONTEXT_TURNS)


def open_server(folder: Path, settings: ArchiveSettings) -> MCPServer[Any]:
    """Open the server on the archive in a data folder."""
    manager = SessionManager(open_archive(folder, settings))
    return MCPServer(
        "session-manager",
        instructions="Transcripts and summaries of this game's sessions.",
        tools=[
            tool(manager.get_summary, READS, "Summary of a session", LatencyDeclaration(100, 5000, "standard")),
            tool(manager.search_history, READS, "Search what was said", LatencyDeclaration(200, 5000, "standard")),
        ],
        version=VERSION,
        log_level="WARNING",
    )


SERVER: Final = ToolServer(ArchiveSettings, open_server)
