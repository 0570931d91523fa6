"""Configuration files of MCP clients: finds their server lists, and converts each entry to the keys of `mcpServers`.

A client's format is recognized by the file's content, never by its name. Sources: each client's page on the
configuration of MCP servers, and the MCPB manifest specification 0.3, November 2026. This module has no I/O.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from fairlead_api.client_files.gemini_choice import chosen_servers
from fairlead_api.client_files.keys import CODEX_PORT
from fairlead_api.client_files.tool_filters import with_tool_filter

Entry = Mapping[str, Any]
Place = tuple[str | int, ...]
"""Path in a parsed file: keys and indexes, from the top level."""


@dataclass(frozen=True)
class NormalizedEntry:
    """An entry with the keys of `mcpServers`."""

    content: Any
    original_keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of `content` that have another name in the client's file, each with that original name, such as `env:
    environment`."""
    unserved: str | None = None
    """Why the entry cannot be served; None if it can be served. Some entries can only be run by their client."""


@dataclass(frozen=True)
class ConfiguredList:
    """One list of MCP servers in a configuration file, not yet normalized."""

    path: Place
    servers: Mapping[str, Any] | Sequence[Any]
    normalize: Callable[[Any], NormalizedEntry]
    """Converts an entry of the list to the keys of `mcpServers`."""
    cwd: str | None = None
    """Working directory of all servers in the list, if the client sets one."""
    dialect: str = ""
    """Variable syntax of the entries' values: a key of `variables.DIALECTS`; empty for `${NAME}`."""


def server_lists(content: object) -> tuple[ConfiguredList, ...]:
    """The server lists of a parsed file, in the order in which they are read; empty if there are none."""
    if isinstance(content, list):
        return (ConfiguredList((), content, _normalize_listed),) if _are_named(content) else ()
    if not isinstance(content, Mapping) or "kind" in content or "apiVersion" in content:
        return ()
    lists = (
        tuple(_member_lists(content)) or tuple(_server_of_a_bundle(content)) or tuple(_lists_one_level_down(content))
    )
    return lists or tuple(_bare_list(content))


def _member_lists(content: Entry) -> Iterator[ConfiguredList]:
    yield from _lists_of_most_clients(content)
    yield from _claude_projects(content)
    listed = content.get("servers")
    if isinstance(listed, Mapping) and "mcpServers" not in content:
        yield ConfiguredList(("servers",), listed, common)
    elif isinstance(listed, list) and "mcpServers" not in content and _are_named(listed):
        yield ConfiguredList(("servers",), listed, _normalize_listed)
    yield from _lists_under_mcp(content.get("mcp"))
    yield from _nested_under_mcp(content)
    for member, are_servers, normalize, dialect in _MEMBERS:
        listed = content.get(member)
        if isinstance(listed, Mapping) and are_servers(listed):
            yield ConfiguredList((member,), _with_port_of_codex(listed, content), normalize, dialect=dialect)
    yield from _lists_of_named(content)
    yield from _lists_of_openhands(content.get("mcp"))
    yield from _continue_experiments(content.get("experimental"))


def _lists_of_most_clients(content: Entry) -> Iterator[ConfiguredList]:
    """`mcpServers`, also of a VS Code extension (`amp.mcpServers`), of the powers of Kiro and of nanobot's tools."""
    for member, listed in content.items():
        if member != "mcpServers" and not str(member).endswith(".mcpServers"):
            continue
        if isinstance(listed, list):
            yield ConfiguredList((member,), listed, common, dialect="continue")
        elif isinstance(listed, Mapping):
            settings = content.get("mcp")
            dialect = "gemini" if isinstance(settings, Mapping) and _MCP_OF_GEMINI & settings.keys() else ""
            listed = _by_name(chosen_servers(listed, settings))
            yield ConfiguredList((member,), listed, common, dialect=dialect)
    for member in ("powers", "tools"):
        outer = content.get(member)
        if isinstance(outer, Mapping) and isinstance(listed := outer.get("mcpServers"), Mapping):
            yield ConfiguredList((member, "mcpServers"), listed, common)


def _lists_one_level_down(content: Entry) -> Iterator[ConfiguredList]:
    """`mcpServers` within another member, such as `augment.advanced` of Augment and `nanocoder` of Nanocoder."""
    for member, outer in content.items():
        listed = outer.get("mcpServers") if isinstance(outer, Mapping) else None
        if isinstance(listed, Mapping) or (isinstance(listed, list) and _are_named(listed)):
            yield ConfiguredList((member, "mcpServers"), listed, common)


