"""The keys of a server in a client configuration: which are read, which concern a client alone, which are slips. Pure.

A slip of a key that is read stops its server: without `command`, `env` or `headers` it would be another one. A key that
nobody knows is named, and the server runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

OWN: Final = "fairlead"
OWN_FIELDS: Final = (
    "caBundle",
    "calibration",
    "discovery",
    "hostHeader",
    "limits",
    "pin",
    "prefix",
    "session",
    "tools",
    "trustAnnotations",
)
"""Fields of an McpServer's spec that a server sets under `OWN`; the others have keys that clients read too."""
"""The key for fields of the spec that no client has."""
OF_URLS: Final = ("caBundle", "hostHeader")
"""Those that a spec has in `remote`."""
URLS: Final = ("url", "serverUrl", "httpUrl")
TRANSPORTS: Final = ("transport", "type", "transportType")
INCLUDED: Final = ("tools", "includeTools", "enabledTools")
"""Lists of the only tools that are offered."""
EXCLUDED: Final = ("disabledTools", "excludeTools")
"""Lists of tools that are not offered."""
ACTIVE: Final = ("enabled", "isActive")
PASSED: Final = "env_vars"
"""List of variables that are passed on where they are set, as Codex has it."""
READ: Final = frozenset(
    {
        "command",
        "args",
        "env",
        "envFile",
        PASSED,
        "cwd",
        "headers",
        "requestOptions",
        "apiKey",
        "id",
        "name",
        "disabled",
        OWN,
        *ACTIVE,
        *URLS,
        *TRANSPORTS,
        *INCLUDED,
        *EXCLUDED,
    }
)
LISTS: Final = ("mcpServers", "servers")
"""Where the servers of a file stand."""

_OF_CLIENTS: Final = frozenset(
    {
        # approval, time and shape in Claude Desktop, Claude Code, Cursor, Cline, Roo Code, Windsurf, Kiro, Amazon Q
        "alwaysAllow",
        "alwaysLoad",
        "auth",
        "autoApprove",
        "autoStart",
        "description",
        "headersHelper",
        "icon",
        "iconPath",
        "iconUrl",
        "networkTimeout",
        "oauth",
        "oauthScopes",
        "timeout",
        "title",
        "trust",
        "watchPaths",
        # Zed, goose, Codex, opencode, Crush
        "available_tools",
        "bundled",
        "default_tools_approval_mode",
        "display_name",
        "environment_id",
        "required",
        "startup_timeout_ms",
        "startup_timeout_sec",
        "supports_parallel_tool_calls",
        "tool_timeout_sec",
        # VS Code
        "dev",
        "gallery",
        "sandbox",
        "sandboxEnabled",
        "version",
        # Gemini CLI, LibreChat, Continue, proxies, marketplaces
        "authProviderType",
        "author",
        "category",
        "chatMenu",
        "connectionTimeout",
        "customUserVars",
        "extension",
        "faviconUrl",
        "homepage",
        "initTimeout",
        "installed",
        "license",
        "logEnabled",
        "logoUrl",
        "metadata",
        "options",
        "panelEnabled",
        "provider",
        "providerUrl",
        "registry",
        "repository",
        "requiresOAuth",
        "scopes",
        "serverInstructions",
        "source",
        "startup",
        "startupTimeout",
        "tags",
        "targetAudience",
        "toolTimeout",
    }
)
_MEANT: Final[Mapping[str, str]] = {
    "arg": "args",
    "arguments": "args",
    "bin": "command",
    "cmd": "command",
    "dir": "cwd",
    "endpoint": "url",
    "environment": "env",
    "environmentvariables": "env",
    "envvars": "env",
    "exec": "command",
    "executable": "command",
    "params": "args",
    "program": "command",
    "requestheaders": "headers",
    "uri": "url",
    "workdir": "cwd",
    "workingdirectory": "cwd",
}
_NEAR: Final = 0.75
_NEAR_SHORT: Final = 0.66
"""`evn` shares two of three letters with `env`."""
MOST_REMARKS: Final = 5
"""Told of one server."""


class Remark(NamedTuple):
    """One key that is not read."""

    key: str
    message: str
    stops: bool
    """Whether the server is not run for it."""


def remarks(content: Mapping[str, Any]) -> Iterator[Remark]:
    """Remarks about the keys of one server, at most `MOST_REMARKS`, those that stop it first."""
    all_remarks = [remark for key in content if (remark := _remark(str(key))) is not None]
    yield from sorted(all_remarks, key=lambda remark: not remark.stops)[:MOST_REMARKS]


def list_meant(content: Mapping[str, Any]) -> str | None:
    """The key of a file that was probably meant for `mcpServers` or `servers`."""
    for key, value in content.items():
        if isinstance(value, Mapping | list) and _alike(str(key)) in _LISTS_ALIKE:
            return str(key)
    near = {str(key): _nearest(str(key), LISTS) for key, value in content.items() if isinstance(value, Mapping | list)}
    return next((key for key, name in near.items() if name is not None), None)


def _remark(key: str) -> Remark | None:
    if key in READ or key in _OF_CLIENTS or key.startswith(("_", "$", "#", "//", "x-")):  # the last ones are comments
        return None
    if key in OWN_FIELDS:
        return Remark(key, f'is read inside of {OWN} only: write "{OWN}": {{"{key}": …}}', stops=False)
    known_keys = (*READ, *_OF_CLIENTS)
    near = _MEANT.get(_alike(key)) or _nearest(key, known_keys)
    if near is None:
        return Remark(key, "is not a known key of a server, and is not heeded", stops=False)
    return Remark(key, f"unknown key: did you mean {near}?", stops=near in READ)


def _nearest(key: str, known_keys: Iterable[str]) -> str | None:
    alike = {_alike(name): name for name in sorted(known_keys) if len(name) > 2}  # everything short is near to `id`
    cutoff = _NEAR_SHORT if len(key) <= 4 else _NEAR
    close_matches = difflib.get_close_matches(_alike(key), alike, n=1, cutoff=cutoff)
    return alike[close_matches[0]] if close_matches else None


def _alike(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


_LISTS_ALIKE: Final = frozenset({"mcpserver", "mcpservers", "server", "servers", "contextservers", "mcp"})
