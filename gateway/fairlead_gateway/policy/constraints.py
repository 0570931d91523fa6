"""The table of what policies change about a call: one row for each attribute of a route that they narrow.

Pure module. A new constraint of ToolPolicy is a row here and an attribute of `Route`, whose default means that nothing
is narrowed; a `RuleSet` reads it from what the policies merged to, and a check of `calls` holds calls to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.server import ToolRef
from fairlead_gateway.policy.rules import RuleSet

OF_SERVERS: Final[Mapping[str, Callable[[RuleSet, ServerKey], Any]]] = MappingProxyType(
    {
        "quota": lambda rules, server: rules.quotas.get(server.namespace),
        "counted": lambda rules, server: server.namespace in rules.quotas,
        "escapes": lambda rules, server: server in rules.escaping,
    }
)
"""Attribute of a route to its value for all tools of one server; what is false leaves the attribute as it is."""
OF_TOOLS: Final[Mapping[str, Callable[[RuleSet], Mapping[ToolRef, Any]]]] = MappingProxyType(
    {"constraint": lambda rules: rules.constraints, "manual": lambda rules: rules.manual}
)
"""Attribute of a route to its values for single tools."""

Changes = Mapping[str, Any]
"""Attributes of a route with their new values."""
NO_CHANGES: Final[Changes] = MappingProxyType({})


def changes_of_server(rules: RuleSet, server: ServerKey) -> Changes:
    """Attributes that the rules change of every route to the server."""
    return {attribute: value for attribute, read in OF_SERVERS.items() if (value := read(rules, server))}


def changes_of_tools(rules: RuleSet) -> Mapping[ToolRef, Changes]:
    """Attributes that the rules change of routes to single tools."""
    changes: dict[ToolRef, dict[str, Any]] = {}
    for attribute, read in OF_TOOLS.items():
        for tool, value in read(rules).items():
            changes.setdefault(tool, {})[attribute] = value
    return changes