def _lists_of_openhands(mcp: Any) -> Iterator[ConfiguredList]:
    """Lists of OpenHands, one for each transport; servers that run elsewhere have no name, and may be a URL alone."""
    if not isinstance(mcp, Mapping):
        return
    if isinstance(listed := mcp.get("stdio_servers"), list) and listed:
        yield ConfiguredList(("mcp", "stdio_servers"), listed, _normalize_listed)
    for member, transport in (("shttp_servers", "http"), ("sse_servers", "sse")):
        if isinstance(listed := mcp.get(member), list) and listed:
            yield ConfiguredList(("mcp", member), listed, partial(_remote_of_openhands, transport=transport))


def _by_name(listed: Entry) -> Entry:
    """Entries of Cherry Studio, whose keys are random IDs of 21 characters, by their `name`. Entries without a name, or
    with the name of another, stay as they are.
    """
    named: dict[str, Any] = {}
    for key, entry in listed.items():
        name = entry.get("name") if _ID_OF_CHERRY_STUDIO.fullmatch(str(key)) and isinstance(entry, Mapping) else None
        named[name if isinstance(name, str) and name and name not in {*listed, *named} else key] = entry
    return named


def _lists_under_mcp(mcp: Any) -> Iterator[ConfiguredList]:
    """The server list in the member `mcp` of VS Code's settings, of gptme, Octomind and MaiBot, of Crush or of
    opencode."""
    if not isinstance(mcp, Mapping):
        return
    if isinstance(mcp.get("servers"), Mapping):
        yield ConfiguredList(("mcp", "servers"), mcp["servers"], common)
    elif isinstance(mcp.get("servers"), list):
        yield ConfiguredList(("mcp", "servers"), mcp["servers"], _normalize_listed)
    elif _are_crush(mcp):
        yield ConfiguredList(("mcp",), mcp, common, dialect="crush")
    elif _are_opencode(mcp):
        yield ConfiguredList(("mcp",), mcp, _opencode, dialect="opencode")


def _lists_of_named(content: Entry) -> Iterator[ConfiguredList]:
    """Lists of servers that each have a name: of Mistral Vibe, and of a recipe of goose."""
    if isinstance(listed := content.get("mcp_servers"), list):
        yield ConfiguredList(("mcp_servers",), listed, _vibe)
    if isinstance(listed := content.get("extensions"), list) and _are_goose(
        {str(at): entry for at, entry in enumerate(listed)}
    ):
        yield ConfiguredList(("extensions",), listed, _goose, dialect="goose")


def _nested_under_mcp(content: Entry) -> Iterator[ConfiguredList]:
    """Server lists of VS Code in a workspace file and in a `devcontainer.json`, and of PicoClaw in its `tools`."""
    for path in (("settings",), ("customizations", "vscode"), ("customizations", "vscode", "settings"), ("tools",)):
        member: Any = content
        for key in (*path, "mcp", "servers"):
            member = member.get(key) if isinstance(member, Mapping) else None
        if isinstance(member, Mapping):
            yield ConfiguredList((*path, "mcp", "servers"), member, common)


def _continue_experiments(experimental: Any) -> Iterator[ConfiguredList]:
    if not isinstance(experimental, Mapping):
        return
    if isinstance(listed := experimental.get(_OLD_CONTINUE_LIST), list):
        yield ConfiguredList(("experimental", _OLD_CONTINUE_LIST), listed, _old_continue_entry, dialect="continue")
    if isinstance(only := experimental.get(_OLD_CONTINUE_MEMBER), Mapping):
        yield ConfiguredList(("experimental", _OLD_CONTINUE_MEMBER), [only], _old_continue_entry, dialect="continue")


def _with_port_of_codex(listed: Entry, content: Entry) -> Entry:
    """Servers with the port of redirect URIs that Codex has for all of them beside their list. Only a client that
    somebody registered by hand depends on the port.
    """
    port = content.get(CODEX_PORT)
    if port is None:
        return listed
    return {
        name: {**entry, CODEX_PORT: port} if isinstance(entry, Mapping) and entry.get("oauth") else entry
        for name, entry in listed.items()
    }


