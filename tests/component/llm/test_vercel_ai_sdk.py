"""Agents of Vercel's AI SDK, which refers to earlier items, continue as they do without the gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from frameworkclients import framework_talk
from llmworld import ANTHROPIC, llm_world
from responsesworld import kinds

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.timeout(600)]
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {})
STEPS = [
    {"text": "Look.", "calls": ["theirs"]},
    {"text": "", "calls": ["theirs"]},
    {"text": "Done.", "calls": []},
    {"text": "Done again.", "calls": []},
]


def turns(*thoughts: str) -> list[ScriptedTurn]:
    """Three steps, of which the first is a mixed turn and the others have hidden rounds, and a final answer."""
    script = [
        ("Look.", [ADD, CLIENT_CALL]),
        ("", [ADD]),
        ("", [CLIENT_CALL]),
        ("", [ADD]),
        ("Done.", []),
        ("Done again.", []),
    ]
    return [ScriptedTurn(text, calls, thoughts=thoughts) for text, calls in script]


@pytest.mark.parametrize("way", ["whole", "stream"])
@pytest.mark.parametrize("provider", [{"responses": True}, {"responses": False}, ANTHROPIC], ids=str)
async def test_an_agent_of_vercels_sdk_takes_all_its_steps(tmp_path: Path, provider: dict[str, Any], way: str) -> None:
    thoughts = () if provider.get("responses") is False else ("Hm.",)
    async with llm_world(tmp_path, *turns(*thoughts), provider=provider) as world:
        steps = await framework_talk("vercel_ai", way, f"http://127.0.0.1:{world.gateway.port}", "Done")
        assert len(world.called) == 3
    assert steps == STEPS
    assert len(world.model.requests) == 6
    if provider.get("responses"):
        hidden = ["reasoning", "function_call", "function_call_output"]
        sent = kinds(world.model.requests[-1]["input"])
        assert sent[-6:] == [*hidden, "reasoning", "message", "message"]
        assert sent.count("function_call") == sent.count("function_call_output") == 5
