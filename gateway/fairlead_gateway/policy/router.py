"""The router endpoint, which lists built-in tools and pinned tools instead of all tools that a subject may call.

Pure module. A view of the router wraps a view of the merged endpoint, which decides which tools the subject may call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_gateway.core.meta_tools import DEFINITIONS, INSTRUCTIONS, OWN_TOOLS, READ_DEFINITION
from fairlead_gateway.core.server import ToolRef
from fairlead_gateway.policy.tool_list import ToolList
from fairlead_gateway.policy.view import MERGED, View, ViewTarget, ViewTools
from fairlead_mcp.escaping import escape

ROUTER: Final = b"/router/mcp"
"""Request target of the router without a tier; the target of a tier is this path with its name appended."""


def merged_target(target: bytes) -> bytes | None:
    """Target of the merged endpoint for a target of the router; None for any other target."""
    if target == ROUTER or target.startswith(ROUTER + b"/"):
        return MERGED + target.removeprefix(ROUTER)
    return None


def router_view(merged_view: View, tools: Mapping[str, tuple[ToolRef, bytes]], legacy: Mapping[str, bytes]) -> View:
    """Create the router's view for a view of the merged endpoint. `tools` has the definitions of all tools. `legacy`
    has the definitions that differ for legacy clients; an empty definition means that these clients are not shown the
    tool.
    """
    names = [name for name in sorted(merged_view.pinned) if name in merged_view.routes and name not in OWN_TOOLS]
    pinned_routes = {name: merged_view.routes[name] for name in names}
    built_in = sorted((*DEFINITIONS, *((READ_DEFINITION,) if merged_view.lists_reader else ())))

    def definitions(replacements: Mapping[str, bytes]) -> list[bytes]:
        pinned = ((route, replacements.get(name, tools[name][1])) for name, route in pinned_routes.items())
        return [*built_in, *(bytes(escape(raw)) if route.must_escape else raw for route, raw in pinned if raw)]

    legacy_list = None if pinned_routes.keys().isdisjoint(legacy) else ToolList(definitions(legacy))
    view_tools = ViewTools(
        routes=pinned_routes,
        everything=merged_view.everything,
        hidden={},
        pinned=merged_view.pinned,
        why_denied=merged_view.why_denied,
        lists_reader=merged_view.lists_reader,
    )
    target = ViewTarget(
        base=ROUTER,
        tier=merged_view.tier,
        server_info=None,
        instructions=lambda: INSTRUCTIONS,
        full_view=merged_view,
    )
    listing = ToolList(definitions({}), legacy_list)
    return View(view_tools, listing, merged_view.resources.tasks_only(), target, merged_view.escaped_servers)
