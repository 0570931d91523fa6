"""MCP clients that Fairlead can configure: the path of each configuration file, and the syntax of the file's entries.

Sources: each vendor's page on the configuration of MCP servers, November 2026. This module has no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from fairlead_api.client_files.edits import Form

Scope = Literal["user", "project"]
Entry = dict[str, Any]
BRIDGE: Final = "fairlead"
"""Program that the entry of a stdio-only client runs, as `fairlead bridge URL`."""


@dataclass(frozen=True)
class KnownClient:
    """One client and its configuration file."""

    title: str
    member: str
    """Top-level member of the file that maps names to servers."""
    project: str | None
    """Path of the project's file, relative to the project; None if the client has no such file."""
    user: str
    """Path of the user's file on Linux, relative to the home folder."""
    entry: Callable[[str, str | None], Entry] | None
    """Builds the entry of an HTTP endpoint from its URL and the name of the variable that holds its key, which may be
    None. None: the client only starts programs."""
    restart: str
    """How to make the client read the changed file."""
    user_macos: str | None = None
    """Path of the user's file on macOS, if it differs from Linux."""
    program: Callable[[Sequence[str]], Entry] = lambda words: {"command": words[0], "args": [*words[1:]]}
    """Builds the entry of a program that speaks MCP on stdio, from its command line."""
    reads_variables: bool = True
    """Whether the client can read a key from an environment variable. If not, `fairlead bridge` reads the key from a
    file."""

    chosen_by: str | None = None
    """Top-level member with the lists `allowed` and `excluded` of the servers that the client starts."""

    @property
    def form(self) -> Form:
        return "toml" if self.user.endswith(".toml") else "yaml" if self.user.endswith(".yaml") else "json"

    def entry_for(
        self,
        url: str,
        key_variable: str | None = None,
        key_file: str | None = None,
        fairlead: Sequence[str] = (BRIDGE,),
    ) -> Entry:
        """The entry of an endpoint: its URL, or `fairlead bridge` if the client only starts programs or the key is in a
        file. Raises ValueError if `key_variable` is given and the client cannot read variables.
        """
        if key_variable is not None and not self.reads_variables:
            raise ValueError(f"{self.title} cannot read a key from an environment variable")
        if self.entry is not None and key_file is None:
            return self.entry(url, key_variable)
        credential = () if key_file is None else ("--token", f"@{key_file}")
        return self.program([*fairlead, "bridge", url, *credential])


def _http_entry(variable: str) -> Callable[[str, str | None], Entry]:
    """An entry with `type: http`; `variable` is the client's syntax for the environment variable NAME."""

    def entry(url: str, key: str | None) -> Entry:
        return {"type": "http", "url": url, **_bearer(variable, key)}

    return entry


def _untyped_entry(member: str, variable: str) -> Callable[[str, str | None], Entry]:
    """An entry without a type: the client recognizes the transport by the name of the member that holds the URL."""

    def entry(url: str, key: str | None) -> Entry:
        return {member: url, **_bearer(variable, key)}

    return entry


def _codex(url: str, key: str | None) -> Entry:
    return {"url": url} if key is None else {"url": url, "bearer_token_env_var": key}


def _bearer(variable: str, key: str | None) -> Entry:
    return {} if key is None else {"headers": {"Authorization": f"Bearer {variable.replace('NAME', key)}"}}


def _zed(url: str, key: str | None) -> Entry:
    return {"url": url}


def _cline(url: str, key: str | None) -> Entry:
    return {"type": "streamableHttp", "url": url}


def _opencode(url: str, key: str | None) -> Entry:
    return {"type": "remote", "url": url, "enabled": True, **_bearer("{env:NAME}", key)}


def _goose(url: str, key: str | None) -> Entry:
    named = {} if key is None else {"env_keys": [key]}
    kind = {"enabled": True, "type": "streamable_http", "name": BRIDGE, "description": "", "uri": url}
    return {**kind, **named, **_bearer("${NAME}", key), "timeout": 300}


def _goose_program(words: Sequence[str]) -> Entry:
    kind = {"enabled": True, "type": "stdio", "name": BRIDGE, "description": ""}
    return {**kind, "cmd": words[0], "args": [*words[1:]], "timeout": 300}


def _typed_program(words: Sequence[str]) -> Entry:
    return {"type": "stdio", "command": words[0], "args": [*words[1:]]}


