"""No tool runs twice for one decision of the model: if a mixed turn cannot be stored, the caller's calls run first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import from_url

from fairlead_formats.neutral.conversation import MessageTurn, TextPart
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.protocol import TranslationLosses
from familytalks import PROVIDERS, parse_answer, post_request, with_results
from llmworld import LlmWorld, llm_world, policy
from redisserver import redis_server
from responsesworld import events, respond, responses_world
from toolservers import tool
from waiting import until_async

ORDERS = tool("order", description="Order a thing", inputSchema={"type": "object", "properties": {}})
ORDER = ScriptedCall("demo__order", {})
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
DONE = ScriptedTurn("Done.")
HI = MessageTurn("user", (TextPart("Hi"),))
NOT_KEPT = "turn_not_kept"
streams = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
fronts = pytest.mark.parametrize("front", FAMILIES)
providers = pytest.mark.parametrize("provider", PROVIDERS)


async def follow_up(
    world: LlmWorld, front: str, *turns: MessageTurn, stream: bool = False
) -> tuple[str, tuple[MessageTurn, ...], Mapping[str, Any]]:
    """Text of the answer, the caller's calls in it with their results, and the member `fairlead`."""
    text, calls, own = parse_answer(await post_request(world, front, HI, *turns, stream=stream), front, stream)
    assert {call.name for call in calls} <= {"theirs"}
    return text, with_results(calls) if calls else (), own


def has_no_choice(request: Mapping[str, Any]) -> bool:
    """Whether the model was told to call no tool. Bedrock has no such choice, so it gets no tools."""
    if "messages" in request and "model" not in request:
        return "toolConfig" not in request
    config = request.get("toolConfig", {}).get("functionCallingConfig", {})
    choice = request.get("tool_choice", config.get("mode"))
    return choice in ("none", "NONE", {"type": "none"})


@streams
@fronts
@providers
async def test_the_callers_calls_go_first_where_no_turn_is_kept(
    tmp_path: Path, front: str, provider: str, stream: bool
) -> None:
    turns = [ScriptedTurn("", [ORDER, CLIENT_CALL]), ScriptedTurn("", [ORDER]), DONE]
    kind = PROVIDERS[provider]
    async with llm_world(tmp_path, *turns, provider=kind, tools=[ORDERS], context_bytes=0) as world:
        _, mine, own = await follow_up(world, front, stream=stream)
        assert not world.called
        assert NOT_KEPT in own["losses"]
        assert not own.get("calls")
        text, _, own = await follow_up(world, front, *mine, stream=stream)
        assert text == "Done."
        assert len(world.called) == 1
        assert [call["name"] for call in own["calls"]] == ["demo__order"]
    assert "demo__order" not in json.dumps(world.model.requests[1].get("messages"))


@streams
@fronts
@providers
async def test_a_hidden_round_before_a_call_of_the_callers_is_kept(
    tmp_path: Path, front: str, provider: str, stream: bool
) -> None:
    proof = [CLIENT_CALL] if front == "gemini" else []  # Gemini's clients first have to show that they return ids
    turns = [ScriptedTurn("", proof or [ORDER]), ScriptedTurn("", [ORDER]), ScriptedTurn("", [CLIENT_CALL]), DONE]
    if not proof:
        turns.pop(0)
    async with llm_world(tmp_path, *turns, provider=PROVIDERS[provider], tools=[ORDERS]) as world:
        before: tuple[MessageTurn, ...] = ()
        if proof:
            _, before, _ = await follow_up(world, front, stream=stream)
        _, mine, own = await follow_up(world, front, *before, stream=stream)
        assert NOT_KEPT not in own.get("losses", ())
        text, _, _ = await follow_up(world, front, *before, *mine, stream=stream)
        assert text == "Done."
        assert len(world.called) == 1
    assert json.dumps(world.model.requests[-1]).count("demo__order") >= 2, "as a tool, and as a call"


@streams
@providers
async def test_a_model_that_had_a_tool_run_answers_where_no_turn_is_kept(
    tmp_path: Path, provider: str, stream: bool
) -> None:
    turns = [ScriptedTurn("", [ADD]), ScriptedTurn("", [ORDER]), ScriptedTurn("Ordered.")]
    kind = PROVIDERS[provider]
    async with llm_world(tmp_path, *turns, provider=kind, tools=[ORDERS], context_bytes=0) as world:
        text, _, own = await follow_up(world, "openai-chat", stream=stream)
        assert (text, own["losses"], own["stopped"]) == ("Ordered.", [NOT_KEPT], True)
        assert [has_no_choice(request) for request in world.model.requests] == [False, False, True], "ADD only reads"


