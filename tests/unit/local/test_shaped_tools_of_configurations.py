"""Shapes of tools in the `fairlead` member of a server of an mcp.json."""

from __future__ import annotations

import json
from pathlib import Path

from fairlead_operator.local.configfile import read_configuration


def test_an_entry_of_an_mcp_json_shapes_tools_as_a_manifest_does() -> None:
    tool = {
        "name": "search_v2",
        "as": "find",
        "annotations": {"readOnlyHint": True},
        "arguments": {"q": {"as": "query"}, "tenant": {"value": {"id": 7}}},
        "result": {"select": "items", "schema": {"type": "object"}},
    }
    text = json.dumps({"mcpServers": {"a": {"command": "x", "fairlead": {"tools": [tool]}}}})
    configuration = read_configuration(text, Path("mcp.json"), {}, lambda url: False)
    assert configuration is not None
    assert not configuration.problems
    (declared,) = configuration.servers
    (override,) = declared.server.spec.tools
    assert override.shown_as == "find"
    assert override.arguments["q"].shown_as == "query"
    assert override.arguments["tenant"].value == {"id": 7}
    assert override.result is not None
    assert (override.result.select, override.result.output_schema) == ("items", {"type": "object"})
