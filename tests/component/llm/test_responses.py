"""OpenAI's Responses with a scripted model: what the model, the tools and the client get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from provider_ids import with_provider_ids
from responsesworld import events, final, kinds, respond, responses_world, result, theirs
from restworld import get

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
NO_TOOLS = {"type": "allowed_tools", "mode": "auto", "tools": []}
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
ROUNDS = (ScriptedTurn("Let me see.", [ADD], thoughts=["hm"]), ScriptedTurn("It is 42.", thoughts=["so"]))


async def test_a_model_gets_the_tools_calls_one_and_answers(tmp_path: Path) -> None:
    for stream in (False, True):
        async with responses_world(tmp_path, *ROUNDS) as world:
            response = await final(world, "What is 2 + 40?", stream=stream, instructions="Be brief.", tools=[theirs()])
        first, second = world.model.requests
        for request in (first, second):
            assert [tool["name"] for tool in request["tools"]] == ["theirs", "demo__add", "demo__fail"]
            assert all(tool["strict"] is False and "parameters" in tool for tool in request["tools"])
            assert request["instructions"] == "Be brief."
        assert first["input"] == "What is 2 + 40?"
        assert kinds(second["input"]) == ["message", "reasoning", "message", "function_call", "function_call_output"]
        assert second["input"][-1]["output"] == "42"
        assert world.called[0]["arguments"] == {"a": 2, "b": 40}
        assert kinds(response["output"]) == ["reasoning", "message", "reasoning", "message"]
        assert response["usage"] == {
            "input_tokens": 200,
            "input_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 0},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": 230,
        }
        assert response["tools"] == [theirs()]
        assert response["id"].startswith("resp_")
        assert "scripted" not in response["id"]
        assert response["fairlead"]["rounds"] == 2


async def test_a_stream_of_responses_has_one_beginning_one_end_and_no_gaps(tmp_path: Path) -> None:
    async with responses_world(tmp_path, *ROUNDS) as world:
        stream_events = events(await respond(world, "Add", stream=True))
    types = [event["type"] for event in stream_events]
    assert types[:2] == ["response.created", "response.in_progress"]
    assert types[-1] == "response.completed"
    assert [types.count(f"response.{name}") for name in ("created", "in_progress", "completed")] == [1, 1, 1]
    assert [event["sequence_number"] for event in stream_events] == [*range(len(stream_events))]
    assert len({event["response"]["id"] for event in stream_events if "response" in event}) == 1
    added = [event for event in stream_events if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == [0, 1, 2, 3]
    assert len({event["item"]["id"] for event in added}) == 4
    assert "function_call" not in kinds([event["item"] for event in added])
    done = [event["item"] for event in stream_events if event["type"] == "response.output_item.done"]
    assert done == stream_events[-1]["response"]["output"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_model_gets_all_calls_and_results_of_a_mixed_turn(tmp_path: Path, stream: bool) -> None:
    # mixed: calls of the gateway's tools and of the client's
    mixed = ScriptedTurn("Both.", [ADD, CLIENT_CALL], thoughts=["both"])
    async with responses_world(tmp_path, mixed, ScriptedTurn("Done.")) as world:
        response = await final(world, "Ask", stream=stream, tools=[theirs()], store=False)
        assert kinds(response["output"]) == ["reasoning", "message", "function_call"]
        back = [{"role": "user", "content": "Ask"}, *response["output"]]
        back.append(result(response["output"][-1]["call_id"], "theirs said so"))
        last = await final(world, back, stream=False, tools=[theirs()], store=False)
    assert last["output"][-1]["content"][0]["text"] == "Done."
    sent = world.model.requests[1]["input"]
    assert kinds(sent) == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]
    assert [item["output"] for item in sent[-2:]] == ["42", "theirs said so"]


@pytest.mark.parametrize("store", [True, False])
async def test_previous_response_id_continues_a_mixed_turn(tmp_path: Path, store: bool) -> None:
    mixed = ScriptedTurn("Both.", [ADD, CLIENT_CALL], thoughts=["both"])
    async with responses_world(tmp_path, mixed, ScriptedTurn("Done.")) as world:
        response = await final(world, "Ask", stream=store, tools=[theirs()], store=store)
        back = [result(response["output"][-1]["call_id"], "theirs said so")]
        last = await final(
            world, back, stream=False, tools=[theirs()], store=store, previous_response_id=response["id"]
        )
    assert last["output"][-1]["content"][0]["text"] == "Done."
    assert last["previous_response_id"] == response["id"]
    request = world.model.requests[1]
    outputs = [item["output"] for item in request["input"] if item["type"] == "function_call_output"]
    assert outputs == ["42", "theirs said so"]
    assert request.get("previous_response_id") == ("resp_scripted_0001" if store else None)


@pytest.mark.parametrize("store", [True, False])
async def test_a_conversation_continues_from_the_last_round(tmp_path: Path, store: bool) -> None:
    async with responses_world(tmp_path, *ROUNDS, ScriptedTurn("Yes.")) as world:
        response = await final(world, "Add", stream=True, store=store)
        last = await final(world, "Sure?", stream=True, store=store, previous_response_id=response["id"])
        assert last["output"][-1]["content"][0]["text"] == "Yes."
        request = world.model.requests[2]
        if store:
            assert (request["previous_response_id"], request["input"]) == ("resp_scripted_0002", "Sure?")
        else:
            assert kinds(request["input"]) == [
                "message",
                "reasoning",
                "message",
                "function_call",
                "function_call_output",
                "reasoning",
                "message",
                "message",
            ]
            assert "previous_response_id" not in request


async def test_thoughts_that_led_to_hidden_calls_stand_before_them_again(tmp_path: Path) -> None:
    async with responses_world(tmp_path, *ROUNDS, ScriptedTurn("Yes.")) as world:
        response = await final(world, "Add", stream=False, store=False)
        back = [{"role": "user", "content": "Add"}, *response["output"], {"role": "user", "content": "Sure?"}]
        assert (await final(world, back, stream=False, store=False))["status"] == "completed"
    assert kinds(world.model.requests[2]["input"])[3:5] == ["function_call", "function_call_output"]


async def test_thoughts_whose_calls_are_lost_are_left_out(tmp_path: Path) -> None:
    async with responses_world(tmp_path, *ROUNDS, ScriptedTurn("Yes."), context_bytes=0) as world:
        response = await final(world, "Add", stream=False, store=False)
        # without the first message and the lost call, no output of the model follows the first reasoning item
        returned = [item for item in response["output"] if "Let me see." not in str(item.get("content"))]
        back = [{"role": "user", "content": "Add"}, *returned, {"role": "user", "content": "Sure?"}]
        assert (await final(world, back, stream=False, store=False))["status"] == "completed"
    assert kinds(world.model.requests[2]["input"]) == ["message", "reasoning", "message", "message"]


async def test_an_unknown_previous_response_id_is_refused(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        answer = await respond(world, "Hi", previous_response_id="resp_of_somebody_else")
    assert answer.status == 400
    assert answer.message["error"]["code"] == "previous_response_not_found"
    assert answer.message["error"]["param"] == "previous_response_id"
    assert not world.model.requests


async def test_members_items_and_tools_that_the_gateway_does_not_know_are_forwarded_unchanged(tmp_path: Path) -> None:
    odd: dict[str, Any] = {
        "include": ["reasoning.encrypted_content"],
        "x_vendor": {"z": 1.0, "a": [12345678901234567890123]},
        "tools": [
            {"type": "web_search"},
            {"type": "mcp", "server_label": "s", "server_url": "https://example.com"},
            {"type": "namespace", "name": "crm", "tools": [theirs("look")]},
        ],
    }
    given: list[dict[str, Any]] = [
        {"type": "compaction", "encrypted_content": "c"},
        {"type": "item_reference", "id": "msg_1"},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]},
    ]
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        await respond(world, given, **odd, fairlead={"tags": []})
    sent = world.model.bodies[0]
    assert b'"z": 1.0, "a": [12345678901234567890123]' in sent
    assert json.dumps(given).encode() in sent
    assert world.model.requests[0]["tools"][:3] == odd["tools"]
    assert "fairlead" not in world.model.requests[0]


async def test_the_client_runs_calls_of_namespaced_tools_and_of_its_local_shell(tmp_path: Path) -> None:
    call = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "namespace": "crm",
        "arguments": "{}",
        "status": "completed",
    }
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_2", "action": {}, "status": "completed"}
    for item in (call, shell):
        tools = [{"type": "namespace", "name": "crm", "tools": [theirs("look")]}, {"type": "local_shell"}]
        for stream in (False, True):
            async with responses_world(tmp_path, ScriptedTurn("", [ADD], items=[item])) as world:
                response = await final(world, "Ask", stream=stream, tools=tools)
            assert with_provider_ids(response["output"]) == [item]
            assert len(world.model.requests) == 1
            assert len(world.called) == 1


@pytest.mark.parametrize(
    ("choice", "later"),
    [
        ("required", "auto"),
        ({"type": "function", "name": "theirs"}, "auto"),
        ({"type": "web_search"}, "auto"),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "demo__add"}]},
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "demo__add"}]},
        ),
        (NO_TOOLS, NO_TOOLS),
        ("auto", "auto"),
    ],
)
async def test_a_forced_choice_holds_only_for_the_first_round(tmp_path: Path, choice: Any, later: Any) -> None:
    async with responses_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as world:
        response = await final(world, "Add", stream=False, tool_choice=choice, tools=[theirs()])
    assert [request["tool_choice"] for request in world.model.requests] == [choice, later]
    assert response["tool_choice"] == choice


async def test_the_last_round_may_call_nothing(tmp_path: Path) -> None:
    again = ScriptedTurn("", [ADD])
    for stream in (False, True):
        async with responses_world(tmp_path, *[again] * 9, llm_rounds=2) as world:
            response = await final(world, "Add", stream=stream)
            assert [request.get("tool_choice") for request in world.model.requests] == [None, None, "none"]
            assert len(world.called) == 2
            assert response["output"] == []
            last = await final(
                world, "And?", stream=stream, previous_response_id=response["id"], fairlead={"tools": "none"}
            )
            assert last["status"] == "completed"


async def test_calls_here_count_towards_max_tool_calls(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("", [ADD, ADD]), ScriptedTurn("42")) as world:
        await final(world, "Add", stream=False, max_tool_calls=1)
    assert len(world.called) == 1
    outputs = [item["output"] for item in world.model.requests[1]["input"] if "output" in item]
    assert outputs[0] == "42"
    assert "max_tool_calls" in outputs[1]
    assert world.model.requests[0]["max_tool_calls"] == 1


async def test_a_conversation_that_the_provider_holds_gets_only_what_is_new(tmp_path: Path) -> None:
    mixed = ScriptedTurn("", [ADD, CLIENT_CALL])
    async with responses_world(tmp_path, ScriptedTurn("", [ADD]), mixed, ScriptedTurn("Done.")) as world:
        response = await final(world, "Ask", stream=False, tools=[theirs()], conversation="conv_1")
        back = [result(response["output"][-1]["call_id"], "1")]
        await final(world, back, stream=False, tools=[theirs()], conversation="conv_1")
    _, second, third = world.model.requests
    assert kinds(second["input"]) == ["function_call_output"]
    assert [item["output"] for item in third["input"]] == ["42", "1"]


async def test_a_background_response_is_forwarded_without_tools_and_retrieved_by_its_id(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Later.")) as world:
        response = await final(world, "Hi", stream=False, background=True)
        assert "tools" not in world.model.requests[0]
        assert response["status"] == "queued"
        retrieved = await get(world.gateway, f"/v1/responses/{response['id']}")
        refused = await respond(world, "Hi", background=True, stream=True)
    assert retrieved.message["id"] == response["id"]
    assert world.model.stored_response_requests == [
        ("GET", "/v1/responses/resp_scripted_0001")
    ]  # requests for stored responses
    assert (refused.status, refused.message["error"]["param"]) == (400, "stream")


@pytest.mark.parametrize("stream", [False, True])
async def test_previous_response_id_continues_an_answer_of_another_api_family(tmp_path: Path, stream: bool) -> None:
    turns = [ScriptedTurn("Both.", [ADD, CLIENT_CALL]), ScriptedTurn("Done."), ScriptedTurn("Yes.")]
    async with responses_world(tmp_path, *turns, provider={"responses": False}) as world:
        first = await final(world, "Ask", stream=stream, tools=[theirs()])
        back = [result(first["output"][-1]["call_id"], "theirs said so")]
        second = await final(world, back, stream=stream, tools=[theirs()], previous_response_id=first["id"])
        third = await final(world, "Sure?", stream=stream, tools=[theirs()], previous_response_id=second["id"])
        retrieved = await get(world.gateway, f"/v1/responses/{third['id']}")
    assert [message["role"] for message in world.model.requests[1]["messages"]] == ["user", "assistant", "tool", "tool"]
    assert [message["role"] for message in world.model.requests[2]["messages"]][-3:] == ["tool", "assistant", "user"]
    assert third["output"][-1]["content"][0]["text"] == "Yes."
    assert retrieved.message["id"] == third["id"]


@pytest.mark.parametrize(
    "turn",
    [
        ScriptedTurn("Half a sen", cut=True),
        ScriptedTurn(events=['{"type":"error","sequence_number":0,"code":"x","message":"gone","param":null}']),
    ],
)
async def test_a_broken_stream_is_an_error_that_clients_raise(tmp_path: Path, turn: ScriptedTurn) -> None:
    async with responses_world(tmp_path, turn) as world:
        stream_events = events(await respond(world, "Hi", stream=True))
    assert stream_events[-1]["type"] == "error"
    assert stream_events[-1]["error"]["message"]
    assert not any(event["type"] in ("response.completed", "response.failed") for event in stream_events)


async def test_a_refusal_after_a_tool_has_run_tells_the_client_not_to_retry(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("broken", status=500)) as world:
        answer = await respond(world, "Add")
    assert (answer.status, answer.headers["x-should-retry"]) == (500, "false")
    assert answer.message["error"]["message"] == "broken"


async def test_calls_of_an_incomplete_answer_are_not_run(tmp_path: Path) -> None:
    for stream in (False, True):
        async with responses_world(tmp_path, ScriptedTurn("", [ADD], finish_reason="max_output_tokens")) as world:
            response = await final(world, "Add", stream=stream)
        assert response["status"] == "incomplete"
        assert not world.called
