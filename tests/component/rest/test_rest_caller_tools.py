"""The caller's own tools in the REST API: matched, converted to a format, counted, and returned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from fairlead_formats.registry import FORMATS, find
from gatewayworld import catalog, entry, running
from restworld import MESSAGES, Calls, get, post, problem
from toolservers import sdk_server

STOCK: dict[str, Any] = {
    "name": "get_stock",
    "description": "How many are in stock.",
    "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
}
ASK: dict[str, Any] = {
    "name": "ask.user",
    "description": "Ask the user a question.",
    "inputSchema": {
        "type": "object",
        "properties": {"question": {"type": "string"}, "hint": {"type": "string"}},
        "required": ["question"],
    },
}
NOWHERE = "http://127.0.0.1:9/mcp"
DEMO = catalog("demo", NOWHERE, [entry(STOCK), "slow"])


def as_sent(format_name: str, *tools: dict[str, Any]) -> Any:
    """Definitions in a provider's format, as members of a request."""
    format_ = find(format_name)
    return format_.request(format_.convert(tools).tools)


@pytest.mark.parametrize("theirs", FORMATS)
async def test_the_callers_tools_are_carried_from_any_format_beside_the_visible_ones(
    tmp_path: Path, theirs: str
) -> None:
    body = {"tools": as_sent(theirs, ASK), "toolsFormat": theirs}
    async with running(tmp_path, DEMO) as gateway:
        for name in FORMATS:
            answer = (await post(gateway, "/v1/tools", {**body, "format": name})).message
            back = {tool["name"]: tool for tool in find(name).read(_request(answer)).tools}
            (own,) = answer["own"]
            assert answer["names"][own] == ("ask.user" if theirs == "mcp" else "ask_user")
            assert len(answer["names"]) == len(back) == 3
            judge = jsonschema_rs.Draft202012Validator(back[own]["inputSchema"])
            assert judge.is_valid({"question": "?"})
            assert not judge.is_valid({"question": 1})


def _request(answer: dict[str, Any]) -> Any:
    request: Any = answer["tools"]
    for part in reversed(answer["member"].strip("/").split("/")):
        request = {part: [request] if part == "functionDeclarations" else request}
    return request


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_callers_tool_is_offered_called_by_the_model_and_handed_back_to_be_run(
    tmp_path: Path, format_name: str
) -> None:
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, ["add"])) as gateway:
        offer = {"format": format_name, "tools": [ASK], "toolsFormat": "mcp"}
        (own,) = (await post(gateway, "/v1/tools", offer)).message["own"]
        calls: Calls = [
            ("call_1", own, {"question": "How much?", "hint": None}),
            ("call_2", "demo__add", {"a": 1, "b": 2}),
        ]
        calls = calls[:1] if format_name == "openai-functions" else calls
        answer = (await post(gateway, "/v1/tool-calls", {**offer, "message": MESSAGES[format_name](calls)})).message
    first, *others = answer["calls"]
    assert first["state"] == "pending"
    assert first["tool"] == "ask.user"
    assert first["arguments"] == {"question": "How much?"}
    assert answer["pending"] == [first["id"]]
    assert [call["state"] for call in others] == ["done"] * (len(calls) - 1)
    assert "How much?" not in json.dumps(answer["messages"])


async def test_a_definition_that_was_offered_means_the_gateways_tool(tmp_path: Path) -> None:
    """Callers send back all definitions that they received, and expect calls of these tools to be run."""
    async with sdk_server() as url, running(tmp_path, catalog("demo", url, ["add"])) as gateway:
        offered = (await get(gateway, "/v1/tools?format=anthropic")).message["tools"]
        own = as_sent("anthropic", ASK)["tools"]
        body = {"format": "anthropic", "tools": [*offered, *own]}
        carried = (await post(gateway, "/v1/tools", body)).message
        message = MESSAGES["anthropic"]([("1", "demo__add", {"a": 1, "b": 2}), ("2", "ask_user", {"question": "?"})])
        ran = (await post(gateway, "/v1/tool-calls", {**body, "message": message})).message
    assert carried["matched"] == {"demo__add": "demo__add"}
    assert carried["own"] == ["ask_user"]
    assert [tool["name"] for tool in carried["tools"]] == ["demo__add", "ask_user"]
    assert [call["state"] for call in ran["calls"]] == ["done", "pending"]


async def test_a_callers_tool_named_like_a_visible_tool_gives_way_and_the_report_says_so(tmp_path: Path) -> None:
    other = {"name": "demo__get_stock", "inputSchema": {"type": "object", "properties": {"sku": {"type": "string"}}}}
    async with running(tmp_path, DEMO) as gateway:
        answer = (await post(gateway, "/v1/tools", {"format": "mcp", "tools": [other]})).message
    shown = {tool["name"]: tool for tool in answer["tools"]}
    assert shown["demo__get_stock"]["inputSchema"] == STOCK["inputSchema"]
    assert "own" not in answer
    (loss,) = answer["report"]
    assert (loss["tool"], loss["action"]) == ("demo__get_stock", "dropped")
    assert "other arguments" in loss["why"]


async def test_the_gateways_names_stay_as_they_are_whatever_the_caller_brings(tmp_path: Path) -> None:
    odd = catalog("demo", NOWHERE, ["päth.x"])
    mine = {"name": "demo__p.th_x", "inputSchema": {"type": "object"}}
    async with running(tmp_path, odd) as gateway:
        alone = (await get(gateway, "/v1/tools?format=openai")).message["names"]
        beside = (await post(gateway, "/v1/tools", {"format": "openai", "tools": [mine], "toolsFormat": "mcp"})).message
    assert beside["names"].items() >= alone.items()
    assert len(beside["names"]) == 2


