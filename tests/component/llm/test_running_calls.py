"""Clients that request to see calls see them while the tools are running."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from llmworld import ANTHROPIC, LlmWorld, llm_world
from responsesworld import responses_world

anthropic = pytest.importorskip("anthropic", reason="Anthropic's client is not installed (fairlead[dev])")
openai = pytest.importorskip("openai", reason="OpenAI's client is not installed (fairlead[dev])")
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
INNER = {"name": "demo__add", "arguments": {"a": 2, "b": 40}}
SEARCHED = ScriptedCall("execute_tool", INNER)
WAYS: dict[str, tuple[ScriptedCall, dict[str, Any]]] = {
    "listed": (ADD, {"showCalls": True}),
    "searched": (SEARCHED, {"showCalls": True, "tools": "search"}),
}


def _turns(call: ScriptedCall) -> list[ScriptedTurn]:
    both = [call, ScriptedCall("demo__fail")]
    return [ScriptedTurn("One.", both), ScriptedTurn("Two.", [call]), ScriptedTurn("Three.")]


@pytest.mark.parametrize("way", WAYS)
async def test_openais_client_sees_a_call_while_its_tool_is_at_work(tmp_path: Path, way: str) -> None:
    released = asyncio.Event()
    call, wishes = WAYS[way]
    options: dict[str, Any] = {"model": "scripted", "input": "Add", "extra_body": {"fairlead": wishes}}
    turns = [*_turns(call), *_turns(call)]
    async with (
        responses_world(tmp_path, *turns, before_call=released.wait) as world,
        _openai(world) as client,
    ):
        kinds: list[str] = []
        async with client.responses.stream(**options) as events:
            async for event in events:
                kinds.append(event.type)
                assert event.type != "response.mcp_call.completed" or released.is_set()
                if kinds.count("response.mcp_call_arguments.done") == 2:
                    released.set()  # both calls of the round are shown, and none has ended
            streamed = await events.get_final_response()
        whole = await client.responses.create(**options)
    assert kinds.index("response.mcp_call.completed") > kinds.index("response.mcp_call_arguments.done")
    assert kinds.count("response.mcp_call.in_progress") == 3
    assert (kinds.count("response.mcp_call.completed"), kinds.count("response.mcp_call.failed")) == (2, 1)
    assert _output(streamed) == _output(whole)
    shown = [(each["name"], json.loads(each["arguments"])) for each in _output(whole) if each["type"] == "mcp_call"]
    assert shown == [(call.name, call.arguments), ("demo__fail", {}), (call.name, call.arguments)]


@pytest.mark.parametrize("way", WAYS)
async def test_anthropics_client_sees_a_call_while_its_tool_is_at_work(tmp_path: Path, way: str) -> None:
    released = asyncio.Event()
    call, wishes = WAYS[way]
    options: dict[str, Any] = {
        "model": "scripted",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Add"}],
        "extra_body": {"fairlead": wishes},
    }
    turns = [*_turns(call), *_turns(call)]
    async with llm_world(tmp_path, *turns, provider=ANTHROPIC, before_call=released.wait) as world:
        base = f"http://127.0.0.1:{world.gateway.port}"
        async with anthropic.AsyncAnthropic(base_url=base, api_key="none", max_retries=0) as client:
            begun: list[str] = []
            async with client.messages.stream(**options) as events:
                async for event in events:
                    if event.type != "content_block_start":
                        continue
                    begun.append(event.content_block.type)
                    assert "mcp_tool_result" not in begun or released.is_set()
                    if begun.count("mcp_tool_use") == 2:
                        released.set()  # both calls of the round are shown, and none has ended
                streamed = await events.get_final_message()
            whole = await client.messages.create(**options)
    assert begun == [
        "text",
        *["mcp_tool_use"] * 2,
        *["mcp_tool_result"] * 2,
        "text",
        "mcp_tool_use",
        "mcp_tool_result",
        "text",
    ]
    assert _content(streamed) == _content(whole)
    assert _content(whole)[1]["input"] == call.arguments


def _openai(world: LlmWorld) -> Any:
    base = f"http://127.0.0.1:{world.gateway.port}/v1"
    return openai.AsyncOpenAI(base_url=base, api_key="none", max_retries=0)


def _output(response: Any) -> list[dict[str, Any]]:
    """Items of a response, without generated ids and members that the client adds."""
    items = []
    for item in response.to_dict()["output"]:
        for part in item.get("content") or ():
            part.pop("parsed", None)
        items.append({name: value for name, value in item.items() if name not in ("id", "tools")})
    return _without_sessions(items)


def _content(message: Any) -> list[dict[str, Any]]:
    """Blocks of a message, without the ids of its calls."""
    blocks = message.to_dict(warnings=False)["content"]
    same = ({name: value for name, value in each.items() if name not in ("id", "tool_use_id")} for each in blocks)
    return _without_sessions([*same])


def _without_sessions(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items without the generated ids under which results are stored, for comparisons."""
    return list(json.loads(re.sub(r"entry_id \S+ of session_id \S+", "entry", json.dumps(items))))