def _claude_projects(content: Entry) -> Iterator[ConfiguredList]:
    """Server lists of individual projects in Claude Code's `~/.claude.json`. The servers run in the folder of their
    project."""
    projects = content.get("projects")
    for folder, project in projects.items() if isinstance(projects, Mapping) else ():
        listed = project.get("mcpServers") if isinstance(project, Mapping) else None
        if isinstance(listed, Mapping) and listed:
            yield ConfiguredList(("projects", str(folder), "mcpServers"), listed, common, cwd=str(folder))


def _server_of_a_bundle(content: Entry) -> Iterator[ConfiguredList]:
    """The server of an unpacked MCPB bundle, if `content` is the bundle's `manifest.json`."""
    server = content.get("server")
    if not ({"manifest_version", "dxt_version"} & content.keys()) or not isinstance(server, Mapping):
        return
    if isinstance(program := server.get("mcp_config"), Mapping):
        overrides = program.get("platform_overrides")
        of_platform = overrides.get(sys.platform) if isinstance(overrides, Mapping) else None
        entry = {key: value for key, value in program.items() if key != "platform_overrides"} | dict(of_platform or {})
        if isinstance(arguments := entry.get("args"), list):
            entry["args"] = [word for argument in arguments for word in _values_of(argument, content)]
        yield ConfiguredList(("server",), {str(content.get("name") or "bundle"): entry}, common, dialect="bundle")


def _values_of(argument: Any, content: Entry) -> list[Any]:
    """Command-line words for one item of a bundle's `args`. An item that refers to a user option with several values,
    such as `${user_config.folders}`, becomes the default values of the option.
    """
    options = content.get("user_config")
    option = (
        options.get(match[1]) if isinstance(options, Mapping) and (match := _OPTION.fullmatch(str(argument))) else None
    )
    default = option.get("default") if isinstance(option, Mapping) and option.get("multiple") else None
    return default if isinstance(default, list) else [argument]


def _bare_list(content: Entry) -> Iterator[ConfiguredList]:
    """The server list of a file that has no other content."""
    if content and _are_servers(content):
        yield ConfiguredList((), content, common)


def _are_servers(listed: Entry) -> bool:
    return all(isinstance(entry, Mapping) and ({"command", "url", *_URLS} & entry.keys()) for entry in listed.values())


def _are_named(listed: Sequence[Any]) -> bool:
    """Whether all items are servers with a name, unlike the `servers` of an OpenAPI document."""
    return bool(listed) and all(
        isinstance(entry, Mapping) and name_of(entry) and ({"command", "url", "transport", *_URLS} & entry.keys())
        for entry in listed
    )


def name_of(entry: object) -> str:
    """Name of a server in a list; empty without a name."""
    if not isinstance(entry, Mapping):
        return ""
    name = entry.get("id") or entry.get("name")
    return name if isinstance(name, str) else ""


_URLS: Final = ("serverUrl", "httpUrl")
_MCP_OF_GEMINI: Final = frozenset({"allowed", "excluded", "serverCommand"})
"""Members of `mcp` in the settings of Gemini CLI, which has `mcpServers` beside it."""
_OWN_NAMES: Final = {
    "allow_tools": "includeTools",
    "allowed_tools": "includeTools",
    "allowedTools": "includeTools",
    "blocked_tools": "excludeTools",
    "blockedTools": "excludeTools",
    "disabled_tools": "disabledTools",
    "disallowed_tools": "excludeTools",
    "disallowedTools": "excludeTools",
    "enabled_tools": "enabledTools",
    "exclude_tools": "excludeTools",
    "include_tools": "includeTools",
    "env_file": "envFile",
    "working_directory": "cwd",
}
"""Keys of Crush, mcphub.nvim, Dive, PicoClaw, Warp and Deep Agents (left), with those of most clients (right)."""
_OPTION: Final = re.compile(r"\$\{user_config\.([^}]+)\}")
_ID_OF_CHERRY_STUDIO: Final = re.compile(r"[\w-]{21}", re.ASCII)
_OLD_CONTINUE_LIST: Final = "modelContextProtocolServers"
_OLD_CONTINUE_MEMBER: Final = "modelContextProtocolServer"
_FETCHERS: Final = frozenset({"npx", "uvx", "bunx", "pipx", "pnpx"})
_GOOSE_TYPES: Final = frozenset({"stdio", "sse", "streamable_http", "builtin", "platform", "frontend", "inline_python"})


def _accept_any(listed: Entry) -> bool:
    """Accept any content, for a member whose name only one client uses and that may be empty."""
    return True


