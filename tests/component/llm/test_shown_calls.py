"""Clients that request it see the gateway's calls in the form of Anthropic's hosted tools, and send them back as calls
and results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anthropicworld import ADD, CLIENT_CALL, CLIENT_TOOL, THINKS, final_message, kinds
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from llmworld import ANTHROPIC, LlmWorld, llm_world
from provider_ids import with_provider_ids

SHOWS = {"fairlead": {"showCalls": True}}


async def _send(world: LlmWorld, *messages: Any, stream: bool, **more: Any) -> dict[str, Any]:
    answer = await world.messages(*messages, stream=stream, tools=[CLIENT_TOOL], **{**SHOWS, **more})
    return dict(final_message(answer, stream))


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_are_shown_with_their_results(tmp_path: Path, stream: bool) -> None:
    turns = [ScriptedTurn("One.", [ADD, ScriptedCall("demo__fail")]), ScriptedTurn("Two.")]
    async with llm_world(tmp_path, *turns, provider=ANTHROPIC) as world:
        message = await _send(world, "Add", stream=stream)
    assert kinds(message) == ["text", "mcp_tool_use", "mcp_tool_use", "mcp_tool_result", "mcp_tool_result", "text"]
    use = message["content"][1]
    result = message["content"][3]
    assert with_provider_ids(use) == {
        "type": "mcp_tool_use",
        "id": "mcptoolu_fairlead_toolu_scripted_0001_0000",
        "name": "demo__add",
        "server_name": "fairlead",
        "input": {"a": 2, "b": 40},
    }
    assert result == {
        "type": "mcp_tool_result",
        "tool_use_id": use["id"],
        "is_error": False,
        "content": [{"type": "text", "text": "42"}],
    }
    assert message["content"][4]["is_error"] is True
    assert message["stop_reason"] == "end_turn"


@pytest.mark.parametrize("stream", [False, True])
async def test_shown_calls_come_back_as_the_rounds_that_they_were(tmp_path: Path, stream: bool) -> None:
    turns = [
        ScriptedTurn("One.", [ADD], thoughts=["Oh."]),
        ScriptedTurn("", [ADD]),
        ScriptedTurn("Two.", thoughts=["Hm."]),
        ScriptedTurn("Three."),
    ]
    async with llm_world(tmp_path, *turns, provider=ANTHROPIC) as world:
        message = await _send(world, "Add", stream=stream, thinking=THINKS)
        back = {"role": "assistant", "content": message["content"]}
        # this conversation has no stored turn
        await _send(world, "Add now", back, "And?", stream=stream, thinking=THINKS)
    before = world.model.requests[2]["messages"]
    sent = world.model.requests[3]["messages"]
    assert sent[1:5] == before[1:5]
    assert [block["type"] for block in sent[5]["content"]] == ["thinking", "text"]
    assert [each["role"] for each in sent] == ["user", "assistant"] * 3 + ["user"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stored", [False, True])
async def test_a_mixed_turn_comes_back_whole_with_shown_calls(tmp_path: Path, stream: bool, stored: bool) -> None:
    mixed = ScriptedTurn("Both.", [ADD, CLIENT_CALL], thoughts=["Hm."])
    async with llm_world(tmp_path, mixed, ScriptedTurn("Done."), provider=ANTHROPIC) as world:
        message = await _send(world, "Ask", stream=stream, thinking=THINKS)
        assert kinds(message) == ["thinking", "text", "tool_use", "mcp_tool_use", "mcp_tool_result"]
        assert message["stop_reason"] == "tool_use"
        back = {"role": "assistant", "content": message["content"]}
        result = {"type": "tool_result", "tool_use_id": message["content"][2]["id"], "content": "so"}
        question = "Ask" if stored else "Ask otherwise"
        await _send(world, question, back, {"role": "user", "content": [result]}, stream=stream, thinking=THINKS)
    _, called, results = world.model.requests[1]["messages"]
    assert sorted(block["type"] for block in called["content"]) == ["text", "thinking", "tool_use", "tool_use"]
    ids = {block["tool_use_id"] for block in results["content"]}
    assert ids == {"toolu_scripted_0001_0000", "toolu_scripted_0001_0001"}


async def test_mcp_blocks_that_cannot_be_sent_on_are_left_out(tmp_path: Path) -> None:
    ours = "mcptoolu_fairlead_"
    text = {"type": "text", "text": "So."}
    half = {"type": "mcp_tool_use", "id": f"{ours}1", "name": "demo__add", "server_name": "fairlead", "input": {}}
    odd = {"type": "mcp_tool_use", "id": f"{ours}2", "name": 7, "server_name": "fairlead", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": f"{ours}2", "is_error": False, "content": 7}
    said_before = {"role": "assistant", "content": [half, odd, result, text]}
    async with llm_world(tmp_path, ScriptedTurn("Hi"), ScriptedTurn("Hi"), provider=ANTHROPIC) as world:
        first = await world.messages("Add", said_before, "And?")
        whole = {"role": "assistant", "content": [half, {**result, "tool_use_id": half["id"]}, text]}
        second = await world.messages("Add", whole, "And?", fairlead={"tools": "none"})
    assert (first.status, second.status) == (200, 200)
    for request in world.model.requests:
        assert request["messages"][1] == {"role": "assistant", "content": [text]}


async def test_blocks_of_the_providers_own_connector_stay(tmp_path: Path) -> None:
    use = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "n", "server_name": "s", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []}
    said_before = {"role": "assistant", "content": [use, result]}
    headers = {"anthropic-beta": "mcp-client-2026-09-15"}
    async with llm_world(tmp_path, ScriptedTurn("Hi"), provider=ANTHROPIC) as world:
        await world.messages("Add", said_before, "And?", headers=headers)
    assert world.model.requests[0]["messages"][1] == said_before