async def test_the_callers_tools_count_against_the_limits_and_are_never_cut(tmp_path: Path) -> None:
    body = {"format": "openai", "model": "gpt-5-mini", "maxTools": 2, "tools": [ASK], "toolsFormat": "mcp"}
    async with running(tmp_path, DEMO) as gateway:
        alone = (await get(gateway, "/v1/tools?format=openai&model=gpt-5-mini&maxTools=2")).message
        beside = (await post(gateway, "/v1/tools", body)).message
    assert sorted(alone["names"]) == ["demo__get_stock", "demo__slow"]
    assert sorted(beside["names"]) == ["ask_user", "demo__get_stock"]
    assert [cut["name"] for cut in beside["cut"]] == ["demo__slow"]
    assert beside["numbers"]["toolTokens"] != alone["numbers"]["toolTokens"]


async def test_a_plan_counts_carries_and_names_the_callers_tools(tmp_path: Path) -> None:
    body: dict[str, Any] = {"models": ["claude-sonnet-5"], "messages": []}
    async with running(tmp_path, DEMO) as gateway:
        without = (await post(gateway, "/v1/plan", body)).message
        given = {**body, "tools": as_sent("gemini", ASK), "toolsFormat": "gemini"}
        answer = (await post(gateway, "/v1/plan", given)).message
    assert answer["offer"]["own"] == ["ask_user"]
    assert answer["numbers"]["toolTokens"] > without["numbers"]["toolTokens"] + 20


async def test_a_tool_that_cannot_be_read_is_refused_and_an_unknown_format_names_the_known(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        theirs = {"tools": [{"type": "web_search"}], "toolsFormat": "openai"}
        answer = (await post(gateway, "/v1/tools", {"format": "anthropic", **theirs})).message
        unknown = await post(gateway, "/v1/tools", {"format": "openai", "tools": [], "toolsFormat": "smoke"})
    assert "refused" in {loss["action"] for loss in answer["report"]}
    assert len(answer["names"]) == 2
    assert problem(unknown) == (400, "UNKNOWN_FORMAT")


async def test_the_callers_definitions_go_out_in_their_own_format_as_they_came(tmp_path: Path) -> None:
    mine = [
        {"name": "ask", "input_schema": {"type": "object"}, "strict": True, "cache_control": {"type": "ephemeral"}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
    ]
    async with running(tmp_path, DEMO) as gateway:
        answer = (await post(gateway, "/v1/tools", {"format": "anthropic", "tools": mine})).message
        other = (await post(gateway, "/v1/tools", {"format": "openai", "tools": mine, "toolsFormat": "claude"})).message
    assert answer["tools"][-2:] == mine
    assert answer["own"] == ["ask"]
    assert not [loss for loss in answer["report"] if loss["action"] != "rewritten"]
    assert {"cache_control", "strict"} <= {loss["keyword"] for loss in other["report"]}
    assert any("web_search" in loss["why"] for loss in other["report"])


@pytest.mark.parametrize("path", ["tools", "plan", "tool-calls"])
async def test_caller_tools_that_share_a_name_are_an_error(tmp_path: Path, path: str) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "tools": {"format": "mcp"},
        "plan": {"models": ["gpt-5.1"]},
        "tool-calls": {"format": "mcp", "message": []},
    }
    async with running(tmp_path, DEMO) as gateway:
        answer = await post(gateway, f"/v1/{path}", {**bodies[path], "tools": [ASK, {**ASK, "description": "other"}]})
    assert problem(answer) == (400, "INVALID_ARGUMENTS")
    assert "'ask.user'" in answer.message["detail"]


CUSTOM: dict[str, dict[str, Any]] = {
    "openai-chat": {
        "message": {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "demo__get_stock", "input": "1 + 2"}}],
        }
    },
    "openai-chat, streamed": {
        "stream": [
            {"choices": [{"index": 0, "delta": {"tool_calls": [delta]}, "finish_reason": None}]}
            for delta in (
                {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "demo__get_stock", "input": ""}},
                {"index": 0, "custom": {"input": "1 +"}},
                {"index": 0, "custom": {"input": " 2"}},
            )
        ]
        + [{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}]
    },
    "openai-responses": {
        "message": [{"type": "custom_tool_call", "call_id": "c1", "name": "demo__get_stock", "input": "1 + 2"}]
    },
    "openai-responses, streamed": {
        "stream": [
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {"type": "custom_tool_call", "id": "i", "call_id": "c1", "name": "demo__get_stock"},
            },
            {"type": "response.custom_tool_call_input.delta", "item_id": "i", "output_index": 0, "delta": "1 +"},
            {"type": "response.custom_tool_call_input.done", "item_id": "i", "output_index": 0, "input": "1 + 2"},
            {"type": "response.completed", "response": {}},
        ]
    },
}


@pytest.mark.parametrize("how", CUSTOM)
async def test_freeform_calls_are_the_callers_even_by_the_name_of_a_visible_tool(tmp_path: Path, how: str) -> None:
    body = {"format": how.split(",", maxsplit=1)[0], **CUSTOM[how], "tools": []}
    async with running(tmp_path, DEMO) as gateway:
        answer = (await post(gateway, "/v1/tool-calls", body)).message
    (call,) = answer["calls"]
    assert (answer["pending"], answer["messages"]) == (["c1"], [])
    assert (call["state"], call["tool"], call["arguments"]) == ("pending", "demo__get_stock", {"input": "1 + 2"})
