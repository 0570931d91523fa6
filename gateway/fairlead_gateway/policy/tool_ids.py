"""Finds tools of a view by their ids, `mcp.{server}.{tool}`, which REST and the Python API use. Pure module.

An id has no namespace, and its parts may contain dots, so several servers may match one id. Such an id is refused as
ambiguous, even if only one of these servers has a tool of that name. Otherwise, a client's calls would silently move to
another server when that server adds a tool of this name and the first server removes its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from fairlead_api.meta import ServerKey

if TYPE_CHECKING:
    from fairlead_gateway.core.route import Route

ID: Final = "mcp."
MAX_ID: Final = 1024
"""Maximum number of characters of an id. Even the longest names of a server and a tool together are shorter."""
MAX_NAMED: Final = 5
"""Maximum number of servers, and of tools, that an error message names."""
ByServer: TypeAlias = dict[str, dict[ServerKey, dict[str, str]]]
"""Servers by name; for each server, the listed names of its tools by their unprefixed names."""


def by_server(routes: Mapping[str, Route]) -> ByServer:
    """Index the tools of routes by the names of their servers, and by the unprefixed names that clients see."""
    servers: ByServer = {}
    for name, route in routes.items():
        key = route.server.key
        tool = route.name if route.tool is None else route.tool.shown_name
        servers.setdefault(key.name, {}).setdefault(key, {})[tool] = name
    return servers


def by_own_name(routes: Mapping[str, Route]) -> dict[ServerKey, dict[str, str]]:
    """Index the listed names of tools by their servers and the servers' names of the tools."""
    tools: dict[ServerKey, dict[str, str]] = {}
    for name, route in routes.items():
        tools.setdefault(route.server.key, {})[route.name] = name
    return tools


def by_former_name(routes: Mapping[str, Route]) -> dict[str, str]:
    """Listed names of renamed tools (`as` in `spec.tools`), by the names and ids that they would have without `as`."""
    names: dict[str, str] = {}
    for name, route in routes.items():
        tool = route.tool
        if tool is not None and tool.renamed is not None:
            names[name.removesuffix(tool.renamed) + tool.name] = name
            names[f"{ID}{route.server.key.name}.{tool.name}"] = name
    return names


def find_named(tools_by_server: ByServer, rest_of_id: str) -> tuple[list[str], list[ServerKey]]:
    """Listed names of the tools that match `rest_of_id`, an id without `mcp.`, and all servers whose name matches."""
    listed_names: list[str] = []
    servers: list[ServerKey] = []
    dot = rest_of_id.find(".")
    while dot >= 0:
        candidates, tool = tools_by_server.get(rest_of_id[:dot], {}), rest_of_id[dot + 1 :]
        matching = [tools[tool] for tools in candidates.values() if tool in tools]
        if matching:
            listed_names += matching
            servers += candidates
        dot = rest_of_id.find(".", dot + 1)
    return listed_names, servers


def ambiguity_message(name: str, servers: Sequence[ServerKey], listed_names: Sequence[str]) -> str:
    """Message about an id that several servers match. `listed_names` are the listed names of the matching tools."""
    return (
        f"Ambiguous tool: {name} matches the servers {list_names(servers)}. Call the tool by its name in the list: "
        f"{list_names(listed_names)}"
    )


def list_names(names: Sequence[object]) -> str:
    """Join the first names for a message, and append the number of further names."""
    more = len(names) - MAX_NAMED
    return ", ".join(map(str, names[:MAX_NAMED])) + (f" and {more} more" if more > 0 else "")
