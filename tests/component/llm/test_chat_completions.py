"""Chat Completions with a scripted model: what the model, the tools and the client get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from gatewayworld import Ask, Wire
from llmworld import PATH, chunks, llm_world, theirs
from ports import free_port
from provider_ids import with_provider_ids
from waiting import eventually

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})


async def test_a_model_gets_the_tools_calls_one_and_answers(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Let me see.", [ADD]), ScriptedTurn("It is 42.")) as world:
        answer = await world.chat("What is 2 + 40?")
    assert answer.status == 200
    first, second = world.model.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["demo__add", "demo__fail"]
    assert world.called[0]["arguments"] == {"a": 2, "b": 40}
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "tool"]
    assert second["messages"][2]["content"] == "42"
    message = answer.message["choices"][0]["message"]
    assert message["content"] == "Let me see.\n\nIt is 42."
    assert "tool_calls" not in message
    assert answer.message["choices"][0]["finish_reason"] == "stop"


async def test_usage_is_the_sum_of_all_rounds(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as world:
        whole = (await world.chat("Add")).message
    assert whole["usage"] == {
        "prompt_tokens": 200,
        "completion_tokens": 30,
        "total_tokens": 230,
        "prompt_tokens_details": {"cached_tokens": 80},
    }


async def test_a_stream_says_what_a_whole_answer_says(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Let me see.", [ADD]), ScriptedTurn("It is 42.")) as world:
        answer = await world.chat("Add", stream=True, stream_options={"include_usage": True})
    stream_chunks = chunks(answer)
    assert stream_chunks[-1] == "[DONE]"
    assert {chunk["id"] for chunk in stream_chunks[:-1]} == {"chatcmpl-1"}
    deltas = [chunk["choices"][0]["delta"] for chunk in stream_chunks[:-1] if chunk["choices"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "Let me see.\n\nIt is 42."
    assert sum("role" in delta for delta in deltas) == 1
    assert not any("tool_calls" in delta for delta in deltas)
    assert [c["choices"][0]["finish_reason"] for c in stream_chunks[:-1] if c["choices"]].count("stop") == 1
    assert stream_chunks[-2]["usage"]["total_tokens"] == 230


@pytest.mark.parametrize("ident", [None, "", "call_0"], ids=["no id", "an empty id", "one id"])
async def test_two_streamed_calls_that_differ_only_in_their_names_are_both_run(
    tmp_path: Path, ident: str | None
) -> None:
    functions = [("demo__add", '{"a":2,"b":40}'), ("demo__fail", '{"p":2}')]
    given = {} if ident is None else {"id": ident}
    deltas = [
        {"tool_calls": [{"index": 0, **given, "function": {"name": name, "arguments": arguments}}]}
        for name, arguments in functions
    ]
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    parts: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    parts.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    events = [json.dumps({**head, "choices": [part]}) for part in parts]
    async with llm_world(tmp_path, ScriptedTurn(events=[*events, "[DONE]"]), ScriptedTurn("Done.")) as world:
        stream_chunks = chunks(await world.chat("Both", stream=True))
    assert [(call["name"], call["arguments"]) for call in world.called] == [
        ("add", {"a": 2, "b": 40}),
        ("fail", {"p": 2}),
    ]
    assistant, *results = world.model.requests[1]["messages"][1:]
    assert [each["tool_call_id"] for each in results] == [call["id"] for call in assistant["tool_calls"]]
    assert results[0]["content"] == "42"
    assert len({each["tool_call_id"] for each in results}) == 2
    assert stream_chunks[-1] == "[DONE]"


async def test_usage_has_no_chunk_for_a_client_that_did_not_request_it(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello")) as world:
        stream_chunks = chunks(await world.chat("Hi", stream=True))
    assert world.model.requests[0]["stream_options"] == {"include_usage": True}
    assert not any(chunk.get("usage") for chunk in stream_chunks[:-1])


async def test_the_callers_own_calls_come_back_to_it(tmp_path: Path) -> None:
    mine = ScriptedCall("theirs", {"q": 1})
    for stream in (False, True):
        async with llm_world(tmp_path, ScriptedTurn("", [mine])) as world:
            answer = await world.chat("Ask", tools=[theirs()], stream=stream)
        if stream:
            calls = [c for chunk in chunks(answer)[:-1] for c in chunk["choices"][0]["delta"].get("tool_calls", [])]
            assert [call["index"] for call in calls] == [0] * len(calls)
            assert with_provider_ids(calls[0]["id"]) == "call_scripted_0001_0000" != calls[0]["id"]
            assert calls[0]["function"]["name"] == "theirs"
            assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"q": 1}
            assert chunks(answer)[-2]["choices"][0]["finish_reason"] == "tool_calls"
        else:
            choice = answer.message["choices"][0]
            assert choice["finish_reason"] == "tool_calls"
            ids = [call["id"] for call in choice["message"]["tool_calls"]]
            assert with_provider_ids(ids) == ["call_scripted_0001_0000"] != ids
        assert not world.called


async def test_the_model_gets_all_calls_and_results_of_a_mixed_turn(tmp_path: Path) -> None:
    mixed = ScriptedTurn("Both.", [ADD, ScriptedCall("theirs", {"q": 1})])
    for stream in (False, True):
        async with llm_world(tmp_path, mixed, ScriptedTurn("Done.")) as world:
            answer = await world.chat("Ask", tools=[theirs()], stream=stream)
            if stream:
                deltas = [chunk["choices"][0]["delta"] for chunk in chunks(answer)[:-1]]
                ident = next(call["id"] for delta in deltas for call in delta.get("tool_calls", ()) if "id" in call)
            else:
                ident = answer.message["choices"][0]["message"]["tool_calls"][0]["id"]
            assert with_provider_ids(ident) == "call_scripted_0001_0001"
            seen = {"id": ident, "type": "function", "function": {"name": "theirs", "arguments": '{"q": 1}'}}
            own_message = {"role": "assistant", "content": "Both.", "tool_calls": [seen]}
            result = {"role": "tool", "tool_call_id": ident, "content": "theirs said so"}
            last = await world.chat("Ask", own_message, result, tools=[theirs()])
        assert last.message["choices"][0]["message"]["content"] == "Done."
        messages = world.model.requests[1]["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
        assert [call["id"] for call in messages[1]["tool_calls"]] == [
            "call_scripted_0001_0000",
            "call_scripted_0001_0001",
        ]
        assert [message["tool_call_id"] for message in messages[2:]] == [
            "call_scripted_0001_0000",
            "call_scripted_0001_0001",
        ]
        assert messages[2]["content"] == "42"


async def test_a_lost_mixed_turn_stays_as_the_caller_sent_it(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Done.")) as world:
        seen = {"id": "call_x", "type": "function", "function": {"name": "theirs", "arguments": "{}"}}
        message = {"role": "assistant", "content": None, "tool_calls": [seen]}
        await world.chat("Ask", message, {"role": "tool", "tool_call_id": "call_x", "content": "1"}, tools=[theirs()])
    assert world.model.requests[0]["messages"][1] == message


async def test_the_callers_tool_has_priority_over_the_gateways_of_its_name(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("", [ADD])) as world:
        answer = await world.chat("Add", tools=[theirs("demo__add")])
    assert [tool["function"]["name"] for tool in world.model.requests[0]["tools"]] == ["demo__add", "demo__fail"]
    assert world.model.requests[0]["tools"][0] == theirs("demo__add")
    assert answer.message["choices"][0]["finish_reason"] == "tool_calls"
    assert answer.message["fairlead"]["tools"]["shadowed"] == ["demo__add"]
    assert not world.called


async def test_a_call_of_a_tool_that_does_not_exist_gets_an_error(tmp_path: Path) -> None:
    wrong = ScriptedCall("demo__ad", {"a": 1, "b": 2})
    async with llm_world(tmp_path, ScriptedTurn("", [wrong]), ScriptedTurn("Sorry.")) as world:
        answer = await world.chat("Add")
    assert "Did you mean demo__add?" in world.model.requests[1]["messages"][2]["content"]
    assert answer.message["fairlead"]["calls"][0]["is_error"] is True


async def test_two_rounds_of_nothing_but_errors_end_the_calls(tmp_path: Path) -> None:
    fails = ScriptedTurn("", [ScriptedCall("demo__fail")])
    async with llm_world(tmp_path, fails, fails, ScriptedTurn("I give up.")) as world:
        answer = await world.chat("Try")
    assert [request.get("tool_choice") for request in world.model.requests] == [None, None, "none"]
    assert answer.message["choices"][0]["message"]["content"] == "I give up."
    assert answer.message["fairlead"]["stopped"] is True


async def test_the_rounds_of_one_request_are_bounded(tmp_path: Path) -> None:
    again = ScriptedTurn("", [ADD])
    for stream in (False, True):
        async with llm_world(tmp_path, *[again] * 9, llm_rounds=3) as world:
            answer = await world.chat("Add", stream=stream)
        assert answer.status == 200
        assert len(world.model.requests) == 4
        assert len(world.called) == 3
        assert world.model.requests[3]["tool_choice"] == "none"


async def test_a_forced_choice_holds_only_for_the_first_round(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as world:
        await world.chat("Add", tool_choice="required")
    assert [request["tool_choice"] for request in world.model.requests] == ["required", "auto"]


async def test_members_that_the_gateway_does_not_know_are_forwarded_unchanged(tmp_path: Path) -> None:
    odd = {"x_vendor": {"z": 1.0, "a": [1e30, 12345678901234567890123]}, "seed": 7}
    async with llm_world(tmp_path, ScriptedTurn("Hi")) as world:
        await world.chat("Hi", **odd, fairlead={"tags": []})
    sent = world.model.bodies[0]
    assert b'"z": 1.0' in sent
    assert b"12345678901234567890123" in sent
    assert "fairlead" not in world.model.requests[0]


async def test_no_tools_are_injected_for_a_client_that_wants_none(tmp_path: Path) -> None:
    async with llm_world(tmp_path, *[ScriptedTurn("Hi")] * 3) as world:
        await world.chat("Hi", fairlead={"tools": "none"})
        await world.chat("Hi", headers={"x-fairlead-tools": "none"})
        await world.chat("Hi", n=2)
    assert not any("tools" in request for request in world.model.requests)


async def test_tools_that_do_not_fit_the_window_are_left_out_and_reported(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hi"), windows={"scripted": 8_000}) as world:
        answer = await world.chat("Hi", fairlead={"maxTools": 1})
    assert len(world.model.requests[0]["tools"]) == 1
    assert answer.message["fairlead"]["tools"]["cut"] == 1


async def test_the_next_model_of_a_route_gets_the_request_if_one_fails(tmp_path: Path) -> None:
    broken = [ScriptedTurn("overloaded", status=503)]
    async with llm_world(tmp_path, broken, [ScriptedTurn("I am here.")]) as world:
        answer = await world.chat("Hi", model="fairlead/all")
    assert answer.message["choices"][0]["message"]["content"] == "I am here."
    assert answer.message["fairlead"]["model"] == "script1/scripted-1"


async def test_a_providers_refusal_is_forwarded_unchanged(tmp_path: Path) -> None:
    limited = ScriptedTurn("slow down", status=429, headers={"retry-after": "7", "x-secret": "no"})
    async with llm_world(tmp_path, limited) as world:
        answer = await world.chat("Hi")
    assert answer.status == 429
    assert answer.message["error"]["message"] == "slow down"
    assert answer.headers["retry-after"] == "7"
    assert "x-secret" not in answer.headers
    assert "x-should-retry" not in answer.headers


async def test_a_failure_after_tool_calls_tells_the_client_not_to_retry(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("broken", status=500)) as world:
        answer = await world.chat("Add")
    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")


async def test_a_stream_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Half a sen", cut=True)) as world:
        stream_chunks = chunks(await world.chat("Hi", stream=True))
    assert stream_chunks[-1]["error"]["code"] == "bad_answer"
    assert not any(chunk == "[DONE]" for chunk in stream_chunks)


async def test_errors_have_the_form_that_sdks_read(tmp_path: Path) -> None:
    async with llm_world(tmp_path) as world:
        unknown = await world.chat("Hi", model="nobody-has-it")
        empty = await world.chat(model="scripted")
    assert (unknown.status, unknown.message["error"]["code"]) == (404, "model_not_found")
    assert "nobody-has-it" in unknown.message["error"]["message"]
    assert (empty.status, empty.message["error"]["param"]) == (400, "messages")


async def test_callers_without_a_key_get_an_error_in_that_format(tmp_path: Path) -> None:
    async with llm_world(tmp_path, anonymous="deny") as world:
        answer = await world.chat("Hi")
    assert answer.status == 401
    assert answer.message["error"]["code"] == "UNAUTHENTICATED"


async def test_the_provider_gets_its_own_key_and_never_that_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "sk-provider")
    async with llm_world(tmp_path, ScriptedTurn("Hi"), provider={"keyEnv": "SCRIPTED_KEY"}) as world:
        await world.chat("Hi", headers={"authorization": "Bearer fl-caller", "x-api-key": "fl-caller"})
    assert world.model.headers[0]["authorization"] == "Bearer sk-provider"
    assert "fl-caller" not in str(world.model.headers)


async def test_an_error_about_a_missing_key_names_only_its_variable(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hi"), provider={"keyEnv": "NOBODY_SET_THIS"}) as world:
        answer = await world.chat("Hi")
    assert answer.status == 502
    assert "NOBODY_SET_THIS" in answer.message["error"]["message"]


async def test_an_error_about_an_unreachable_provider_has_no_address(tmp_path: Path) -> None:
    gone = {"baseUrl": f"http://127.0.0.1:{free_port()}/v1"}
    async with llm_world(tmp_path, ScriptedTurn("Hi"), provider=gone) as world:
        answer = await world.chat("Hi")
    assert (answer.status, answer.message["error"]["code"]) == (502, "provider_unavailable")
    assert "127.0.0.1" not in answer.message["error"]["message"]


async def test_a_client_that_disconnects_ends_the_providers_answer(tmp_path: Path) -> None:
    endless = ScriptedTurn("x" * 4_000_000)
    async with llm_world(tmp_path, endless) as world:
        wire = await Wire.connect(world.gateway)
        body = json.dumps({"model": "scripted", "stream": True, "messages": [{"role": "user", "content": "Hi"}]})
        wire.send(Ask(target=PATH, body=body.encode(), headers={"content-type": "application/json"}))
        await eventually(lambda: world.model.answering)
        wire.close()
        await eventually(lambda: not world.model.answering)


async def test_a_mixed_turn_in_a_later_round_has_the_rounds_before_it(tmp_path: Path) -> None:
    mixed = ScriptedTurn("Then both.", [ADD, ScriptedCall("theirs", {})])
    async with llm_world(tmp_path, ScriptedTurn("First.", [ADD]), mixed, ScriptedTurn("Done.")) as world:
        answer = await world.chat("Ask", tools=[theirs()])
        own_message = answer.message["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": own_message["tool_calls"][0]["id"], "content": "1"}
        await world.chat("Ask", own_message, result, tools=[theirs()])
    messages = world.model.requests[2]["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "tool", "tool"]
    assert messages[1]["content"] == "First."


async def test_the_callers_tools_count_towards_what_the_provider_takes(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hi")) as world:
        await world.chat("Hi", tools=[theirs(f"own_{number}") for number in range(127)])
    assert len(world.model.requests[0]["tools"]) == 128


async def test_calls_without_ids_get_some(tmp_path: Path) -> None:
    call = {"type": None, "function": {"name": "demo__add", "arguments": '{"a": 1, "b": 2}'}}
    delta = {"role": "assistant", "content": None, "tool_calls": [call]}
    head = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [
        {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    turn = ScriptedTurn(events=[json.dumps(event) for event in events])
    async with llm_world(tmp_path, turn, ScriptedTurn("3")) as world:
        await world.chat("Add", stream=True)
    _, message, result = world.model.requests[1]["messages"]
    assert message["tool_calls"][0]["id"] == result["tool_call_id"] != ""


async def test_several_answers_of_one_stream_pass_untouched(tmp_path: Path) -> None:
    head = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choices = [(0, {"content": "A"}, None), (1, {"content": "B"}, None), (0, {}, "stop"), (1, {}, "length")]
    events = [
        {**head, "choices": [{"index": index, "delta": delta, "finish_reason": reason}]}
        for index, delta, reason in choices
    ]
    async with llm_world(tmp_path, ScriptedTurn(events=[*map(json.dumps, events), "[DONE]"])) as world:
        stream_chunks = chunks(await world.chat("Hi", n=2, stream=True))
    assert stream_chunks == [*events, "[DONE]"]


async def test_a_tool_that_was_not_offered_cannot_be_called(tmp_path: Path) -> None:
    hidden = ScriptedTurn("", [ScriptedCall("demo__fail")])
    async with llm_world(tmp_path, hidden, ScriptedTurn("No.")) as world:
        await world.chat("Add", fairlead={"maxTools": 1})
        offered = [tool["function"]["name"] for tool in world.model.requests[0]["tools"]]
    assert offered == ["demo__add"]
    assert not world.called
    assert "Unknown tool: demo__fail" in world.model.requests[1]["messages"][2]["content"]


@pytest.mark.parametrize("value", ["²", "many", "9" * 5000, "0"])
async def test_a_header_that_makes_no_sense_is_refused(tmp_path: Path, value: str) -> None:
    async with llm_world(tmp_path) as world:
        headers = {"x-fairlead-max-tools": value.encode().decode("latin-1")}
        answer = await world.chat("Hi", headers=headers)
    assert (answer.status, answer.message["error"]["param"]) == (400, "fairlead")


async def test_a_provider_that_keeps_its_stream_open_after_the_end_delays_nobody(tmp_path: Path) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hi", lingers=True)) as world:
        stream_chunks = chunks(await world.chat("Hi", stream=True))
    assert stream_chunks[-1] == "[DONE]"


async def test_the_time_of_a_request_is_bounded_with_all_its_rounds(tmp_path: Path) -> None:
    for stream in (False, True):
        async with llm_world(tmp_path, ScriptedTurn("Hi", hangs=True), llm_seconds=1.0) as world:
            answer = await world.chat("Hi", stream=stream)
        error = chunks(answer)[-1]["error"] if answer.status == 200 else answer.message["error"]
        assert error["code"] == "timeout"


async def test_the_connection_to_a_silent_provider_is_closed(tmp_path: Path) -> None:
    never = ScriptedTurn("", hangs=True)
    stuck = ScriptedTurn(events=["{}"], lingers=True)
    async with llm_world(tmp_path, never, stuck, provider={"idleSeconds": 0.8}) as world:
        answer = await world.chat("Hi")
        streamed = await world.chat("Hi", stream=True)
    assert (answer.status, answer.message["error"]["code"]) == (502, "provider_unavailable")
    assert "in time" in answer.message["error"]["message"]
    error = chunks(streamed)[-1]["error"]
    assert (error["code"], error["message"]) == (
        "provider_unavailable",
        "script0: the provider stopped sending during its answer: no byte for 0.8 s (idleSeconds)",
    )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize("arguments", ["", '{"a": 2, "b": 40}', '{"a": 2'])
async def test_a_call_that_may_lack_its_end_is_not_run(
    tmp_path: Path, arguments: str, reason: str, stream: bool
) -> None:
    cut = ScriptedTurn("Half", [ScriptedCall("demo__add", arguments)], finish_reason=reason)
    async with llm_world(tmp_path, cut) as world:
        answer = await world.chat("Add", stream=stream)
        assert not world.called
    assert len(world.model.requests) == 1
    stream_chunks = chunks(answer)[:-1] if stream else [answer.message]
    assert [c["choices"][0]["finish_reason"] for c in stream_chunks][-1] == reason
    assert "tool_calls" not in str(stream_chunks)