def _are_opencode(listed: Entry) -> bool:
    """Whether the values of `mcp` are opencode's: servers, or `enabled` alone for servers of an organization."""
    return all(
        isinstance(entry, Mapping) and ({"command", "url", "enabled"} & entry.keys()) for entry in listed.values()
    )


def _are_crush(listed: Entry) -> bool:
    """Whether the values of `mcp` are Crush's, whose types of transports opencode does not have."""
    return any(
        isinstance(entry, Mapping) and entry.get("type") in ("stdio", "http", "sse") for entry in listed.values()
    )


def _are_goose(listed: Entry) -> bool:
    return any(isinstance(entry, Mapping) and entry.get("type") in _GOOSE_TYPES for entry in listed.values())


def common(entry: Any) -> NormalizedEntry:
    """An entry in the format of most clients.

    If `command` is a list, it is the program and its arguments. `cmd /c`, which files for Windows put in front of npx,
    is left out. If `transport` is an object, its members count as members of the entry. `requestOptions.headers`
    becomes `headers`, Cherry Studio's `baseUrl` becomes `url`, Theia's `serverAuthToken` becomes `apiKey` or a header,
    a filter of tools becomes lists of tools, and the keys of `_OWN_NAMES` are renamed.
    FastMCP's `auth` is a token, or says that somebody signs in, as nothing needs to say here.
    """
    if not isinstance(entry, Mapping):
        return NormalizedEntry(entry)
    entry, original_keys = _renamed(entry, _OWN_NAMES)
    if entry.get("type") == "inMemory":
        return NormalizedEntry(entry, unserved="is built into Cherry Studio")
    if "baseUrl" in entry and not entry.get("url"):
        return _cherry_studio(entry)
    content: dict[str, Any] | None = None
    match entry.get("command"), entry.get("args"):
        case [program, *words], None | []:
            content = {**entry, "command": program, "args": words}
            original_keys["args"] = "command"
        case "cmd" | "cmd.exe", ["/c" | "/C", program, *words]:
            content = {**entry, "command": program, "args": words}
            original_keys["command"] = "args"
    if isinstance(transport := entry.get("transport"), Mapping):
        content = {**transport, **{key: value for key, value in (content or entry).items() if key != "transport"}}
        original_keys |= dict.fromkeys(transport, "transport")
    options = entry.get("requestOptions")
    if isinstance(options, Mapping) and isinstance(options.get("headers"), Mapping) and "headers" not in entry:
        content = {**(content or entry), "headers": options["headers"]}
        original_keys["headers"] = "requestOptions"
    if "serverAuthToken" in entry:
        content = _with_token_of_theia(dict(entry if content is None else content), original_keys)
    if isinstance(auth := entry.get("auth"), str):
        content = dict(entry if content is None else content)
        del content["auth"]
        if auth != "oauth":
            content.setdefault("apiKey", auth)
            original_keys["apiKey"] = "auth"
    return NormalizedEntry(with_tool_filter(entry if content is None else content, original_keys), original_keys)


def _with_token_of_theia(content: dict[str, Any], original_keys: dict[str, str]) -> dict[str, Any]:
    """Theia sends `serverAuthToken` in the header that `serverAuthTokenHeader` names, else as a bearer token."""
    token, header = content.pop("serverAuthToken"), content.pop("serverAuthTokenHeader", None)
    if header and isinstance(headers := content.get("headers") or {}, Mapping):
        original_keys[f"headers.{header}"] = "serverAuthToken"
        return {**content, "headers": {**headers, str(header): token}}
    original_keys["apiKey"] = "serverAuthToken"
    return {**content, "apiKey": token}


def _cherry_studio(entry: Entry) -> NormalizedEntry:
    """An entry with `baseUrl`, in which all keys are present and those of the other transport are empty."""
    rest = {key: value for key, value in entry.items() if key not in ("baseUrl", "url") and value not in ("", [], {})}
    normalized = common({**rest, "url": entry["baseUrl"]} if entry["baseUrl"] else rest)
    return NormalizedEntry(normalized.content, {**normalized.original_keys, "url": "baseUrl"})


def _renamed(entry: Entry, keys: Mapping[str, str]) -> tuple[Entry, dict[str, str]]:
    """Rename a client's own keys (left) to those of most clients (right). Also returns the renamed keys' own names, and
    the original paths of the members of renamed objects.
    """
    original_keys = {standard: own for own, standard in keys.items() if own in entry and standard not in entry}
    if not original_keys:
        return entry, original_keys
    renamed = {keys[key] if original_keys.get(keys.get(key, "")) == key else key: value for key, value in entry.items()}
    members = {
        f"{standard}.{member}": f"{own}.{member}"
        for standard, own in original_keys.items()
        if isinstance(value := entry[own], Mapping)
        for member in value
    }
    return renamed, original_keys | members


