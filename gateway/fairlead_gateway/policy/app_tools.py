"""Finds tools by unprefixed names, which MCP apps use to call tools of their own server (SEP-1865). Pure module.

The HTML of an app contains unprefixed names, and the gateway cannot tell calls of the app from calls of a model. So an
unprefixed name stands for a tool only if exactly one server has user interfaces and offers them a tool of this name. If
several servers do so, a call has to use the listed name, which the HTML of an app does not contain.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead_gateway.policy.tool_ids import list_names

if TYPE_CHECKING:
    from fairlead_api.meta import ServerKey
    from fairlead_gateway.core.route import Route


def names_for_apps(routes: Mapping[str, Route]) -> dict[str, list[str]]:
    """Map unprefixed names to listed names, for the tools that apps of their servers may call."""
    servers_with_apps: set[ServerKey] = set()
    for route in routes.values():
        if route.tool is not None and route.tool.interface.resources:
            servers_with_apps.add(route.server.key)
    tools: dict[str, list[str]] = {}
    for name, route in routes.items() if servers_with_apps else ():
        if route.server.key in servers_with_apps and route.tool is not None and route.tool.interface.for_app:
            tools.setdefault(route.tool.shown_name, []).append(name)
    return tools


def ambiguity_message(name: str, listed_names: list[str]) -> str:
    """Message about a name by which the apps of several servers call a tool."""
    return (
        f"Ambiguous tool: the apps of several servers have a tool {name}. Call the tool by its name in the list: "
        f"{list_names(listed_names)}"
    )
