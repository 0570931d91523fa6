"""A real LiteLLM proxy as a provider: models behind the proxy call the gateway's tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from litellmproxies import INSTALL_SECONDS, litellm_models, program_path
from llmworld import chunks, llm_world, theirs
from toolservers import serve_asgi

pytestmark = [pytest.mark.network, pytest.mark.timeout(INSTALL_SECONDS)]
ADD = ScriptedTurn("Let me see.", [ScriptedCall("demo__add", {"a": 2, "b": 40})])
ANSWER = ScriptedTurn("It is 42.")
MIXED = ScriptedTurn("", [ScriptedCall("demo__add", {"a": 1, "b": 1}), ScriptedCall("theirs", {"q": 1})])
REFUSED = ScriptedTurn("slow down", status=429, headers={"retry-after": "7"})


async def test_a_model_behind_litellm_calls_tools_whole_and_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind = ScriptedModel(ADD, ANSWER, ADD, ANSWER, MIXED, ANSWER, REFUSED)
    async with (
        serve_asgi(behind) as port,
        litellm_models({"scripted": f"http://127.0.0.1:{port}/v1"}, tmp_path, program_path()) as proxy,
    ):
        monkeypatch.setenv("PROXY_KEY", proxy.key)
        provider = {"baseUrl": f"{proxy.url}/v1", "keyEnv": "PROXY_KEY"}
        async with llm_world(tmp_path, provider=provider) as world:
            whole = await world.chat("Add")
            streamed = await world.chat("Add", stream=True, stream_options={"include_usage": True})
            mixed = await world.chat("Add", tools=[theirs()])
            message = mixed.message["choices"][0]["message"]
            (call,) = message["tool_calls"]
            result = {"role": "tool", "tool_call_id": call["id"], "content": "theirs"}
            restored = await world.chat("Add", message, result, tools=[theirs()])
            refused = await world.chat("Add")
    assert whole.message["choices"][0]["message"]["content"] == "Let me see.\n\nIt is 42."
    assert whole.message["usage"]["total_tokens"] == 230
    assert [tool["function"]["name"] for tool in behind.requests[0]["tools"]] == ["demo__add", "demo__fail"]
    stream_chunks = chunks(streamed)
    deltas = [chunk["choices"][0]["delta"] for chunk in stream_chunks[:-1] if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Let me see.\n\nIt is 42."
    assert stream_chunks[-1] == "[DONE]"
    assert stream_chunks[-2]["usage"]["total_tokens"] == 230
    assert call["function"]["name"] == "theirs"
    assert restored.message["choices"][0]["message"]["content"] == "It is 42."
    assert [m["role"] for m in behind.requests[5]["messages"]] == ["user", "assistant", "tool", "tool"]
    assert len(world.called) == 3
    assert refused.status == 429
    assert "slow down" in refused.message["error"]["message"]
    assert proxy.key not in str(behind.headers)
