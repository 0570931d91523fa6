"""Message threads of Anthropic's Messages, which the gateway does not store: clients send the whole conversation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anthropicworld import CLIENT_TOOL
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from familytalks import PROVIDERS
from llmworld import LlmWorld, llm_world
from toolservers import serve_asgi

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
HEADERS = {"anthropic-version": "2023-06-01", "anthropic-beta": "message-threads-2026-08-12"}
CREATE: dict[str, Any] = {"thread": {"type": "create"}}
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
providers = pytest.mark.parametrize("provider", PROVIDERS)


def continues(ident: str) -> dict[str, Any]:
    return {"thread": {"type": "continue", "previous_message_id": ident}}


@providers
@streams
async def test_a_continued_thread_is_not_found(tmp_path: Path, provider: str, stream: bool) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello"), provider=PROVIDERS[provider]) as world:
        for messages in ([{"role": "user", "content": "And now?"}], []):
            answer = await world.messages(*messages, stream=stream, headers=HEADERS, **continues("msg_1"))
            assert answer.status == 404
            error = answer.message["error"]
            assert (error["type"], error["details"]) == ("not_found_error", {"error_code": "thread_not_found"})
            assert "the gateway stores no message threads, and cannot continue 'msg_1'" in error["message"]
    assert world.model.requests == []


@providers
async def test_a_created_thread_is_not_created_at_the_provider(tmp_path: Path, provider: str) -> None:
    turns = [ScriptedTurn("", [ADD]), ScriptedTurn("There are 42.")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider]) as world:
        answer = await world.messages("Hi", headers=HEADERS, **CREATE)
        assert answer.status == 200, answer.body
        assert "thread" not in answer.message["fairlead"].get("losses", [])
    assert len(world.model.requests) == 2
    assert "thread" not in json.dumps(world.model.requests)


async def conversation(base: str, *, stream: bool) -> list[str]:
    """Texts of three turns with the SDK's helper for threads."""
    anthropic = pytest.importorskip("anthropic", reason="Anthropic's client is not installed (fairlead[dev])")
    async with anthropic.AsyncAnthropic(base_url=base, api_key="none", max_retries=0) as client:
        thread = client.beta.messages.thread(model="scripted", max_tokens=99, tools=[CLIENT_TOOL], system="Be brief.")
        texts = []
        for text in ("One?", "Two?", "Three?"):
            if stream:
                async with thread.stream({"role": "user", "content": text}) as events:
                    message = await events.get_final_message()
            else:
                message = await thread.send({"role": "user", "content": text})
            texts.append("".join(block.text for block in message.content if block.type == "text"))
        return texts


def conversations(world: LlmWorld) -> list[Mapping[str, Any]]:
    """System prompt and messages of each request to the model."""
    return [{name: request[name] for name in ("system", "messages")} for request in world.model.requests]


@streams
async def test_anthropics_helper_for_threads_has_the_same_conversation_as_without_threads(
    tmp_path: Path, stream: bool
) -> None:
    turns = [ScriptedTurn(text, thoughts=["Hm."]) for text in ("First", "Second", "Third")]
    async with llm_world(tmp_path, *turns, provider=PROVIDERS["anthropic"]) as world:
        texts = await conversation(f"http://127.0.0.1:{world.gateway.port}", stream=stream)
        read = conversations(world)
    assert texts == ["First", "Second", "Third"]
    assert [each["system"] for each in read] == ["Be brief."] * 3
    assert [[message["role"] for message in each["messages"]] for each in read] == [
        ["user"],
        ["user", "assistant", "user"],
        ["user", "assistant", "user", "assistant", "user"],
    ]


@streams
async def test_the_scripted_messages_api_continues_a_thread(stream: bool) -> None:
    model = ScriptedModel(*(ScriptedTurn(text) for text in ("First", "Second", "Third")))
    async with serve_asgi(model) as port:
        assert await conversation(f"http://127.0.0.1:{port}", stream=stream) == ["First", "Second", "Third"]
    assert [len(request["messages"]) for request in model.requests] == [1, 1, 1]
