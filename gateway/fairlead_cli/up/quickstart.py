"""Servers of the quick start, `fairlead up` without files: two well-known servers, and Fairlead's demo server."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairlead_api.meta import ServerKey
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.local.inventory import Contents, DeclaredServer

ORIGIN: Final = "quick start"
NAMESPACE: Final = "default"
TIME: Final = {"registry": "pypi", "name": "mcp-server-time", "version": "2026.10.19"}
GIT: Final = {"registry": "pypi", "name": "mcp-server-git", "version": "2026.10.19"}
DEMO_PROBES: Final[list[dict[str, Any]]] = [
    {"name": "get_stock", "probe": {"arguments": {"item": "rope"}}},
    {"name": "search_orders", "probe": {"arguments": {"customer": "Ahab"}}},
    {"name": "ask_supplier", "probe": {"arguments": {"item": "rope"}}},
    {"name": "forecast_demand", "probe": {"arguments": {"item": "rope"}}},
]
"""Tools of the demo server that are probed, so that they have measurements before an agent calls them. No other tools
of the quick start are probed.
"""


@dataclass(frozen=True)
class Skipped:
    """A server of the quick start that cannot be used in the working directory."""

    key: ServerKey
    why: str


def quick_start(folder: Path) -> tuple[Contents, tuple[Skipped, ...]]:
    """The servers for the working directory `folder`, and the servers that are left out."""
    demo = _server("demo", {"command": [sys.executable, "-m", "fairlead_cli.demo"], "tools": DEMO_PROBES})
    time = _server("time", {"package": TIME})
    repository = repository_around(folder)
    if repository is None:
        skipped = (Skipped(ServerKey(NAMESPACE, "git"), f"{folder} is not in a git repository"),)
        return Contents({server.key: server for server in (demo, time)}), skipped
    git = _server("git", {"package": {**GIT, "args": ["--repository", str(repository)]}})
    return Contents({server.key: server for server in (demo, git, time)}), ()


def repository_around(folder: Path) -> Path | None:
    """The root of the git repository that contains `folder`; None if there is none."""
    return next((candidate for candidate in (folder, *folder.parents) if (candidate / ".git").exists()), None)


def _server(name: str, spec: dict[str, Any]) -> DeclaredServer:
    manifest = {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    return DeclaredServer(McpServer.model_validate(manifest), origin=ORIGIN)
