"""Definitions whose source and target format are equal stay unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead_formats.registry import find
from fairlead_formats.tool_format import Options
from fairlead_formats.tools.between import between

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}}
PARAMETERS = {"name": "a", "description": "d", "parameters": SCHEMA}
OPENAI_FLAT = [
    {"type": "function", **PARAMETERS, "strict": True, "defer_loading": True},
    {"type": "web_search"},
    {"type": "custom", "name": "grammar", "format": {"type": "text"}},
    {"type": "mcp", "server_label": "x", "server_url": "https://x"},
    {"type": "namespace", "name": "n", "tools": [{"type": "function", **PARAMETERS, "name": "b"}]},
]
CHAT = [
    {"type": "function", "function": {**PARAMETERS, "strict": True}, "cache_control": {"type": "ephemeral"}},
    {"type": "custom", "custom": {"name": "grammar"}},
]
REQUESTS: dict[str, tuple[str, Any]] = {
    "openai-chat": ("/tools", CHAT),
    "azure-openai": ("/tools", CHAT),
    "openai-functions": ("/functions", [{**PARAMETERS, "name": "an unsafe name"}]),
    "openai-responses": ("/tools", OPENAI_FLAT),
    "openai-realtime": ("/session/tools", [{"type": "function", **PARAMETERS}, {"type": "mcp", "server_label": "x"}]),
    "anthropic": (
        "/tools",
        [
            {"name": "a", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}, "strict": True},
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
            {"name": "b", "input_schema": {"type": "object"}, "input_examples": [{}]},
        ],
    ),
    "bedrock-converse": (
        "/toolConfig/tools",
        [
            {"toolSpec": {"name": "a", "description": "d", "inputSchema": {"json": SCHEMA}, "strict": True}},
            {"cachePoint": {"type": "default"}},
            {"systemTool": {"name": "nova_grounding"}},
        ],
    ),
    "mcp": ("/tools", [{"name": "a", "title": "A", "inputSchema": SCHEMA, "_meta": {"x": 1}}]),
}
GEMINI: list[dict[str, Any]] = [
    {"functionDeclarations": [{**PARAMETERS, "behavior": "BLOCKING"}]},
    {"googleSearch": {}},
]


@pytest.mark.parametrize("name", REQUESTS)
def test_definitions_in_their_own_format_are_untouched(name: str) -> None:
    member, tools = REQUESTS[name]
    made = between(tools, find(name), find(name))
    assert (made.member, made.tools, made.report) == (member, tools, ())


def test_chat_and_azure_take_each_others_definitions_as_they_are() -> None:
    assert between(CHAT, find("openai-chat"), find("azure-openai")).tools == CHAT


@pytest.mark.parametrize(("name", "member"), [("gemini", "/tools"), ("gemini-live", "/setup/tools")])
def test_tools_of_geminis_own_stay_beside_its_functions(name: str, member: str) -> None:
    made = between({"tools": GEMINI}, find(name), find(name))
    assert (made.member, made.tools, made.report) == (member, GEMINI, ())
    together: list[dict[str, Any]] = [{**GEMINI[0], "googleSearch": {}}]
    assert between(together, find(name), find(name)).tools == GEMINI


def test_a_requested_strict_schema_is_made_and_the_providers_own_tools_stay() -> None:
    tools = [{"type": "function", "name": "a", "parameters": {"type": "object", "properties": {}}}, OPENAI_FLAT[1]]
    made = between(tools, find("openai-responses"), find("openai-responses"), Options(strict=True))
    assert made.tools[0]["strict"] is True
    assert made.tools[1] == OPENAI_FLAT[1]


@pytest.mark.parametrize("source", [*REQUESTS, "gemini"])
@pytest.mark.parametrize("target", ["mcp", "anthropic", "openai-responses", "gemini", "bedrock-converse"])
def test_members_that_another_format_lacks_are_in_the_report(source: str, target: str) -> None:
    tools = GEMINI if source == "gemini" else REQUESTS[source][1]
    if source == target:
        return
    report = str(between(tools, find(source), find(target)).report)
    for lost in ("cache_control", "cachePoint", "web_search", "defer_loading", "googleSearch", "behavior", "namespace"):
        if lost in str(tools):
            assert lost in report or (lost == "cachePoint" and "toolSpec" in report), lost


def test_of_two_functions_of_one_name_the_report_refuses_the_second() -> None:
    for name in ("anthropic", "mcp"):
        schema = {"input_schema": SCHEMA} if name == "anthropic" else {"inputSchema": SCHEMA}
        tools = [{"name": "a", "description": "1", **schema}, {"name": "a", "description": "2", **schema}]
        made = between(tools, find(name), find(name))
        assert made.tools == tools[:1]
        assert [(loss.tool, loss.action) for loss in made.report] == [("a", "refused")]
