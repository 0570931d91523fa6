"""OpenAI's Agents SDK as the client: its own tools and the gateway's tools in one session."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agents import function_tool
from agents.realtime import RealtimeAgent, RealtimeModelConfig, RealtimeRunner, RealtimeSessionModelSettings

from fairlead_speech.scripted import SpokenCall, SpokenReply
from speechworld import MODEL, speech_world


async def test_an_agent_runs_its_own_tools_and_the_gateway_runs_its(tmp_path: Path) -> None:
    calls = SpokenCall("theirs", {}, "call_theirs"), SpokenCall("demo__add", {"a": 2, "b": 3}, "call_add")
    async with speech_world(tmp_path, SpokenReply("", calls), SpokenReply("Five, and mine.")) as world:

        @function_tool(strict_mode=False)
        async def theirs() -> str:
            """Answer behind the gateway's call: a response that the client asks for earlier has not heard of it."""
            await world.session.until("conversation.item.create", 2)  # the user's text and a result
            return "mine"

        address = f"ws://127.0.0.1:{world.gateway.port}/v1/realtime?model={MODEL}"
        settings: RealtimeSessionModelSettings = {"model_name": MODEL}
        config: RealtimeModelConfig = {"url": address, "api_key": "any", "initial_model_settings": settings}
        runner = RealtimeRunner(RealtimeAgent(name="guide", instructions="Be brief.", tools=[theirs]))
        seen: list[Any] = []
        async with asyncio.timeout(30), await runner.run(model_config=config) as session:
            await session.send_message("What is two and three?")
            async for event in session:
                seen.append(event)
                if event.type == "history_updated" and "Five, and mine." in str(event.history):
                    break
        outputs = {each["item"]["call_id"]: each["item"]["output"] for each in call_results(world.session.received)}
        assert outputs == {"call_theirs": "mine", "call_add": "5"}
        assert len(world.called) == 1
        assert [event.tool.name for event in seen if event.type == "tool_start"] == ["theirs"]
        assert not [event for event in seen if event.type == "error"]


def call_results(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of calls in a client's events."""
    made = [event for event in events if event["type"] == "conversation.item.create"]
    return [event for event in made if event["item"]["type"] == "function_call_output"]
