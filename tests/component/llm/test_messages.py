"""Anthropic's Messages with a scripted model: what the model, the tools and the client get."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from anthropicworld import ADD, CLIENT_CALL, CLIENT_TOOL, THINKS, events, final_message, kinds, texts, world
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from oddproperties import ARGUMENTS, TOOL, under_other_names
from provider_ids import with_provider_ids


@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_gets_the_tools_calls_one_and_answers(tmp_path: Path, stream: bool) -> None:
    async with world(tmp_path, ScriptedTurn("Let me see.", [ADD]), ScriptedTurn("It is 42.")) as here:
        message = final_message(await here.messages("What is 2 + 40?", stream=stream), stream)
    first, second = here.model.requests
    assert [tool["name"] for tool in first["tools"]] == ["demo__add", "demo__fail"]
    assert not any("cache_control" in tool for tool in first["tools"])
    assert here.called[0]["arguments"] == {"a": 2, "b": 40}
    call = {"type": "tool_use", "id": "toolu_scripted_0001_0000", "name": "demo__add", "input": {"a": 2, "b": 40}}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "42"}]}
    assert second["messages"][1] == {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, call]}
    assert second["messages"][2] == {"role": "user", "content": [result]}
    assert texts(message) == ["Let me see.", "It is 42."]
    assert kinds(message) == ["text", "text"]
    assert (message["id"], message["stop_reason"]) == ("msg_scripted_0001", "end_turn")
    assert message["usage"] == {
        "input_tokens": 200,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 80,
        "output_tokens": 30,
    }
    assert message["fairlead"]["rounds"] == 2


async def test_a_stream_begins_and_ends_once(tmp_path: Path) -> None:
    async with world(tmp_path, ScriptedTurn("One.", [ADD]), ScriptedTurn("Two.")) as here:
        stream_events = events(await here.messages("Add", stream=True))
    types = [event["type"] for event in stream_events]
    assert [types.count(kind) for kind in ("message_start", "message_delta", "message_stop")] == [1, 1, 1]
    assert types[-2:] == ["message_delta", "message_stop"]
    assert [event["index"] for event in stream_events if event["type"] == "content_block_stop"] == [0, 1]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_under_names_that_the_api_takes_reaches_its_server_under_the_servers_own(
    tmp_path: Path, stream: bool
) -> None:
    call = ScriptedCall("demo__odd", under_other_names(ARGUMENTS))
    async with world(tmp_path, ScriptedTurn("", [call]), ScriptedTurn("Done."), tools=[TOOL]) as here:
        message = final_message(await here.messages("Find", stream=stream), stream)
    offered = next(tool for tool in here.model.requests[0]["tools"] if tool["name"] == "demo__odd")
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in offered["input_schema"]["properties"])
    assert here.called[0]["arguments"] == ARGUMENTS
    assert texts(message) == ["Done."]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_callers_own_calls_come_back_to_it(tmp_path: Path, stream: bool) -> None:
    async with world(tmp_path, ScriptedTurn("", [CLIENT_CALL])) as here:
        message = final_message(await here.messages("Ask", tools=[CLIENT_TOOL], stream=stream), stream)
    assert with_provider_ids(message["content"]) == [
        {"type": "tool_use", "id": "toolu_scripted_0001_0000", "name": "theirs", "input": {"q": 1}}
    ]
    assert message["stop_reason"] == "tool_use"
    assert not here.called
    assert [tool["name"] for tool in here.model.requests[0]["tools"]] == ["theirs", "demo__add", "demo__fail"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_model_gets_all_calls_and_results_of_a_mixed_turn(tmp_path: Path, stream: bool) -> None:
    mixed = ScriptedTurn("Both.", [ADD, CLIENT_CALL], thoughts=["Hm."])
    async with world(tmp_path, ScriptedTurn("First.", [ADD], thoughts=["Oh."]), mixed, ScriptedTurn("Done.")) as here:
        options: dict[str, Any] = {"tools": [CLIENT_TOOL], "thinking": THINKS, "stream": stream}
        message = final_message(await here.messages("Ask", **options), stream)
        assert kinds(message) == ["thinking", "text", "thinking", "text", "tool_use"]
        result = {"type": "tool_result", "tool_use_id": message["content"][-1]["id"], "content": "so"}
        text = {"type": "text", "text": "Go on"}
        back = {"role": "assistant", "content": message["content"]}
        last = final_message(
            await here.messages("Ask", back, {"role": "user", "content": [result, text]}, **options), stream
        )
    assert texts(last) == ["Done."]
    sent = here.model.requests[2]["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert [block["type"] for block in sent[1]["content"]] == ["thinking", "text", "tool_use"]
    assert [block["type"] for block in sent[3]["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    ids = ["toolu_scripted_0002_0000", "toolu_scripted_0002_0001"]
    assert [block.get("tool_use_id") for block in sent[4]["content"]] == [*ids, None]
    assert sent[4]["content"][2] == text


@pytest.mark.parametrize("stream", [False, True])
async def test_thoughts_of_several_rounds_stand_in_their_own_messages_again(tmp_path: Path, stream: bool) -> None:
    turns = [ScriptedTurn("One.", [ADD], thoughts=["Oh."]), ScriptedTurn("Two.", thoughts=["Hm.", "Ah."])]
    async with world(tmp_path, *turns, ScriptedTurn("Three.")) as here:
        message = final_message(await here.messages("Add", thinking=THINKS, stream=stream), stream)
        assert kinds(message) == ["thinking", "text", "thinking", "thinking", "text"]
        back = {"role": "assistant", "content": message["content"]}
        final_message(await here.messages("Add", back, "And now?", thinking=THINKS, stream=stream), stream)
    sent = here.model.requests[2]["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert sent[:3] == here.model.requests[1]["messages"]
    assert [block["type"] for block in sent[3]["content"]] == ["thinking", "thinking", "text"]


@pytest.mark.parametrize("stream", [False, True])
async def test_blocks_that_the_api_refuses_are_not_made_of_what_a_model_said(tmp_path: Path, stream: bool) -> None:
    turns = [
        ScriptedTurn("\n\n", [ADD], thoughts=["Oh."]),
        ScriptedTurn("", [ADD], thoughts=["Hm."]),
        ScriptedTurn(""),
        ScriptedTurn("Done."),
    ]
    async with world(tmp_path, *turns) as here:
        message = final_message(await here.messages("Add", thinking=THINKS, stream=stream), stream)
        assert kinds(message) == ["thinking", "text", "thinking"]
        back = {"role": "assistant", "content": message["content"]}
        last = final_message(await here.messages("Add", back, "And?", thinking=THINKS, stream=stream), stream)
    assert texts(last) == ["Done."]
    sent = here.model.requests[3]["messages"]
    assert [each["role"] for each in sent] == ["user", "assistant", "user", "assistant", "user", "user"]


@pytest.mark.parametrize("pending", [False, True])
async def test_thoughts_of_hidden_rounds_are_left_out_where_the_turn_is_lost(tmp_path: Path, pending: bool) -> None:
    last = ScriptedTurn("Two.", [CLIENT_CALL] if pending else [], thoughts=["Hm."])
    turns = [ScriptedTurn("One.", [ADD], thoughts=["Oh."]), last, ScriptedTurn("Three.")]
    options: dict[str, Any] = {"thinking": THINKS, "tools": [CLIENT_TOOL]}
    async with world(tmp_path, *turns, context_bytes=0) as here:
        message = (await here.messages("Add", **options)).message
        back = {"role": "assistant", "content": message["content"]}
        result = {"type": "tool_result", "tool_use_id": message["content"][-1].get("id"), "content": "so"}
        next_one = {"role": "user", "content": [result]} if pending else "And now?"
        answer = await here.messages("Add", back, next_one, **options)
    assert answer.status == 200, answer.body
    (sent,) = [each for each in here.model.requests[2]["messages"] if each["role"] == "assistant"]
    said_there = [block["type"] for block in sent["content"]]
    assert said_there == (["thinking", "text", "text", "tool_use"] if pending else ["text", "text"])


async def test_a_merged_history_that_the_scripted_provider_refuses_goes_out_without_thoughts(tmp_path: Path) -> None:
    turns = [ScriptedTurn("One.", [ADD], thoughts=["Oh."]), ScriptedTurn("Two.", thoughts=["Hm."])]
    async with world(tmp_path, *turns) as here:
        merged = (await here.messages("Add", thinking=THINKS)).message["content"]
        for block in merged:
            if block["type"] == "thinking":
                block["signature"] = block["signature"].rpartition(".")[2]
        answer = await here.messages("Add", {"role": "assistant", "content": merged}, "And now?", thinking=THINKS)
    assert answer.message["fairlead"]["losses"] == ["thinking"]  # the error after the provider's refusal says so
    (sent,) = [each for each in here.model.requests[-1]["messages"] if each["role"] == "assistant"]
    assert "thinking" not in {block["type"] for block in sent["content"]}


async def test_the_rounds_of_one_request_are_bounded(tmp_path: Path) -> None:
    again = ScriptedTurn("", [ADD])
    for stream in (False, True):
        async with world(tmp_path, *[again] * 9, llm_rounds=3) as here:
            message = final_message(await here.messages("Add", stream=stream), stream)
        assert len(here.model.requests) == 4
        assert here.model.requests[3]["tool_choice"] == {"type": "none"}
        assert (message["stop_reason"], message["content"]) == ("end_turn", [])
        assert message["fairlead"]["stopped"] is True


async def test_a_forced_choice_holds_only_for_the_first_round(tmp_path: Path) -> None:
    choice = {"type": "tool", "name": "demo__add", "disable_parallel_tool_use": True}
    async with world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as here:
        await here.messages("Add", tool_choice=choice)
    auto = {"disable_parallel_tool_use": True, "type": "auto"}
    assert [request["tool_choice"] for request in here.model.requests] == [choice, auto]


async def test_manual_thinking_and_the_end_of_all_rounds_go_together(tmp_path: Path) -> None:
    again = ScriptedTurn("", [ADD], thoughts=["Oh."])
    async with world(tmp_path, again, ScriptedTurn("Enough."), llm_rounds=1) as here:
        answer = await here.messages("Add", thinking=THINKS)
    assert answer.status == 200
    assert [request["thinking"] for request in here.model.requests] == [THINKS, THINKS]


async def test_members_that_the_gateway_does_not_know_are_forwarded_unchanged(tmp_path: Path) -> None:
    odd = {"z": 1.0, "a": [1e30, 12345678901234567890123]}
    cached = {"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}, "x": odd}
    tool = {**CLIENT_TOOL, "defer_loading": True, "cache_control": {"type": "ephemeral"}, "x": odd}
    search = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search"}
    reference = {
        "type": "tool_result",
        "tool_use_id": "t",
        "content": [{"type": "tool_reference", "tool_name": "theirs"}],
    }
    called = {"type": "tool_use", "id": "t", "name": "theirs", "input": {}, "caller": {"type": "direct"}}
    async with world(tmp_path, ScriptedTurn("Hi")) as here:
        await here.messages(
            {"role": "user", "content": [cached]},
            {"role": "assistant", "content": [called]},
            {"role": "user", "content": [reference]},
            {"role": "system", "content": "Be brief."},
            "Go",
            tools=[tool, search],
            mcp_servers=[{"type": "url", "name": "n", "url": "https://n"}],
            x_vendor=odd,
            fairlead={"tags": []},
            headers={"anthropic-beta": "one,two", "anthropic-version": "2026-10-21"},
        )
    sent = here.model.bodies[0]
    assert sent.count(json.dumps(odd).encode()) == 3
    request = here.model.requests[0]
    assert request["messages"][0]["content"] == [cached]
    assert request["messages"][3] == {"role": "system", "content": "Be brief."}
    assert request["tools"][:2] == [tool, search]
    assert request["mcp_servers"][0]["url"] == "https://n"
    assert "fairlead" not in request
    headers = here.model.headers[0]
    assert (headers["anthropic-beta"], headers["anthropic-version"]) == ("one,two", "2026-10-21")


async def test_calls_of_a_toolset_are_the_callers(tmp_path: Path) -> None:
    block = {"type": "tool_use", "id": "t", "name": "screenshot", "toolset_name": "computer", "input": {}}
    whole = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [block],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    async with world(tmp_path, ScriptedTurn(whole=json.dumps(whole))) as here:
        message = (await here.messages("Look", tools=[{"type": "computer_toolset_20260801"}])).message
    assert (with_provider_ids(message["content"]), message["stop_reason"]) == ([block], "tool_use")


async def test_a_call_that_lacks_its_end_is_not_run(tmp_path: Path) -> None:
    for stream in (False, True):
        async with world(tmp_path, ScriptedTurn("Half", [ADD], finish_reason="max_tokens")) as here:
            message = final_message(await here.messages("Add", stream=stream), stream)
        assert (message["stop_reason"], texts(message), here.called) == ("max_tokens", ["Half"], [])


async def test_headers_of_the_provider_come_down(tmp_path: Path) -> None:
    headers = {"request-id": "req_1", "anthropic-ratelimit-tokens-remaining": "7", "x-secret": "no"}
    limited = ScriptedTurn("slow down", status=429, headers={"retry-after": "7", **headers})
    async with world(tmp_path, ScriptedTurn("Hi", headers=headers), limited) as here:
        first = await here.messages("Hi")
        second = await here.messages("Hi")
    for answer in (first, second):
        assert (answer.headers["request-id"], answer.headers["anthropic-ratelimit-tokens-remaining"]) == ("req_1", "7")
        assert "x-secret" not in answer.headers
    assert (second.status, second.headers["retry-after"]) == (429, "7")
    assert second.message == {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}


async def test_a_failure_after_tool_calls_tells_the_client_not_to_retry(tmp_path: Path) -> None:
    async with world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("broken", status=529)) as here:
        answer = await here.messages("Add")
    assert (answer.status, answer.headers["x-should-retry"]) == (529, "false")


@pytest.mark.parametrize("turn", [ScriptedTurn("Half a sen", cut=True), ScriptedTurn("Half a sen", breaks=True)])
async def test_a_stream_without_its_end_is_an_error(tmp_path: Path, turn: ScriptedTurn) -> None:
    async with world(tmp_path, turn) as here:
        stream_events = events(await here.messages("Hi", stream=True))
    assert stream_events[-1]["error"]["type"] == "api_error"
    assert not any(event["type"] in ("message_delta", "message_stop") for event in stream_events)


async def test_errors_have_the_form_that_sdks_read(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        unknown = await here.messages("Hi", model="nobody-has-it")
        empty = await here.messages()
        odd = await here.messages("Hi", messages=7)
    assert (unknown.status, unknown.message["type"]) == (404, "error")
    assert unknown.message["error"]["type"] == "not_found_error"
    assert "nobody-has-it" in unknown.message["error"]["message"]
    for answer in (empty, odd):
        assert (answer.status, answer.message["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/v1/messages", "/v1/messages/count_tokens"])
async def test_callers_without_a_key_get_an_error_in_that_format(tmp_path: Path, path: str) -> None:
    async with world(tmp_path, anonymous="deny") as here:
        answer = await here.messages("Hi", path=path)
    assert (answer.status, answer.message["error"]["type"]) == (401, "authentication_error")


async def test_a_base_url_that_ends_with_a_version_is_served_too(tmp_path: Path) -> None:
    async with world(tmp_path, ScriptedTurn("Hi")) as here:
        answer = await here.messages("Hi", path="/v1/v1/messages")
    assert texts(answer.message) == ["Hi"]
