"""Lists the attributes of a route that policies change.

Pure module. A new constraint of ToolPolicy needs an entry here and an attribute of `Route` whose default means "no
constraint". A `RuleSet` computes the attribute's value from merged policies, and the package `calls` enforces the
constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.server import ToolRef
from fairlead_gateway.policy.rules import RuleSet

SERVER_ATTRIBUTES: Final[Mapping[str, Callable[[RuleSet, ServerKey], Any]]] = MappingProxyType(
    {
        "quota": lambda rules, server: rules.quotas.get(server.namespace),
        "counted": lambda rules, server: server.namespace in rules.quotas,
        "must_escape": lambda rules, server: server in rules.escaped_servers,
    }
)
"""For each attribute, a function that returns its value for all tools of a server; a false value leaves the default."""
TOOL_ATTRIBUTES: Final[Mapping[str, Callable[[RuleSet], Mapping[ToolRef, Any]]]] = MappingProxyType(
    {"constraint": lambda rules: rules.constraints, "manual": lambda rules: rules.manual_tools}
)
"""For each attribute, a function that returns its values for individual tools."""

Changes = Mapping[str, Any]
"""New values of a route's attributes by name."""
NO_CHANGES: Final[Changes] = MappingProxyType({})


def changes_of_server(rules: RuleSet, server: ServerKey) -> Changes:
    """Attributes that the rules change in all routes of a server."""
    return {
        attribute: value for attribute, read_value in SERVER_ATTRIBUTES.items() if (value := read_value(rules, server))
    }


def changes_of_tools(rules: RuleSet) -> Mapping[ToolRef, Changes]:
    """Attributes that the rules change in the routes of individual tools."""
    changes: dict[ToolRef, dict[str, Any]] = {}
    for attribute, read_values in TOOL_ATTRIBUTES.items():
        for tool, value in read_values(rules).items():
            changes.setdefault(tool, {})[attribute] = value
    return changes