@streams
async def test_callers_calls_go_first_while_the_store_is_away(tmp_path: Path, stream: bool) -> None:
    (folder := tmp_path / "gateway").mkdir()
    turns = [ScriptedTurn("", [ORDER, CLIENT_CALL]), ScriptedTurn("", [ORDER]), DONE]
    async with (
        redis_server(tmp_path) as redis,
        llm_world(folder, *turns, tools=[ORDERS], redis=redis.url, redis_timeout=10.0) as world,
    ):
        await redis.stop()
        _, mine, own = await follow_up(world, "openai-chat", stream=stream)
        assert not world.called
        assert NOT_KEPT in own["losses"]
        text, _, _ = await follow_up(world, "openai-chat", *mine, stream=stream)
        assert (text, len(world.called)) == ("Done.", 1)


async def test_a_request_is_refused_while_the_results_of_its_turn_cannot_be_looked_up(tmp_path: Path) -> None:
    (folder := tmp_path / "gateway").mkdir()
    turns = [ScriptedTurn("", [ORDER, CLIENT_CALL]), ScriptedTurn("", [ORDER])]
    async with (
        redis_server(tmp_path) as redis,
        llm_world(folder, *turns, tools=[ORDERS], redis=redis.url, redis_timeout=10.0) as world,
    ):
        _, mine, _ = await follow_up(world, "openai-chat")
        await redis.stop()
        refused = await post_request(world, "openai-chat", HI, *mine)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert refused.message["error"]["code"] == "store_unavailable"
        assert (len(world.called), len(world.model.requests)) == (1, 1)
        history = FAMILIES["anthropic"].messages.write_messages([HI, *mine], TranslationLosses()).messages
        counted = await world.messages(*history, path="/v1/messages/count_tokens")
        assert counted.status == 200, counted.body


@streams
async def test_a_lost_result_is_reported_and_its_call_not_run_again(tmp_path: Path, stream: bool) -> None:
    (folder := tmp_path / "gateway").mkdir()
    async with redis_server(tmp_path) as redis, from_url(redis.url) as admin:

        async def fill() -> None:
            await admin.config_set("maxmemory", "1")

        turns = [ScriptedTurn("", [ORDER, CLIENT_CALL]), DONE]
        store: dict[str, Any] = {"redis": redis.url, "redis_timeout": 10.0}
        async with llm_world(folder, *turns, tools=[ORDERS], before_call=fill, **store) as world:
            _, mine, own = await follow_up(world, "openai-chat", stream=stream)
            assert NOT_KEPT in own["losses"]
            await admin.config_set("maxmemory", "0")

            async def answers() -> bool:  # the gateway does not try the store again for a moment
                return (await post_request(world, "openai-chat", HI, *mine, stream=stream)).status == 200

            await until_async("the store answers again", answers)
            assert len(world.called) == 1
    results = [message["content"] for message in world.model.requests[1]["messages"] if message["role"] == "tool"]
    assert "its result was lost" in results[0]
    assert results[1] == "mine"


@streams
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("by_id", [True, False])
async def test_a_call_that_waits_for_approval_beside_another_runs_once(
    tmp_path: Path, stored: bool, by_id: bool, stream: bool
) -> None:
    again = [] if stored else [ScriptedTurn("", [ADD])]
    turns = [ScriptedTurn("", [ADD, ORDER]), *again, DONE]
    settings: dict[str, Any] = {} if stored else {"context_bytes": 0}
    careful = [policy(auto_run="ReadOnly")]
    async with responses_world(tmp_path, *turns, tools=[ORDERS], policies=careful, **settings) as world:
        answer = await respond(world, "Hi", stream=stream, store=by_id)
        first = events(answer)[-1]["response"] if stream else answer.message
        (request,) = first["output"]
        assert request["type"] == "mcp_approval_request"
        assert [call["name"] for call in world.called] == ["add"] * stored
        assert first["fairlead"].get("losses", []) == [NOT_KEPT] * (not stored)
        approved = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        if by_id and stored:
            last = await respond(world, [approved], previous_response_id=first["id"])
        else:
            last = await respond(world, [{"role": "user", "content": "Hi"}, request, approved], store=False)
        assert last.status == 200, last.body
        assert sorted(call["name"] for call in world.called) == ["add", "order"]
