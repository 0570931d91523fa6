"""Agent frameworks run a whole task with the gateway: with a tool of the framework and a tool of the gateway."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from llmworld import LlmWorld, llm_world

TASK = "How much rope is in both stores?"
SCRIPT = (
    ScriptedTurn("", [ScriptedCall("demo__add", {"a": 2, "b": 38})]),
    ScriptedTurn("", [ScriptedCall("store", {"city": "harbour"}), ScriptedCall("demo__add", {"a": 1, "b": 1})]),
    ScriptedTurn("There are 42."),
)
"""A call of the gateway's tool, then calls of both tools in one message, then the answer."""


def store(city: str) -> str:
    """Say what a store has in stock."""
    return f"40 in {city}"


def _base(world: LlmWorld) -> str:
    return f"http://127.0.0.1:{world.gateway.port}/v1"


async def _openai_agents(world: LlmWorld, *, stream: bool) -> str:
    agents = pytest.importorskip("agents", reason="openai-agents is not installed (fairlead[dev])")
    openai = pytest.importorskip("openai")
    agents.set_tracing_disabled(True)
    async with openai.AsyncOpenAI(base_url=_base(world), api_key="none", max_retries=0) as client:
        model = agents.OpenAIChatCompletionsModel(model="scripted", openai_client=client)
        agent = agents.Agent(name="clerk", model=model, tools=[agents.function_tool(store)])
        if not stream:
            return str((await agents.Runner.run(agent, TASK)).final_output)
        running = agents.Runner.run_streamed(agent, TASK)
        async for _ in running.stream_events():
            pass
        return str(running.final_output)


async def _pydantic_ai(world: LlmWorld, *, stream: bool) -> str:
    ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed (fairlead[dev])")
    models = pytest.importorskip("pydantic_ai.models.openai")
    providers = pytest.importorskip("pydantic_ai.providers.openai")
    openai = pytest.importorskip("openai")
    async with openai.AsyncOpenAI(base_url=_base(world), api_key="none", max_retries=0) as client:
        model = models.OpenAIChatModel("scripted", provider=providers.OpenAIProvider(openai_client=client))
        agent = ai.Agent(model, tools=[store])
        if not stream:
            return str((await agent.run(TASK)).output)
        async with agent.run_stream(TASK) as running:
            return str(await running.get_output())


async def _langgraph(world: LlmWorld, *, stream: bool) -> str:
    chat = pytest.importorskip("langchain_openai", reason="langchain-openai is not installed (fairlead[dev])")
    graphs = pytest.importorskip("langgraph.graph", reason="langgraph is not installed (fairlead[dev])")
    prebuilt = pytest.importorskip("langgraph.prebuilt")
    tool = pytest.importorskip("langchain_core.tools").tool
    openai = pytest.importorskip("openai")
    async with openai.AsyncOpenAI(base_url=_base(world), api_key="none", max_retries=0) as client:
        model = chat.ChatOpenAI(
            model="scripted", api_key="none", root_async_client=client, async_client=client.chat.completions
        ).bind_tools([tool(store)])

        async def ask(state: Any) -> Any:
            return {"messages": [await model.ainvoke(state["messages"])]}

        graph = graphs.StateGraph(graphs.MessagesState)
        graph.add_node("model", ask)
        graph.add_node("tools", prebuilt.ToolNode([tool(store)]))
        graph.add_edge(graphs.START, "model")
        graph.add_conditional_edges("model", prebuilt.tools_condition)
        graph.add_edge("tools", "model")
        agent = graph.compile()
        begun = {"messages": [("user", TASK)]}
        if not stream:
            return str((await agent.ainvoke(begun))["messages"][-1].content)
        pieces = [piece async for piece, _ in agent.astream(begun, stream_mode="messages")]
        return "".join(str(piece.content) for piece in pieces if piece.type == "AIMessageChunk")


@pytest.mark.parametrize("framework", [_openai_agents, _pydantic_ai, _langgraph])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_framework_runs_a_whole_task(tmp_path: Path, framework: Callable[..., Any], stream: bool) -> None:
    async with llm_world(tmp_path, *SCRIPT) as world:
        assert await framework(world, stream=stream) == "There are 42."
    assert [call["arguments"] for call in world.called] == [{"a": 2, "b": 38}, {"a": 1, "b": 1}]
    names = [tool["function"]["name"] for tool in world.model.requests[0]["tools"]]
    assert names == ["store", "demo__add", "demo__fail"]
    roles = [message["role"] for message in world.model.requests[2]["messages"] if message["role"] != "system"]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "tool"]
    contents = [message["content"] for message in world.model.requests[2]["messages"] if message["role"] == "tool"]
    assert sorted(contents) == ["2", "40", "40 in harbour"]
