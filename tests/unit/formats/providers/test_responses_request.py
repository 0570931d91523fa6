"""Requests of the Responses API reach the provider unchanged except for the gateway's additions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_formats.providers.openai_responses.items import drop_orphaned_reasoning, names_within
from fairlead_formats.providers.openai_responses.request import ResponsesRequest
from fairlead_formats.wire.protocol import BadRequest, ModelRound

REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
MODEL_MESSAGE = {"type": "message", "role": "assistant", "content": "So."}
USER_MESSAGE = {"role": "user", "content": "Hi"}
ALLOWED_TOOLS_NOT_A_LIST = b'{"model":"m","tools":[{"type":"mcp","server_url":"fairlead://a","allowed_tools":7}]}'
INJECTED_TOOL = b'{"type":"function","name":"demo__add"}'


def read(**members: Any) -> ResponsesRequest:
    return ResponsesRequest(json.dumps({"model": "m", "input": "Hi", **members}).encode())


def body_of(request: ResponsesRequest, *injected: bytes, more: tuple[bytes, ...] = (), **about: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(request.body(ModelRound("m", more, injected, **about)))
    return body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"model":1}',
        b'{"model":"m","input":7}',
        b'{"model":"m","input":[1],"tools":{}}',
        b'{"model":"m","fairlead":[]}',
        b"[" * 20_000,
        b'{"model":"\xff"}',
        b'{"model":"m","max_tool_calls":"x"}',
        b'{"model":"m","background":true,"stream":true}',
        ALLOWED_TOOLS_NOT_A_LIST,
    ],
)
def test_bodies_that_are_not_requests_are_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        ResponsesRequest(body)


@pytest.mark.parametrize("given", [None, [], [1, "x", None], [{"type": 7}], [{}], [USER_MESSAGE, CALL, RESULT], "text"])
def test_an_input_is_forwarded_unchanged(given: Any) -> None:
    assert body_of(read(input=given), INJECTED_TOOL)["input"] == given


def test_thoughts_that_lead_to_nothing_are_left_out_where_tools_are_injected() -> None:
    items = [
        USER_MESSAGE,
        REASONING,
        {**REASONING, "id": "rs_2"},
        MODEL_MESSAGE,
        {**REASONING, "id": "rs_3"},
        USER_MESSAGE,
    ]
    assert [item.get("id") for item in body_of(read(input=items), INJECTED_TOOL)["input"]] == [None, "rs_2", None, None]
    assert body_of(read(input=items))["input"] == items
    messages = [json.dumps(item).encode() for item in (REASONING, CALL, RESULT)]
    assert drop_orphaned_reasoning(messages) == messages


def test_names_of_tools_inside_of_others_are_the_callers() -> None:
    nested = {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "look"}]}
    loaded = {"type": "tool_search_output", "tools": [nested, {"type": "function", "name": "found"}]}
    request = read(tools=[nested, {"type": "custom", "name": "code"}, {"type": "shell"}], input=[loaded])
    assert request.tool_names == {"look", "code", "shell_call", "found"}
    assert names_within({"tools": "none"}) == []


def test_a_choice_of_none_of_our_tools_is_left_out_with_the_tools() -> None:
    tool = {"type": "mcp", "server_label": "s", "server_url": "fairlead://demo"}
    body = body_of(read(tools=[tool], tool_choice={"type": "mcp", "server_label": "s"}))
    assert "tools" not in body
    assert "tool_choice" not in body


def test_servers_of_the_gateway_among_allowed_tools_become_their_functions() -> None:
    tool = {"type": "mcp", "server_label": "s", "server_url": "fairlead://demo"}
    allowed = [{"type": "mcp", "server_label": "s"}, {"type": "web_search"}]
    choice = {"type": "allowed_tools", "mode": "required", "tools": allowed}
    choice_sent = body_of(read(tools=[tool], tool_choice=choice), INJECTED_TOOL)["tool_choice"]
    assert choice_sent["tools"] == [{"type": "function", "name": "demo__add"}, {"type": "web_search"}]
    assert (
        body_of(read(tools=[tool], tool_choice=choice), INJECTED_TOOL, sends_forced_choice=False)["tool_choice"]["mode"]
        == "auto"
    )
    assert body_of(read(tools=[tool], tool_choice=choice), INJECTED_TOOL, forbids_calls=True)["tool_choice"] == "none"


def test_an_approval_is_taken_once_and_only_at_the_end() -> None:
    approval_request = {"type": "mcp_approval_request", "id": "mcpr_fairlead_call_1", "name": "f", "arguments": "{}"}
    approval = {"type": "mcp_approval_response", "approval_request_id": approval_request["id"], "approve": True}
    assert [call["call_id"] for call in read(input=[USER_MESSAGE, approval_request, approval]).approved_calls] == [
        "call_1"
    ]
    late_approval = read(input=[USER_MESSAGE, approval_request, approval, MODEL_MESSAGE])
    assert late_approval.approved_calls == []
    assert "no longer available" in body_of(late_approval)["input"][2]["output"]
    shown_call = {"type": "mcp_call", "id": "mcp_fairlead_call_1", "name": "f", "arguments": "{}", "output": "1"}
    after_the_call = read(input=[USER_MESSAGE, approval_request, approval, shown_call, MODEL_MESSAGE])
    assert after_the_call.approved_calls == []
    assert [item.get("type") for item in body_of(after_the_call)["input"]] == [
        None,
        "function_call",
        "function_call_output",
        "message",
    ]


def test_items_are_sent_under_the_providers_own_ids() -> None:
    mark = ".fairlead-" + "0123456789abcdef" * 3 + "-1"
    items = [
        USER_MESSAGE,
        {**REASONING, "id": f"rs_1{mark}"},
        {**MODEL_MESSAGE, "id": f"msg_1{mark}"},
        {"type": "item_reference", "id": f"rs_2{mark}"},
    ]
    text = {**MODEL_MESSAGE, "content": f"rs_1{mark}"}
    sent_items = body_of(read(input=[*items, text]), INJECTED_TOOL)["input"]
    assert [item.get("id") for item in sent_items] == [None, "rs_1", "msg_1", "rs_2", None]
    assert sent_items[-1] == text


def test_an_approval_of_another_server_passes() -> None:
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    request = read(input=[approval])
    assert request.approved_calls == []
    assert body_of(request, INJECTED_TOOL)["input"] == [approval]
