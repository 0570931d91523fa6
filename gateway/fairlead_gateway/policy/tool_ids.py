"""Tools of a view by their ids, `mcp.{server}.{tool}`, as REST and the Python API show them. Pure module.

An id does not say the namespace, nor where the name of a server ends: both names may hold dots. So it stands for a tool
only where one server alone can be meant, whatever tools the others have: else what a client calls would become another
server's as soon as the first loses its tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from fairlead_api.meta import ServerKey

if TYPE_CHECKING:
    from fairlead_gateway.core.route import Route

ID: Final = "mcp."
MAX_ID: Final = 1024
"""Characters of an id that is looked up: the longest server and tool have fewer."""
MOST_NAMED: Final = 5
"""Servers, and tools, that an error names."""
ByServer: TypeAlias = dict[str, dict[ServerKey, dict[str, str]]]
"""Name of a server to those that have it, and their tools: own names to the names that the view shows."""


def by_server(routes: Mapping[str, Route]) -> ByServer:
    """The tools behind routes, by the names of their servers."""
    servers: ByServer = {}
    for name, route in routes.items():
        key = route.server.key
        servers.setdefault(key.name, {}).setdefault(key, {})[route.name] = name
    return servers


def find_named(tools_by_server: ByServer, rest: str) -> tuple[list[str], list[ServerKey]]:
    """The tools, by shown names, and the servers that `{server}.{tool}` may mean."""
    shown: list[str] = []
    servers: list[ServerKey] = []
    dot = rest.find(".")
    while dot >= 0:
        meant, tool = tools_by_server.get(rest[:dot], {}), rest[dot + 1 :]
        having = [tools[tool] for tools in meant.values() if tool in tools]
        if having:
            shown += having
            servers += meant
        dot = rest.find(".", dot + 1)
    return shown, servers


def ambiguous(name: str, servers: Sequence[ServerKey], shown: Sequence[str]) -> str:
    """Message for an id that may mean several servers; `shown` are the names of the tools that have it."""
    meant = f"{name} may mean the servers {list_names(servers)}"
    return f"Ambiguous tool: {meant}. Call it by its name in the list: {list_names(shown)}"


def list_names(names: Sequence[object]) -> str:
    """The first few of some names, for a message."""
    more = len(names) - MOST_NAMED
    return ", ".join(map(str, names[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
