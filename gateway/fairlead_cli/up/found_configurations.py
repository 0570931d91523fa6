"""Configurations of MCP clients on this machine, which `fairlead up` suggests but does not run by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fairlead_api.client_files.known_clients import usual_files
from fairlead_operator.local.sources import Sources

_MAX_NAMED: Final = 3
"""Maximum number of files that the suggestion names."""


def own_files(home: Path, folder: Path) -> str:
    """Command that serves the servers in clients' configuration files, and the number of further files; empty if there
    are none.

    Only files that declare a server count. Nothing is started.
    """
    files = [file for file in usual_files(home, folder) if _declares_servers(file)]
    if not files:
        return ""
    suffix = f" ({len(files) - _MAX_NAMED} more)" if len(files) > _MAX_NAMED else ""
    return f"fairlead up {' '.join(_short_path(file, home, folder) for file in files[:_MAX_NAMED])}{suffix}"


def _declares_servers(file: Path) -> bool:
    try:
        if not file.is_file():
            return False
    except OSError:
        return False
    scan = Sources([file], {}).scan()
    if scan is None:
        return False
    has_invalid_entry = any(problem.field.count(".") > 1 for problem in scan.problems)  # a key within an entry
    return bool(scan.contents.servers) or has_invalid_entry


def _short_path(file: Path, home: Path, folder: Path) -> str:
    if file.is_relative_to(folder):
        return _quote(str(file.relative_to(folder)))
    return f"~/{_quote(str(file.relative_to(home)))}" if file.is_relative_to(home) else _quote(str(file))


def _quote(path: str) -> str:
    return f'"{path}"' if " " in path else path