def _rename(entry: Any, keys: Mapping[str, str]) -> NormalizedEntry:
    """Rename a client's own keys (left) to those of most clients (right), then normalize the entry with `common`."""
    if not isinstance(entry, Mapping):
        return NormalizedEntry(entry)
    renamed, original_keys = _renamed(entry, keys)
    normalized = common(renamed)
    return NormalizedEntry(normalized.content, {**original_keys, **normalized.original_keys})


def _opencode(entry: Any) -> NormalizedEntry:
    """opencode: `enabled` alone turns on a server that the user's organization declares elsewhere."""
    if isinstance(entry, Mapping) and not {"command", "url"} & entry.keys():
        return NormalizedEntry(entry, unserved="has no command or url in this file, but in one of your organization")
    return _rename(entry, {"environment": "env"})


def _normalize_listed(entry: Any) -> NormalizedEntry:
    """gptme, Octomind, nanoMuse and their like: a list of servers, also under `mcp`. `tools` may be settings of single
    tools, which concern their client alone.
    """
    if not isinstance(entry, Mapping):
        return NormalizedEntry(entry)
    if entry.get("type") == "builtin":
        return NormalizedEntry(entry, unserved="is built into Octomind")
    if isinstance(entry.get("tools"), Mapping):
        entry = {key: value for key, value in entry.items() if key != "tools"}
    return _rename(entry, {"auth_token": "apiKey"})


def _vibe(entry: Any) -> NormalizedEntry:
    """Mistral Vibe: `api_key_env` is the name of the environment variable with an API key, `api_key_header` the name of
    the header that contains the key, and `api_key_format` a template of the header's value.
    """
    normalized = _rename(entry, {"enabled_tools": "includeTools", "disabled_tools": "excludeTools"})
    if not isinstance(normalized.content, Mapping) or "api_key_env" not in normalized.content:
        return normalized
    content = dict(normalized.content)
    variable = content.pop("api_key_env")
    header = str(content.pop("api_key_header", "Authorization"))
    value = str(content.pop("api_key_format", "Bearer {token}")).replace("{token}", f"${{{variable}}}")
    content["headers"] = {**(content.get("headers") or {}), header: value}
    return NormalizedEntry(content, {**normalized.original_keys, f"headers.{header}": "api_key_env"})


def _zed(entry: Any) -> NormalizedEntry:
    """Zed: `command` may be an object. An entry without `command` and `url` belongs to an extension, and the extension
    has the program.
    """
    if not isinstance(entry, Mapping):
        return NormalizedEntry(entry)
    if "command" in entry or "url" in entry:  # Zed adds the `settings` of an extension to these entries too
        entry = {key: value for key, value in entry.items() if key != "settings"}
    if isinstance(command := entry.get("command"), Mapping):
        rest = {key: value for key, value in entry.items() if key != "command"}
        nested = {("command" if key == "path" else key): value for key, value in command.items()}
        return NormalizedEntry({**rest, **nested}, dict.fromkeys(nested, "command"))
    if "command" not in entry and "url" not in entry:
        return NormalizedEntry(entry, unserved="belongs to an extension of Zed, which includes the program")
    return common(entry)


def _goose(entry: Any) -> NormalizedEntry:
    """goose: the values of the variables in `env_keys` are in goose's keyring; Fairlead takes them from the environment
    instead."""
    if not isinstance(entry, Mapping):
        return NormalizedEntry(entry)
    kind = entry.get("type")
    if kind in _GOOSE_TYPES and kind not in ("stdio", "sse", "streamable_http"):
        return NormalizedEntry(entry, unserved="is built into goose")
    names = {"cmd": "command", "envs": "env", "uri": "url", "available_tools": "includeTools"}
    normalized = _rename(entry, names)
    content = dict(normalized.content)
    if isinstance(keys := content.pop("env_keys", None), list) and keys:
        values = content.get("env") or {}
        content["env"] = {**{str(key): f"${{{key}}}" for key in keys}, **values}
        passed = {f"env.{key}": "env_keys" for key in keys if str(key) not in values}
        return NormalizedEntry(content, {**normalized.original_keys, **passed})
    return NormalizedEntry(content, normalized.original_keys)