_OTHER_FILES: Final = (
    # files of clients that `client setup` does not support, on Linux and macOS
    ".copilot/mcp-config.json",
    ".lmstudio/mcp.json",
)


def usual_files(home: Path, folder: Path) -> tuple[Path, ...]:
    """Paths of clients' configuration files: first the files of the project in `folder`, then the files of the user.
    Does not read them.
    """
    project = [folder / client.project for client in CLIENTS.values() if client.project is not None]
    user = [home / name for client in CLIENTS.values() for name in (client.user, client.user_macos) if name is not None]
    return tuple(dict.fromkeys([*project, *user, *(home / name for name in _OTHER_FILES)]))


CLIENTS: Final[Mapping[str, KnownClient]] = {
    "claude-code": KnownClient(
        "Claude Code",
        "mcpServers",
        ".mcp.json",
        ".claude.json",
        _http_entry("${NAME}"),
        "restart it; /mcp shows the server",
        program=_typed_program,
    ),
    "cursor": KnownClient(
        "Cursor",
        "mcpServers",
        ".cursor/mcp.json",
        ".cursor/mcp.json",
        _untyped_entry("url", "${env:NAME}"),
        "Settings, Tools & MCP shows the server",
    ),
    "vscode": KnownClient(
        "VS Code",
        "servers",
        ".vscode/mcp.json",
        ".config/Code/User/mcp.json",
        _http_entry("${env:NAME}"),
        "press Start above the entry in the file, or run MCP: List Servers",
        user_macos="Library/Application Support/Code/User/mcp.json",
        program=_typed_program,
    ),
    "windsurf": KnownClient(
        "Windsurf",
        "mcpServers",
        None,
        ".codeium/windsurf/mcp_config.json",
        _untyped_entry("serverUrl", "${env:NAME}"),
        "press Refresh in its list of MCP servers",
    ),
    "gemini-cli": KnownClient(
        "Gemini CLI",
        "mcpServers",
        ".gemini/settings.json",
        ".gemini/settings.json",
        _untyped_entry("httpUrl", "$NAME"),
        "restart it; /mcp shows the server",
        chosen_by="mcp",
    ),
    "codex": KnownClient(
        "Codex",
        "mcp_servers",
        ".codex/config.toml",
        ".codex/config.toml",
        _codex,
        "restart it; /mcp shows the server",
    ),
    "claude-desktop": KnownClient(
        "Claude Desktop",
        "mcpServers",
        None,
        ".config/Claude/claude_desktop_config.json",
        None,
        "quit and restart it; Settings, Developer shows the server",
        user_macos="Library/Application Support/Claude/claude_desktop_config.json",
        reads_variables=False,
    ),
    "zed": KnownClient(
        "Zed",
        "context_servers",
        ".zed/settings.json",
        ".config/zed/settings.json",
        _zed,
        "Settings, AI, MCP Servers shows the server",
        reads_variables=False,
    ),
    "cline": KnownClient(
        "Cline",
        "mcpServers",
        None,
        ".cline/data/settings/cline_mcp_settings.json",
        _cline,
        "its MCP Servers, Configure shows the server",
        reads_variables=False,
    ),
    "cline-vscode": KnownClient(
        "Cline in VS Code",
        "mcpServers",
        None,
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        _cline,
        "its MCP Servers, Configure shows the server",
        reads_variables=False,
        user_macos="Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
        "cline_mcp_settings.json",
    ),
    "opencode": KnownClient(
        "opencode",
        "mcp",
        "opencode.json",
        ".config/opencode/opencode.json",
        _opencode,
        "restart it; `opencode mcp list` shows the server",
        program=lambda words: {"type": "local", "command": [*words], "enabled": True},
    ),
    "goose": KnownClient(
        "Goose",
        "extensions",
        None,
        ".config/goose/config.yaml",
        _goose,
        "restart it; Extensions shows it",
        program=_goose_program,
    ),
    "jetbrains": KnownClient(
        "JetBrains Junie",
        "mcpServers",
        ".junie/mcp/mcp.json",
        ".junie/mcp/mcp.json",
        None,
        "Settings, Tools, Junie, MCP Settings shows the server",
        reads_variables=False,
    ),
}
"""Clients by the name that the command line accepts."""
