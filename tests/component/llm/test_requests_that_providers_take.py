"""Every provider gets unusual but valid tools and conversations in a form that it accepts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.schema.property_names import other_names
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from familytalks import PROVIDERS
from llmworld import ANTHROPIC, llm_world, theirs
from toolservers import tool

OTHERS = {name: members for name, members in PROVIDERS.items() if name != "openai-responses"}
"""Providers for chat clients. OpenAI's provider gets requests at its Chat Completions API."""


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


TEXT = {"type": "string"}
ODD_TOOLS = [
    tool("filters", inputSchema=_object(**{"$filter": TEXT, "page[size]": {"type": "integer"}, "x" * 70: TEXT})),
    tool("nulls", inputSchema={**_object(a=TEXT), "required": None}),
    tool("patterns", inputSchema=_object(a={"type": "string", "pattern": r"(?<=x)\p{L}"})),
    tool(
        "keywords",
        inputSchema={
            "$schema": "http://json-schema.org/draft-07/schema#",
            **_object(
                above={"type": "number", "exclusiveMinimum": 1},
                maybe={"type": ["string", "null"]},
                items={"type": "array"},
                pair={"type": "array", "items": [TEXT]},
                anything=True,
                untyped={},
                numbers={"enum": [1, 2]},
                constant={"const": 1},
                address={"type": "string", "format": "uri"},
                either={"oneOf": [TEXT, {"type": "integer"}], "description": "Either"},
            ),
        },
    ),
    tool(
        "references",
        inputSchema={
            **_object(tree={"$ref": "#/$defs/Tree"}, name={"$ref": "#/definitions/Name"}),
            "$defs": {"Tree": _object(leaf={"type": "string", "default": "q"}, tree={"$ref": "#/$defs/Tree"})},
            "definitions": {"Name": TEXT},
        },
    ),
    tool("alternatives", inputSchema={"type": "object", "anyOf": [_object(a=TEXT), {"required": ["b"]}]}),
    tool("empty", inputSchema={"type": "object"}),
    tool("d" * 100, inputSchema={"type": "object"}),
    tool("dot.ted/slash", inputSchema={"type": "object", "additionalProperties": True}),
    tool("wrong", inputSchema=_object(a={"type": "any"}, b={"type": "string", "required": True}, c={"enum": []})),
]


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_odd_tools_of_a_server_are_taken(tmp_path: Path, provider: str) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hi"), provider=PROVIDERS[provider], tools=ODD_TOOLS) as world:
        answer = await world.chat("Hi")
    assert answer.status == 200, answer.body


async def test_a_renamed_property_reaches_the_server_under_its_own_name(tmp_path: Path) -> None:
    (renamed,) = [other for other, name in other_names(ODD_TOOLS[0]["inputSchema"]).items() if name == "page[size]"]
    turns = [ScriptedTurn("", [ScriptedCall("demo__filters", {renamed: 1})]), ScriptedTurn("Done.")]
    async with llm_world(tmp_path, *turns, provider=ANTHROPIC, tools=ODD_TOOLS[:1]) as world:
        answer = await world.messages("Filter")
    assert answer.status == 200, answer.body
    (filters,) = [each for each in world.model.requests[0]["tools"] if each["name"] == "demo__filters"]
    assert renamed in filters["input_schema"]["properties"]
    assert [call["arguments"] for call in world.called] == [{"page[size]": 1}]


def _calls(*ids: str, content: str | None = None, arguments: str = "{}", name: str = "theirs") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": ident, "type": "function", "function": function} for ident in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def _answer(ident: str, content: str = "so") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": content}


def _message(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


USER_MESSAGE = _message("Hi")
CONVERSATIONS: dict[str, list[dict[str, Any]]] = {
    "ids of other characters": [
        USER_MESSAGE,
        _calls("functions.a:0", "x|y/z"),
        _answer("functions.a:0"),
        _answer("x|y/z"),
    ],
    "ids of any length": [USER_MESSAGE, _calls("c" * 200), _answer("c" * 200), USER_MESSAGE],
    "ids that come again": [
        USER_MESSAGE,
        _calls("call_0"),
        _answer("call_0"),
        _calls("call_0"),
        _answer("call_0"),
        USER_MESSAGE,
    ],
    "results in another order": [USER_MESSAGE, _calls("a", "b"), _answer("b", "B"), _answer("a", "A")],
    "an assistant that begins": [_message("Hello", "assistant"), USER_MESSAGE],
    "an assistant that ends": [USER_MESSAGE, _message("Well, ", "assistant")],
    "a system message at the end": [USER_MESSAGE, _message("Hello", "assistant"), _message("Be brief", "system")],
    "an empty answer": [USER_MESSAGE, _message("", "assistant"), USER_MESSAGE],
    "an answer of white space": [USER_MESSAGE, _message(" \n", "assistant"), USER_MESSAGE],
    "a question of white space": [_message(" "), _message("What?", "assistant"), USER_MESSAGE],
    "a call with words": [USER_MESSAGE, _calls("a", content="Let me "), _answer("a")],
    "an empty result": [USER_MESSAGE, _calls("a"), _answer("a", ""), USER_MESSAGE],
    "a call of a tool that is gone": [USER_MESSAGE, _calls("a", name="gone"), _answer("a"), USER_MESSAGE],
    "arguments that are not JSON": [USER_MESSAGE, _calls("a", arguments='{"q": '), _answer("a"), USER_MESSAGE],
    "arguments that are a list": [USER_MESSAGE, _calls("a", arguments="[1]"), _answer("a"), USER_MESSAGE],
    "no arguments": [USER_MESSAGE, _calls("a", arguments=""), _answer("a"), USER_MESSAGE],
}
SETTINGS: dict[str, dict[str, Any]] = {
    "an effort and a temperature": {"reasoning_effort": "high", "temperature": 0.3},
    "an effort and a forced call": {"reasoning_effort": "high", "tool_choice": "required"},
    "an effort and a small answer": {"reasoning_effort": "high", "max_tokens": 500},
    "a choice": {"tool_choice": {"type": "function", "function": {"name": "theirs"}}},
    "a name that begins with a digit": {"tools": [theirs("2nd")]},
    "as many tools as chat has": {"tools": [theirs(f"tool_{number}") for number in range(128)]},
}


@pytest.mark.parametrize("provider", OTHERS)
async def test_odd_conversations_of_a_chat_client_are_taken(tmp_path: Path, provider: str) -> None:
    turns = [ScriptedTurn("Hi")] * (len(CONVERSATIONS) + len(SETTINGS))
    refused: dict[str, bytes] = {}
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        for name, messages in CONVERSATIONS.items():
            answer = await world.chat(*messages, tools=[theirs()])
            refused |= {} if answer.status == 200 else {name: answer.body}
        for name, members in SETTINGS.items():
            answer = await world.chat("Hi", **{"tools": [theirs()], **members})
            refused |= {} if answer.status == 200 else {name: answer.body}
    assert refused == {}