def _codex(entry: Any) -> NormalizedEntry:
    """Codex: headers and tokens are given as names of environment variables, and `tools` says which need approval. In
    Hermes, `tools` may say which are offered; `exclude` only counts without `include`.
    """
    if not isinstance(entry, Mapping):
        return NormalizedEntry(entry)
    tools = entry.get("tools")
    entry = {key: value for key, value in entry.items() if key != "tools"}
    if isinstance(tools, Mapping) and (included := tools.get("include")):
        entry["enabled_tools"] = included
    elif isinstance(tools, Mapping) and isinstance(excluded := tools.get("exclude"), list | str):
        entry["disabled_tools"] = excluded
    names = {"http_headers": "headers", "enabled_tools": "includeTools", "disabled_tools": "excludeTools"}
    normalized = _rename(entry, names)
    content = dict(normalized.content)
    original_keys = dict(normalized.original_keys)
    headers = dict(content.get("headers") or {})
    if isinstance(variables := content.pop("env_http_headers", None), Mapping):
        headers |= {str(name): f"${{{variable}}}" for name, variable in variables.items()}
        original_keys |= {f"headers.{name}": f"env_http_headers.{name}" for name in variables}
    if token := content.pop("bearer_token_env_var", None):
        headers["Authorization"] = f"Bearer ${{{token}}}"
        original_keys["headers.Authorization"] = "bearer_token_env_var"
    if headers:
        content["headers"] = headers
    return NormalizedEntry(content, original_keys)


def _old_continue_entry(entry: Any) -> NormalizedEntry:
    """Continue's older `config.json`: the keys of a server are within `transport`, and the server may have no name. It
    is named after its package, its program or its host.
    """
    normalized = common(entry)
    content = normalized.content
    if not isinstance(content, Mapping) or name_of(content):
        return normalized
    return NormalizedEntry({**content, "name": _name_from_content(content)}, normalized.original_keys)


def _remote_of_openhands(entry: Any, *, transport: str) -> NormalizedEntry:
    """OpenHands: a server that runs elsewhere is its URL, or an object of `url` and `api_key`."""
    if isinstance(entry, str):
        entry = {"url": entry}
    if not isinstance(entry, Mapping):
        return NormalizedEntry(entry)
    normalized = _rename({"type": transport, **entry}, {"api_key": "apiKey"})
    content = {"name": _name_from_content(normalized.content), **normalized.content}
    return NormalizedEntry(content, normalized.original_keys)


def _name_from_content(content: Entry) -> str:
    """Name for a server without a name: its package at npx or uvx, its program, or the host of its URL."""
    program, arguments = str(content.get("command") or ""), content.get("args")
    name = program.rpartition("/")[2]
    if name in _FETCHERS and isinstance(arguments, list):
        packages = [word for word in arguments if isinstance(word, str) and not word.startswith("-")]
        name = packages[0].rpartition("/")[2].partition("@")[0] if packages else name
    return name or urlsplit(str(content.get("url") or "")).hostname or "server"


def bundle_variables(content: Entry, folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Values for the placeholders of an MCPB manifest, `${__dirname}` and `${user_config.key}`.

    `${user_config.key}` becomes the value of the environment variable `KEY` (the option's name in capitals). If that is
    not set, it becomes the option's default. Without a default, it becomes `${KEY}`, so that the error about an unset
    variable names the variable to set.
    """
    variables = {"${__dirname}": folder, "${/}": "/", "${pathSeparator}": "/"}
    options = content.get("user_config")
    for key, option in options.items() if isinstance(options, Mapping) else ():
        name = "".join(char if char.isalnum() else "_" for char in str(key)).upper()
        default = option.get("default") if isinstance(option, Mapping) else None
        if name in environ:
            text = environ[name].replace("${", "$${")
        elif default is None:
            text = f"${{{name}}}"
        else:
            text = default if isinstance(default, str) else json.dumps(default)
        variables[f"${{user_config.{key}}}"] = text
    return variables


_MEMBERS: Final[tuple[tuple[str, Callable[[Entry], bool], Callable[[Any], NormalizedEntry], str], ...]] = (
    ("mcp.servers", _accept_any, common, ""),
    ("mcp_servers", _are_servers, _codex, ""),
    ("context_servers", _accept_any, _zed, ""),
    ("extensions", _are_goose, _goose, "goose"),
)
"""Top-level members that map names to servers, each with a function that tests its content, a function that normalizes
its entries, and the dialect of their variables."""
