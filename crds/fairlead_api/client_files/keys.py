"""The keys of an entry in a client configuration: keys that Fairlead reads, keys for clients only, and misspelt keys.

A server with a probable misspelling of a key that Fairlead reads is not run: without the intended `command`, `env` or
`headers`, a different server would run. Any other unknown key is reported, and the server runs. This module has no I/O.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

OWN: Final = "fairlead"
"""Key of an entry that holds the fields of an McpServer's spec for which clients have no key."""
OWN_FIELDS: Final = (
    "auth",
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
"""Fields of an McpServer's spec that an entry sets under `OWN`. For the other fields, entries have keys that clients
read too."""
OF_URLS: Final = ("caBundle", "hostHeader")
"""Members of `OWN_FIELDS` that belong to `spec.remote`."""
URLS: Final = ("url", "serverUrl", "httpUrl")
TRANSPORTS: Final = ("transport", "type", "transportType")
INCLUDED: Final = ("tools", "includeTools", "enabledTools")
"""Keys whose value is a list of tools: only these tools are offered."""
EXCLUDED: Final = ("disabledTools", "excludeTools")
"""Keys whose value is a list of tools that are not offered."""
ACTIVE: Final = ("enabled", "isActive", "active")
"""Keys that disable an entry if their value is false."""
PASSED: Final = "env_vars"
"""Codex's key for a list of environment variables that are passed to the server if they are set."""
CODEX_PORT: Final = "mcp_oauth_callback_port"
"""Codex's key, beside its list of servers, for the port of redirect URIs of all servers."""
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
        "auth",
        "oauth",
        "oauthScopes",
        "oauth_resource",
        CODEX_PORT,
        "scopes",
        OWN,
        *ACTIVE,
        *URLS,
        *TRANSPORTS,
        *INCLUDED,
        *EXCLUDED,
    }
)
LISTS: Final = ("mcpServers", "servers")
"""Members of a file that hold a server list."""

_OF_CLIENTS: Final = frozenset(
    {
        # approval, time and shape in Claude Desktop, Claude Code, Cursor, Cline, Roo Code, Windsurf, Kiro, Amazon Q
        "alwaysAllow",
        "alwaysLoad",
        "autoApprove",
        "autoStart",
        "description",
        "icon",
        "iconPath",
        "iconUrl",
        "networkTimeout",
        "timeout",
        "title",
        "trust",
        "watchPaths",
        # Zed, goose, Codex, opencode, Crush, Hermes
        "connect_timeout",
        "sampling",
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
        # Jan, Trae, Warp, AnythingLLM
        "anythingllm",
        "fromGalleryId",
        "official",
        "start_on_launch",
        # mcphub.nvim, nanobot, mcp-agent, fast-agent, Dive
        "custom_instructions",
        "disabled_resources",
        "disabled_resourceTemplates",
        "initialTimeout",
        "load_on_start",
        "read_timeout_seconds",
        "roots",
        "toolCallTimeout",
        "toolTimeout",
        # gptme, Octomind, MaiBot, Theia
        "auto_start",
        "autostart",
        "http_timeout_seconds",
        "registryMetadata",
        "timeout_seconds",
        # FastMCP, Cherry Studio, Perplexity
        "keep_alive",
        "configSample",
        "disabledAutoApproveTools",
        "installSource",
        "installedAt",
        "isTrusted",
        "longRunning",
        "reference",
        "registryUrl",
        "searchKey",
        "shouldConfig",
        "trustedAt",
        "useBuiltInNode",
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
        "serverInstructions",
        "source",
        "startup",
        "startupTimeout",
        "tags",
        "targetAudience",
    }
)
_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "exclude_tags": "chooses tools by tags that Fairlead does not have: all tools are offered",
    "include_tags": "chooses tools by tags that Fairlead does not have: all tools are offered",
    "toolFilter": "is not a filter that Fairlead reads: all tools are offered; use includeTools or excludeTools",
    "headersHelper": "is a program that makes headers, which Fairlead does not run: write the headers into headers",
}
"""Keys that only clients read, and whose absence changes what a server answers."""
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
"""Wrong keys that are common, in lower case without separators, each with the correct key."""
_NEAR: Final = 0.75
_NEAR_SHORT: Final = 0.66
"""Minimum similarity, from 0 to 1 (`difflib`), at which a key of up to four characters counts as a misspelling: `evn`
has two of three letters in common with `env`. `_NEAR` is the minimum for longer keys.
"""
MOST_REMARKS: Final = 5
"""Maximum number of remarks about one server."""


class Remark(NamedTuple):
    """Remark for the user about one key that Fairlead does not read."""

    key: str
    message: str
    stops: bool
    """Whether the server is not run because of the key."""


def remarks(content: Mapping[str, Any]) -> Iterator[Remark]:
    """Remarks about the keys of one server, at most `MOST_REMARKS`; remarks that stop the server come first."""
    all_remarks = [remark for key in content if (remark := _remark(str(key))) is not None]
    yield from sorted(all_remarks, key=lambda remark: not remark.stops)[:MOST_REMARKS]


def misspelt_list_key(content: Mapping[str, Any]) -> str | None:
    """The key in a file that is probably a misspelling of `mcpServers` or `servers`; None if there is no such key."""
    for key, value in content.items():
        if isinstance(value, Mapping | list) and _alike(str(key)) in _LISTS_ALIKE:
            return str(key)
    near = {
        str(key): _most_similar(str(key), LISTS) for key, value in content.items() if isinstance(value, Mapping | list)
    }
    return next((key for key, name in near.items() if name is not None), None)


def _remark(key: str) -> Remark | None:
    if (
        key in READ or key in _OF_CLIENTS or key.startswith(("_", "$", "#", "//", "x-"))
    ):  # keys with these prefixes are comments
        return None
    if key in _WITHOUT_EFFECT:
        return Remark(key, _WITHOUT_EFFECT[key], stops=False)
    if key in OWN_FIELDS:
        return Remark(key, f'only has an effect within {OWN}: write "{OWN}": {{"{key}": …}}', stops=False)
    known_keys = (*READ, *_OF_CLIENTS)
    near = _MEANT.get(_alike(key)) or _most_similar(key, known_keys)
    if near is None:
        lists = ": if it chooses tools, list them in includeTools or excludeTools" if "tool" in _alike(key) else ""
        return Remark(key, f"is not a known key of a server, and is ignored{lists}", stops=False)
    return Remark(key, f"unknown key: did you mean {near}?", stops=near in READ)


def _most_similar(key: str, known_keys: Iterable[str]) -> str | None:
    alike = {_alike(name): name for name in sorted(known_keys) if len(name) > 2}  # every short key is similar to `id`
    cutoff = _NEAR_SHORT if len(key) <= 4 else _NEAR
    close_matches = difflib.get_close_matches(_alike(key), alike, n=1, cutoff=cutoff)
    return alike[close_matches[0]] if close_matches else None


def _alike(key: str) -> str:
    return key.lower().replace("_", "").replace("-", "")


_LISTS_ALIKE: Final = frozenset({"mcpserver", "mcpservers", "server", "servers", "contextservers", "mcp"})
