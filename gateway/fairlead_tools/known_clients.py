"""MCP clients that read a configuration file: where it lies, and how an endpoint stands in it. Pure module.

Sources: each vendor's page on the configuration of MCP servers, November 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

Scope = Literal["user", "project"]
Entry = dict[str, Any]


@dataclass(frozen=True)
class KnownClient:
    """One client."""

    title: str
    member: str
    """Member of the file that holds the servers by name."""
    project: str | None
    """File of a project, below its folder; None: it has none."""
    user: str
    """File of the user, below the home folder, on Linux."""
    entry: Callable[[str, str | None], Entry]
    """An endpoint's entry, from its URL and the environment variable with its key, if it has one."""
    restart: str
    """How the client takes notice of a change."""
    user_macos: str | None = None
    """File of the user on macOS, where it is another."""

    @property
    def is_toml(self) -> bool:
        return self.user.endswith(".toml")


def _typed(variable: str) -> Callable[[str, str | None], Entry]:
    """An entry with `type: http`; `variable` is how the client writes an environment variable."""

    def entry(url: str, key: str | None) -> Entry:
        return {"type": "http", "url": url, **_bearer(variable, key)}

    return entry


def _plain(member: str, variable: str) -> Callable[[str, str | None], Entry]:
    """An entry whose kind the client tells from the name of the member with the URL."""

    def entry(url: str, key: str | None) -> Entry:
        return {member: url, **_bearer(variable, key)}

    return entry


def _codex(url: str, key: str | None) -> Entry:
    return {"url": url} if key is None else {"url": url, "bearer_token_env_var": key}


def _bearer(variable: str, key: str | None) -> Entry:
    return {} if key is None else {"headers": {"Authorization": f"Bearer {variable.replace('NAME', key)}"}}


_OTHER_FILES: Final = (
    # where clients that `client setup` does not write keep their servers: of the user, on Linux and macOS
    ".config/Claude/claude_desktop_config.json",
    "Library/Application Support/Claude/claude_desktop_config.json",
    ".config/opencode/opencode.json",
    ".config/zed/settings.json",
    ".config/goose/config.yaml",
    ".copilot/mcp-config.json",
    ".lmstudio/mcp.json",
)


def usual_files(home: Path, folder: Path) -> tuple[Path, ...]:
    """Places where clients keep their servers: of a project in `folder`, then of the user. Reads nothing."""
    project = [folder / client.project for client in CLIENTS.values() if client.project is not None]
    user = [home / name for client in CLIENTS.values() for name in (client.user, client.user_macos) if name is not None]
    return tuple(dict.fromkeys([*project, *user, *(home / name for name in _OTHER_FILES)]))


CLIENTS: Final[Mapping[str, KnownClient]] = {
    "claude-code": KnownClient(
        "Claude Code", "mcpServers", ".mcp.json", ".claude.json", _typed("${NAME}"),
        "start it anew; /mcp shows the server",
    ),
    "cursor": KnownClient(
        "Cursor", "mcpServers", ".cursor/mcp.json", ".cursor/mcp.json", _plain("url", "${env:NAME}"),
        "Settings, Tools & MCP shows the server",
    ),
    "vscode": KnownClient(
        "VS Code", "servers", ".vscode/mcp.json", ".config/Code/User/mcp.json", _typed("${env:NAME}"),
        "press Start above the entry in the file, or run MCP: List Servers",
        user_macos="Library/Application Support/Code/User/mcp.json",
    ),
    "windsurf": KnownClient(
        "Windsurf", "mcpServers", None, ".codeium/windsurf/mcp_config.json", _plain("serverUrl", "${env:NAME}"),
        "press Refresh in its list of MCP servers",
    ),
    "gemini-cli": KnownClient(
        "Gemini CLI", "mcpServers", ".gemini/settings.json", ".gemini/settings.json", _plain("httpUrl", "$NAME"),
        "start it anew; /mcp shows the server",
    ),
    "codex": KnownClient(
        "Codex", "mcp_servers", ".codex/config.toml", ".codex/config.toml", _codex,
        "start it anew; /mcp shows the server",
    ),
}  # fmt: skip
"""By the name that the command line takes."""
