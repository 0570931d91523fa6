"""Definitions of arbitrary JSON in a server's list: a registry leaves out only these, or offers them to every
provider."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from examples import examples
from fairlead_client.definitions import convert_tools
from fairlead_client.servers import Server, read_declarations
from fairlead_client.tool_table import ToolTable
from fairlead_client.tools import list_tools
from fairlead_formats.registry import find
from fairlead_formats.schema.nulls import remove_nulls
from fairlead_formats.schema.property_names import restore_names
from fairlead_formats.tool_format import DEFAULT
from fairlead_formats.tools.cache import Conversions
from hostileschemas import KINDS, TOOLS

GOOD = Raw(b'{"name":"good","inputSchema":{"type":"object"}}')
SCHEMAS = st.one_of(*KINDS.values()).map(lambda schema: {"name": "odd", "inputSchema": schema})
ARGUMENTS = st.dictionaries(st.sampled_from(("a", "b", "properties")), st.none() | st.integers() | st.lists(st.none()))


def encode_definition(definition: dict[str, Any]) -> Raw | None:
    """A definition as a server sends it; None for a value that JSON cannot represent."""
    try:
        return Raw(msgspec.json.encode(definition))
    except (ValueError, TypeError, RecursionError, msgspec.MsgspecError):
        return None


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic", "gemini", "bedrock-converse"])
@settings(max_examples=examples(400), deadline=None, suppress_health_check=[*HealthCheck])
@given(definition=TOOLS | SCHEMAS, arguments=ARGUMENTS)
def test_a_registry_offers_the_other_tools_of_a_server_whatever_one_definition_holds(
    provider: str, definition: dict[str, Any], arguments: dict[str, Any]
) -> None:
    (server,) = read_declarations([Server(name="s", url="http://127.0.0.1:1/mcp")])
    odd = encode_definition(definition)
    tools = list_tools(server, [GOOD] if odd is None else [odd, GOOD], {})
    table = ToolTable([], tools.values())
    offered = convert_tools(table.tools, table.names, find(provider), DEFAULT, Conversions())
    assert "s__good" in repr(offered)
    for tool in tools.values():
        remove_nulls(restore_names(arguments, tool.other_names), tool.input_schema)
