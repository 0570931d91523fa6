"""Table of the bundled tool servers, each with the module to import when it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairlead_servers.definition import ToolServer


@dataclass(frozen=True)
class BundledServer:
    """A server of `fairlead serve`."""

    name: str
    summary: str
    module: str
    folder: str
    """Name of the default data folder; servers with the same name share it."""

    def definition(self) -> ToolServer[Any]:
        """Import the server's module, and return its definition. Raises ModuleNotFoundError without the extra."""
        from fairlead_servers.definition import ToolServer

        definition = import_module(self.module).SERVER
        assert isinstance(definition, ToolServer)
        return definition


_ROWS: Final = (
    BundledServer(
        "dice-roller",
        "Rolls dice, and rolls on tables from files.",
        "fairlead_servers.dice_roller.server",
        "dice-roller",
    ),
    BundledServer(
        "memory",
        "Searches past sessions, entities and facts.",
        "fairlead_servers.memory.server",
        "sessions",
    ),
    BundledServer(
        "rules-lookup",
        "Searches rules of games, in files of Markdown or JSON.",
        "fairlead_servers.rules_lookup.server",
        "rules-lookup",
    ),
    BundledServer(
        "session-manager",
        "Searches transcripts of sessions, and returns their summaries.",
        "fairlead_servers.session_manager.server",
        "sessions",
    ),
    BundledServer(
        "file-io",
        "Reads and writes text files in one folder.",
        "fairlead_servers.file_io.server",
        "file-io",
    ),
    BundledServer(
        "music-ambiance",
        "Plays background music by mood, on this machine or at a client.",
        "fairlead_servers.music_ambiance.server",
        "music-ambiance",
    ),
    BundledServer(
        "web-search",
        "Searches the web or files, and reads pages.",
        "fairlead_servers.web_search.server",
        "web-search",
    ),
    BundledServer(
        "image-gen",
        "Makes pictures with an images endpoint, or draws simple pictures.",
        "fairlead_servers.image_gen.server",
        "image-gen",
    ),
)

SERVERS: Final = {row.name: row for row in _ROWS}
"""Servers by name."""
