"""Servers of the gateway that a Responses client names in its tools, and their calls, shown as calls of hosted MCP
tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from responsesworld import events, final, kinds, respond, responses_world, result, theirs

ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
ROUNDS = (ScriptedTurn("Let me see.", [ADD], thoughts=["hm"]), ScriptedTurn("It is 42.", thoughts=["so"]))
SHOWN = ["mcp_list_tools", "reasoning", "message", "mcp_call", "reasoning", "message"]


def server_tool(**members: Any) -> dict[str, Any]:
    """A tool entry for the server `demo`."""
    return {
        "type": "mcp",
        "server_label": "sums",
        "server_url": "fairlead://demo",
        "require_approval": "never",
        **members,
    }


@pytest.mark.parametrize("members", [{"tools": [server_tool()]}, {"fairlead": {"showCalls": True}}])
async def test_calls_are_shown_as_those_of_hosted_tools_and_come_back_as_functions(
    tmp_path: Path, members: dict[str, Any]
) -> None:
    shown = []
    for stream in (False, True):
        async with responses_world(tmp_path, *ROUNDS, ScriptedTurn("Yes.")) as world:
            response = await final(world, "Add", stream=stream, store=False, **members)
            assert not any(tool["type"] == "mcp" for tool in world.model.requests[0]["tools"])
            back = [{"role": "user", "content": "Add"}, *response["output"], {"role": "user", "content": "Sure?"}]
            last = await final(world, back, stream=stream, store=False, **members)
        assert kinds(response["output"]) == SHOWN
        listed = response["output"][0]
        call = response["output"][3]
        assert [tool["name"] for tool in listed["tools"]] == ["demo__add", "demo__fail"]
        assert listed["tools"][0]["input_schema"]["required"] == ["a", "b"]
        assert (call["name"], call["output"], call["status"], call["error"]) == ("demo__add", "42", "completed", None)
        assert call["server_label"] == ("sums" if "tools" in members else "fairlead")
        sent = world.model.requests[2]["input"]
        assert kinds(sent) == [
            "message",
            "reasoning",
            "message",
            "function_call",
            "function_call_output",
            "reasoning",
            "message",
            "message",
        ]
        assert sent[4]["output"] == "42"
        assert kinds(last["output"]) == ["message"]
        shown.append([{**item, "id": ""} for item in response["output"]])
    assert shown[0] == shown[1]


async def test_events_of_calls_have_the_order_of_hosted_tools(tmp_path: Path) -> None:
    failed = ScriptedTurn("", [ScriptedCall("demo__fail")])
    async with responses_world(tmp_path, failed, ScriptedTurn("No.")) as world:
        stream_events = events(await respond(world, "Try", stream=True, fairlead={"showCalls": True}))
    told = [event["type"].removeprefix("response.") for event in stream_events]
    assert told[2:6] == [
        "output_item.added",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "output_item.done",
    ]
    assert told[6:12] == [
        "output_item.added",
        "mcp_call.in_progress",
        "mcp_call_arguments.delta",
        "mcp_call_arguments.done",
        "mcp_call.failed",
        "output_item.done",
    ]
    assert [event["sequence_number"] for event in stream_events] == [*range(len(stream_events))]
    assert [event["output_index"] for event in stream_events if event["type"].endswith(".added")][:2] == [0, 1]
    assert stream_events[11]["item"]["error"]["content"] == [{"type": "text", "text": "it failed"}]
    assert stream_events[11]["item"]["output"] is None


async def test_a_failed_call_returns_its_error(tmp_path: Path) -> None:
    failed = ScriptedTurn("", [ScriptedCall("demo__fail")])
    async with responses_world(tmp_path, failed, ScriptedTurn("No."), ScriptedTurn("Yes.")) as world:
        response = await final(world, "Try", stream=False, store=False, tools=[server_tool()])
        back = [{"role": "user", "content": "Try"}, *response["output"], {"role": "user", "content": "Sure?"}]
        await final(world, back, stream=False, store=False, tools=[server_tool()])
    assert world.model.requests[2]["input"][2]["output"] == "Error: it failed"


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        (server_tool(allowed_tools=["add"]), ["demo__add"]),
        (server_tool(allowed_tools={"tool_names": ["demo__fail"]}), ["demo__fail"]),
        (server_tool(server_url="fairlead", server_label="demo"), ["demo__add", "demo__fail"]),
        (server_tool(server_url="fairlead", server_label="fairlead"), ["demo__add", "demo__fail"]),
        (server_tool(server_url="fairlead://other"), []),
        (server_tool(allowed_tools={"read_only": True}), ["demo__add"]),
    ],
)
async def test_only_tools_of_the_named_server_are_offered(
    tmp_path: Path, tool: dict[str, Any], names: list[str]
) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        response = await final(world, "Hi", stream=False, tools=[tool])
    assert [each["name"] for each in world.model.requests[0].get("tools", [])] == names
    assert response["tools"] == ([tool] if names else [])


async def test_a_server_of_the_gateway_can_be_forced(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as world:
        choice = {"type": "mcp", "server_label": "sums", "name": "add"}
        await final(world, "Add", stream=False, tools=[server_tool(), theirs()], tool_choice=choice)
    assert [request["tool_choice"] for request in world.model.requests] == [
        {"type": "function", "name": "demo__add"},
        "auto",
    ]


async def test_a_server_of_somebody_else_is_the_providers_to_ask(tmp_path: Path) -> None:
    tool = {"type": "mcp", "server_label": "fairlead", "server_url": "https://mcp.example.com"}
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        await final(world, "Hi", stream=False, tools=[tool])
    assert world.model.requests[0]["tools"][0] == tool


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_call_runs_after_the_client_approved_it(tmp_path: Path, stream: bool, store: bool) -> None:
    asks = server_tool(require_approval="always")
    turns = [ScriptedTurn("Let me see.", [ADD], thoughts=["hm"]), ScriptedTurn("It is 42."), ScriptedTurn("Yes.")]
    async with responses_world(tmp_path, *turns) as world:
        response = await final(world, "Add", stream=stream, store=store, tools=[asks])
        assert kinds(response["output"]) == ["mcp_list_tools", "reasoning", "message", "mcp_approval_request"]
        assert not world.called
        request = response["output"][-1]
        assert (request["name"], request["server_label"]) == ("demo__add", "sums")
        yes = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        if store:
            members: dict[str, Any] = {"previous_response_id": response["id"]}
            given = [yes]
        else:
            members = {}
            given = [{"role": "user", "content": "Add"}, *response["output"], yes]
        last = await final(world, given, stream=stream, store=store, tools=[asks], **members)
        assert len(world.called) == 1
        calls = [item for item in last["output"] if item["type"] == "mcp_call"]
        assert [(call["output"], call["approval_request_id"]) for call in calls] == [("42", request["id"])]
        outputs = [item for item in world.model.requests[1]["input"] if item.get("type") == "function_call_output"]
        assert [item["output"] for item in outputs] == ["42"]
        if not store:
            again = [*given, *last["output"], {"role": "user", "content": "Sure?"}]
            await final(world, again, stream=stream, store=store, tools=[asks])
            assert len(world.called) == 1
            sent = world.model.requests[2]["input"]
            assert kinds(sent).count("function_call") == kinds(sent).count("function_call_output") == 1


async def test_a_call_that_the_client_denies_does_not_run(tmp_path: Path) -> None:
    asks = server_tool(require_approval={"never": {"tool_names": ["fail"]}})
    turns = [ScriptedTurn("", [ADD, ScriptedCall("demo__fail")]), ScriptedTurn("Well.")]
    async with responses_world(tmp_path, *turns) as world:
        response = await final(world, "Add", stream=False, tools=[asks])
        assert [call["name"] for call in world.called] == ["fail"]
        ident = response["output"][-1]["id"] if response["output"][-1]["type"] == "mcp_approval_request" else ""
        ident = ident or next(item["id"] for item in response["output"] if item["type"] == "mcp_approval_request")
        no = {"type": "mcp_approval_response", "approval_request_id": ident, "approve": False, "reason": "too much"}
        await final(world, [no], stream=False, tools=[asks], previous_response_id=response["id"])
    assert len(world.called) == 1
    outputs = {item["call_id"]: item["output"] for item in world.model.requests[1]["input"]}
    assert outputs["call_scripted_0001_0000"] == "The user did not approve this call: too much"
    assert "it failed" in outputs["call_scripted_0001_0001"]


async def test_a_result_that_the_client_sends_for_our_call_does_not_run_it(tmp_path: Path) -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "demo__add", "arguments": "{}"}
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        await final(world, [{"role": "user", "content": "Hi"}, call, result("call_1", "7")], stream=False)
    assert not world.called
    assert world.model.requests[0]["input"][2]["output"] == "7"
