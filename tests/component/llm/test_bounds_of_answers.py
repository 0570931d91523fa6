"""Invalid answers of providers end the request with an error, and callers are told about outages of the turn store."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from anthropic_transcripts import START
from anthropicworld import CLIENT_TOOL
from anthropicworld import events as messages_events
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from llmworld import ANTHROPIC, chunks, llm_world, theirs
from redisserver import redis_server
from responsesworld import events, respond, responses_world

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
MANY = ScriptedTurn("", [ADD] * 129)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_with_more_than_128_calls_runs_none_of_them(tmp_path: Path, stream: bool) -> None:
    async with llm_world(tmp_path, MANY) as world:
        chat = await world.chat("Add", stream=stream)
        assert not world.called
    async with llm_world(tmp_path, MANY, provider=ANTHROPIC) as world:
        messages = await world.messages("Add", stream=stream)
        assert not world.called
    async with responses_world(tmp_path, MANY) as world:
        response = await respond(world, "Add", stream=stream)
        assert not world.called
    if stream:
        errors = [chunks(chat)[-1], messages_events(messages)[-1], events(response)[-1]]
    else:
        assert [each.status for each in (chat, messages, response)] == [502] * 3
        errors = [each.message for each in (chat, messages, response)]
    assert ["more than 128 calls" in each["error"]["message"] for each in errors] == [True] * 3


async def test_as_many_calls_of_the_callers_alone_pass_where_nothing_is_run_here(tmp_path: Path) -> None:
    many = ScriptedTurn("", [ScriptedCall("theirs", {})] * 129)
    async with llm_world(tmp_path, many) as world:
        answer = await world.chat("Do", tools=[theirs()], fairlead={"tools": "none"})
    assert len(answer.message["choices"][0]["message"]["tool_calls"]) == 129


@pytest.mark.parametrize("injects", [False, True])
async def test_a_stop_of_anthropics_without_a_reason_is_an_error(tmp_path: Path, injects: bool) -> None:
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Half"}}
    told = [START, block, {"type": "content_block_stop", "index": 0}, {"type": "message_stop"}]
    turn = ScriptedTurn(events=[json.dumps(each) for each in told])
    wishes: dict[str, Any] = {} if injects else {"fairlead": {"tools": "none"}}
    async with llm_world(tmp_path, turn, provider=ANTHROPIC) as world:
        stream_events = messages_events(await world.messages("Hi", stream=True, tools=[CLIENT_TOOL], **wishes))
    assert [each["type"] for each in stream_events] == [
        "message_start",
        "content_block_start",
        "content_block_stop",
        "error",
    ]
    assert "ended before its final event" in stream_events[-1]["error"]["message"]


async def test_a_request_that_is_too_large_is_refused_in_the_clients_form(tmp_path: Path) -> None:
    long = "x" * 70_000
    async with llm_world(tmp_path, provider=ANTHROPIC, llm_request_bytes=65_536) as world:
        chat = await world.chat(long)
        messages = await world.messages(long)
        counted = await world.messages(long, path="/v1/messages/count_tokens")
    assert not world.model.requests
    assert [each.status for each in (chat, messages, counted)] == [413] * 3
    assert "larger than 65536 bytes" in chat.message["error"]["message"]
    assert messages.message["type"] == "error"


async def test_an_outage_of_the_store_is_reported_to_the_caller(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mixed = ScriptedTurn("Both.", [ADD, ScriptedCall("theirs", {"q": 1})])
    own = {"tools": [theirs()]}
    (folder := tmp_path / "gateway").mkdir()
    script = (mixed, ScriptedTurn("Done."), mixed)
    async with (
        redis_server(tmp_path) as redis,
        llm_world(folder, *script, redis=redis.url, redis_timeout=10.0) as world,
    ):
        first = await world.chat("Do", **own)
        (call,) = first.message["choices"][0]["message"]["tool_calls"]
        result = {"role": "tool", "tool_call_id": call["id"], "content": "so"}
        messages = [first.message["choices"][0]["message"], result] * 3
        await redis.stop()
        with caplog.at_level(logging.WARNING, "fairlead_llm.stored_turns"):
            second = await world.chat("Do", *messages, {"role": "assistant", "content": "So."}, "And?", **own)
        third = await world.chat("Do", **own)
    assert "x-fairlead-losses" not in first.headers
    assert second.status == 200
    assert second.headers["x-fairlead-losses"] == "turns_not_restored"
    assert second.message["fairlead"]["losses"] == ["turns_not_restored"]
    assert len([each for each in caplog.records if "cannot be restored" in each.message]) == 1, "of three turns"
    assert third.headers["x-fairlead-losses"] == "turn_not_kept"
