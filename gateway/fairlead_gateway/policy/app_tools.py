"""Tools of a view by the names that user interfaces call them by: those of their own server (SEP-1865). Pure module.

The HTML of an app has its server's names written into it, and nothing on the wire tells its calls from a model's. So
a name of that kind stands for a tool only where one server alone can be meant: one that has user interfaces, and shows
the tool to them. Another server's tool is reached by its name in the list, which its HTML cannot know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairlead_gateway.policy.tool_ids import list_names

if TYPE_CHECKING:
    from fairlead_api.meta import ServerKey
    from fairlead_gateway.core.route import Route


def for_apps(routes: Mapping[str, Route]) -> dict[str, list[str]]:
    """Own names to the names that a view shows, of tools that the apps of their servers may call."""
    having: set[ServerKey] = set()
    for route in routes.values():
        if route.tool is not None and route.tool.interface.resources:
            having.add(route.server.key)
    tools: dict[str, list[str]] = {}
    for name, route in routes.items() if having else ():
        if route.server.key in having and route.tool is not None and route.tool.interface.for_app:
            tools.setdefault(route.name, []).append(name)
    return tools


def ambiguous(name: str, shown: list[str]) -> str:
    """Message for a name that the apps of several servers may mean."""
    meant = f"the apps of several servers call a tool {name}"
    return f"Ambiguous tool: {meant}. Call it by its name in the list: {list_names(shown)}"
