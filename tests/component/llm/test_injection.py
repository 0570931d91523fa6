"""Which tools a model gets, by the tier of the conversation, as a list or by search, and what the client learns of
it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.rules import Policy, PolicyLimits, Rule, Tier, TierSelection
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from gatewayworld import Answer, catalog, publish, scrape, wait_for_snapshots
from llmworld import FAILS, LlmWorld, chunks, llm_world, more_tools, policy, theirs

HELLO = ScriptedTurn("Hello")
ALLOW = Rule(action="Allow", tools=("*",))
META = ["execute_tool", "retrieve_context", "search_tools"]
TIERS = (
    Tier(name="careful", selection=TierSelection(keywords=("think hard",), commands=("switch to careful",))),
    Tier(name="quick", max_latency_ms=500, unmeasured="Hide", default=True),
)


def tool_names_in_request(world: LlmWorld, number: int = 0) -> list[str]:
    """Names of the tools in one of the model's requests."""
    return [tool["function"]["name"] for tool in world.model.requests[number].get("tools", ())]


def gateway_member(answer: Answer) -> Any:
    """The member `fairlead` of an answer, whole or streamed."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        return next(chunk["fairlead"] for chunk in chunks(answer)[:-1] if "fairlead" in chunk)
    return answer.message["fairlead"]


async def test_the_tier_of_a_request_is_chosen_by_what_was_said(tmp_path: Path) -> None:
    async with llm_world(tmp_path, HELLO, HELLO, HELLO, tiers=TIERS) as world:
        quick = await world.chat("How much rope?", headers={"x-fairlead-tier": "auto"})
        careful = await world.chat("Please think hard about the rope.", fairlead={"tier": "auto"}, stream=True)
        unasked = await world.chat("Please think hard about the rope.")
    assert (gateway_member(quick)["tier"], gateway_member(quick)["tierRule"]) == ("quick", "default")
    assert (gateway_member(careful)["tier"], gateway_member(careful)["tierRule"]) == ("careful", "keywords")
    assert [each.headers["x-fairlead-tier"] for each in (quick, careful, unasked)] == ["quick", "careful", "quick"]
    assert tool_names_in_request(world, 0) == []
    assert tool_names_in_request(world, 1) == ["demo__add", "demo__fail"]
    assert "tierRule" not in gateway_member(unasked)


async def test_a_command_holds_for_this_turn_and_the_next_two(tmp_path: Path) -> None:
    messages: list[dict[str, str]] = []
    tiers = []
    async with llm_world(tmp_path, *[HELLO] * 4, tiers=TIERS) as world:
        for text in ("Switch to careful, please.", "And the nets?", "And the sails?", "And the oars?"):
            messages.append({"role": "user", "content": text})
            answer = await world.chat(*messages, fairlead={"tier": "auto"})
            tiers.append(answer.headers["x-fairlead-tier"])
            messages.append({"role": "assistant", "content": "Hello"})
        metrics = await scrape(world.gateway)
    assert tiers == ["careful", "careful", "careful", "quick"]
    assert 'fairlead_llm_tier_changes_total{tier="quick"} 1.0' in metrics
    assert 'tier_changes_total{tier="careful"}' not in metrics


async def test_a_turn_whose_calls_the_caller_runs_changes_no_tier(tmp_path: Path) -> None:
    seen = {"id": "call_1", "type": "function", "function": {"name": "theirs", "arguments": "{}"}}
    turn: list[Mapping[str, Any]] = [
        {"role": "user", "content": "How much rope?"},
        {"role": "assistant", "content": "4 m"},
        {"role": "user", "content": "Think hard: is that enough?"},
    ]
    ran: list[Mapping[str, Any]] = [
        {"role": "assistant", "content": None, "tool_calls": [seen]},
        {"role": "tool", "tool_call_id": "call_1", "content": "yes"},
    ]
    async with llm_world(tmp_path, HELLO, HELLO, tiers=TIERS) as world:
        first = await world.chat(*turn, tools=[theirs()], fairlead={"tier": "auto"})
        second = await world.chat(*turn, *ran, tools=[theirs()], fairlead={"tier": "auto"})
        metrics = await scrape(world.gateway)
    assert [each.headers["x-fairlead-tier"] for each in (first, second)] == ["careful", "careful"]
    assert 'fairlead_llm_tier_changes_total{tier="careful"} 1.0' in metrics


async def test_a_request_that_is_sent_again_changes_no_tier(tmp_path: Path) -> None:
    turn: list[Any] = ["How much rope?", {"role": "assistant", "content": "4 m"}, "Think hard: is that enough?"]
    busy = ScriptedTurn("later", status=429)
    async with llm_world(tmp_path, busy, HELLO, HELLO, tiers=TIERS) as world:
        for _ in range(2):
            await world.chat(*turn, fairlead={"tier": "auto"})
        again = await scrape(world.gateway)
        await world.chat("How much sail?", *turn[1:], fairlead={"tier": "auto"})
        other = await scrape(world.gateway)
    assert 'fairlead_llm_tier_changes_total{tier="careful"} 1.0' in again
    assert 'fairlead_llm_tier_changes_total{tier="careful"} 2.0' in other, "another conversation"


async def test_without_tiers_there_is_none_to_choose(tmp_path: Path) -> None:
    async with llm_world(tmp_path, HELLO) as world:
        answer = await world.chat("Think hard", fairlead={"tier": "auto"})
    assert answer.status == 200
    assert "x-fairlead-tier" not in answer.headers
    assert tool_names_in_request(world) == ["demo__add", "demo__fail"]


async def test_requests_of_one_conversation_begin_with_equal_bytes(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = []
    for wish in ("inject", "search"):
        async with llm_world(tmp_path, *[HELLO] * 3, tiers=TIERS, tools=more_tools(30)) as world:
            for text in ("Think hard.", "Think hard again.", "Think hard, once more."):
                messages.append({"role": "user", "content": text})
                await world.chat(*messages, fairlead={"tier": "auto", "tools": wish})
                messages.append({"role": "assistant", "content": "Hello"})
            bodies = world.model.bodies
            requests = world.model.requests
        assert len({json.dumps(request["tools"]) for request in requests}) == 1
        assert requests[0]["tools"]
        for before, after in pairwise(bodies):
            prefix, _, rest = before.partition(b"]")  # the end of the conversation
            assert after.startswith(prefix)
            assert after.endswith(rest)
        messages.clear()


async def test_tools_that_do_not_fit_are_found_by_search(tmp_path: Path) -> None:
    search = ScriptedTurn("", [ScriptedCall("search_tools", {"query": "add two numbers", "limit": 2})])
    execute = ScriptedTurn("", [ScriptedCall("execute_tool", {"name": "demo__add", "arguments": {"a": 2, "b": 40}})])
    for stream in (False, True):
        script = (search, execute, ScriptedTurn("It is 42."))
        async with llm_world(tmp_path, *script, windows={"scripted": 3_000}, tools=more_tools(60)) as world:
            answer = await world.chat("Add", stream=stream)
            metrics = await scrape(world.gateway)
        assert tool_names_in_request(world) == META
        results = [m["content"] for m in world.model.requests[2]["messages"] if m["role"] == "tool"]
        assert json.loads(results[0])["tools"][0]["name"] == "demo__add"
        assert results[1].startswith("42")
        assert "session" in results[1]
        assert [call["arguments"] for call in world.called] == [{"a": 2, "b": 40}]
        report = gateway_member(answer)
        assert report["tools"] == {
            "way": "search",
            "injected": 3,
            "injectedTools": META,
            "reachable": 62,
            "because": "contextWindow",
        }
        assert [call["name"] for call in report["calls"]] == ["search_tools", "demo__add"]
        assert answer.headers["x-fairlead-tools"] == "search;injected=3;reachable=62;because=contextWindow"
        assert 'fairlead_router_calls_total{tool="search_tools"} 1.0' in metrics
        assert 'fairlead_router_calls_total{tool="execute_tool"} 1.0' in metrics
        assert 'fairlead_search_hits_executed_total{place="1"} 1.0' in metrics


async def test_a_kept_result_is_read_again_in_its_session(tmp_path: Path) -> None:
    arguments = {"name": "demo__add", "arguments": {"a": 2, "b": 40}, "session_id": "shop-1"}
    again = ScriptedCall("retrieve_context", {"session_id": "shop-1", "query": "42"})
    script = (ScriptedTurn("", [ScriptedCall("execute_tool", arguments)]), ScriptedTurn("", [again]), HELLO)
    async with llm_world(tmp_path, *script) as world:
        (tmp_path / "credentials").mkdir(exist_ok=True)
        await world.chat("Add", fairlead={"tools": "search"})
    results = [m["content"] for m in world.model.requests[2]["messages"] if m["role"] == "tool"]
    assert "session_id was not issued" in results[0]  # an anonymous caller cannot choose one
    assert not world.called
    assert "not" in results[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "demo__ad", "arguments": {}}, "Did you mean demo__add?"),
        ({"name": "demo__add", "arguments": 3}, "takes name, arguments"),
        ({}, "takes name, arguments"),
        ('{"name": "demo__add', "arguments"),
    ],
)
async def test_a_call_that_execute_tool_cannot_make_is_reported_to_the_model(
    tmp_path: Path, arguments: Any, message: str
) -> None:
    wrong = ScriptedTurn("", [ScriptedCall("execute_tool", arguments)])
    async with llm_world(tmp_path, wrong, HELLO) as world:
        answer = await world.chat("Add", fairlead={"tools": "search"})
    assert message in world.model.requests[1]["messages"][2]["content"]
    assert gateway_member(answer)["calls"][0]["is_error"] is True
    assert not world.called


async def test_search_finds_nothing_that_the_request_did_not_want(tmp_path: Path) -> None:
    calls = [
        ScriptedCall("search_tools", {"query": "add", "servers": ["other"]}),
        ScriptedCall("search_tools", {"query": "add"}),
        ScriptedCall("execute_tool", {"name": "demo__count_001"}),
    ]
    async with llm_world(tmp_path, ScriptedTurn("", calls), HELLO, tools=more_tools(3)) as world:
        await world.chat("Add", fairlead={"tools": "search", "servers": ["demo"]})
    results = [m["content"] for m in world.model.requests[1]["messages"] if m["role"] == "tool"]
    assert "use one of these servers: demo" in results[0]
    assert {tool["server"] for tool in json.loads(results[1])["tools"]} == {"default/demo"}
    assert [call["name"] for call in world.called] == ["count_001"]


async def test_a_pinned_tool_stands_beside_search(tmp_path: Path) -> None:
    pins = Policy(namespace="default", name="pins", every=True, rules=(ALLOW,), pinned=("fail",))
    async with llm_world(tmp_path, HELLO, policies=[pins], tools=more_tools(3)) as world:
        await world.chat("Hi", fairlead={"tools": "search"})
    assert tool_names_in_request(world) == [*META, "demo__fail"]


async def test_a_policy_holds_for_what_execute_tool_calls(tmp_path: Path) -> None:
    rule = Rule(action="Deny", tools=("add",))
    denied = Policy(namespace="default", name="no", every=True, rules=(rule, ALLOW))
    call = ScriptedCall("execute_tool", {"name": "demo__add", "arguments": {"a": 1, "b": 1}})
    async with llm_world(tmp_path, ScriptedTurn("", [call]), HELLO, policies=[denied]) as world:
        await world.chat("Add", fairlead={"tools": "search"})
    assert not world.called


async def test_tokens_of_a_day_count_where_tools_are_searched(tmp_path: Path) -> None:
    few = policy(limits=PolicyLimits(tokens_per_day=1))
    async with llm_world(tmp_path, HELLO, HELLO, policies=[few]) as world:
        await world.chat("Hi", fairlead={"tools": "search"})
        second = await world.chat("Hi", fairlead={"tools": "search"})
    assert second.status == 429


async def test_a_tool_of_the_callers_named_like_search_keeps_the_list(tmp_path: Path) -> None:
    async with llm_world(tmp_path, HELLO) as world:
        await world.chat("Hi", tools=[theirs("search_tools")], fairlead={"tools": "search"})
    assert tool_names_in_request(world) == ["search_tools", "demo__add", "demo__fail"]


async def test_the_cheapest_way_depends_on_how_many_tools_there_are(tmp_path: Path) -> None:
    for count, way in ((0, "list"), (150, "search")):
        async with llm_world(tmp_path, HELLO, tools=more_tools(count)) as world:
            answer = await world.chat("Hi", fairlead={"tools": "cheapest"})
        assert gateway_member(answer)["tools"]["way"] == way
        assert answer.headers["x-fairlead-tools"].endswith(";because=cheaper") is (way == "search")


async def test_a_requested_list_is_cut_and_the_client_gets_the_reason(tmp_path: Path) -> None:
    for stream in (False, True):
        async with llm_world(tmp_path, HELLO, windows={"scripted": 3_000}, tools=more_tools(60)) as world:
            answer = await world.chat("Hi", fairlead={"tools": "inject"}, stream=stream)
        tools = gateway_member(answer)["tools"]
        assert tools["injected"] + tools["cut"] == 62
        assert len(tools["injectedTools"]) <= 20
        assert sum(map(len, tools["cutTools"].values())) == 20
        assert [*tools["cutTools"]] == ["contextWindow"]
        assert answer.headers["x-fairlead-tools"] == f"list;injected={tools['injected']};cut={tools['cut']}"
        assert answer.headers["x-fairlead-tools-cut"] == f"contextWindow;tools={tools['cut']}"
        assert answer.headers["x-fairlead-model"] == "script0/scripted"


async def test_tools_beyond_a_context_window_go_to_the_next_model_of_the_route(tmp_path: Path) -> None:
    more: dict[str, Any] = {"windows": {"scripted": 3_000, "scripted-1": 100_000}, "tools": more_tools(60)}
    for stream, processes in ((False, 0), (True, 1)):
        async with llm_world(tmp_path, [HELLO], [HELLO], rest_processes=processes, **more) as world:
            answer = await world.chat("Hi", model="fairlead/all", stream=stream)
        assert not world.models[0].requests
        assert len(world.models[1].requests[0]["tools"]) == 62
        assert answer.headers["x-fairlead-model"] == "script1/scripted-1"
        assert answer.headers["x-fairlead-tools"] == "list;injected=62"


async def test_where_no_window_holds_all_tools_the_larger_one_keeps_more(tmp_path: Path) -> None:
    windows = {"scripted": 3_000, "scripted-1": 5_000}
    for stream in (False, True):
        async with llm_world(tmp_path, [HELLO], [HELLO], windows=windows, tools=more_tools(60)) as world:
            listed = await world.chat("Hi", model="fairlead/all", stream=stream, fairlead={"tools": "inject"})
            searched = await world.chat("Hi", model="fairlead/all", stream=stream)
        assert listed.headers["x-fairlead-model"] == "script1/scripted-1"
        assert searched.headers["x-fairlead-model"] == "script0/scripted"
        assert searched.headers["x-fairlead-tools"].startswith("search;")


async def test_a_conversation_at_the_windows_edge_loses_tools_and_not_words(tmp_path: Path) -> None:
    long = "rope " * 2_000
    for stream, processes in ((False, 0), (True, 1)):
        more: dict[str, Any] = {"windows": {"scripted": 3_000}, "rest_processes": processes}
        async with llm_world(tmp_path, HELLO, tools=more_tools(5), **more) as world:
            answer = await world.chat(long, stream=stream)
        assert world.model.requests[0]["messages"][0]["content"] == long
        tools = gateway_member(answer)["tools"]
        assert tools["way"] == "list"  # the tools for search need more tokens than are left
        assert 0 < tools["injected"] < 7


async def test_a_conversation_beyond_every_window_goes_out_without_tools(tmp_path: Path) -> None:
    for stream, processes in ((False, 0), (True, 1)):
        async with llm_world(tmp_path, HELLO, windows={"scripted": 100}, rest_processes=processes) as world:
            answer = await world.chat("rope " * 1_000, stream=stream)
        assert tool_names_in_request(world) == []
        assert answer.headers["x-fairlead-tools"] == "none;because=window"


async def test_a_model_name_cannot_add_headers(tmp_path: Path) -> None:
    async with llm_world(tmp_path, HELLO) as world:
        answer = await world.chat("Hi", model="script0/a\r\nx-evil: 1 é")
    assert answer.headers["x-fairlead-model"] == "script0/a%0D%0Ax-evil:%201%20%C3%A9"
    assert "x-evil" not in answer.headers


async def test_tools_are_not_injected_where_the_client_declines_them(tmp_path: Path) -> None:
    async with llm_world(tmp_path, HELLO) as world:
        answer = await world.chat("Hi", headers={"x-fairlead-tools": "none"})
    assert tool_names_in_request(world) == []
    assert answer.headers["x-fairlead-tools"] == "none"


async def test_two_hundred_requests_for_the_same_tools_are_one_piece_of_work(tmp_path: Path) -> None:
    async with llm_world(tmp_path, *[HELLO] * 200, tools=more_tools(100)) as world:
        answers = await asyncio.gather(*(world.chat("Hi") for _ in range(200)))
    assert {answer.status for answer in answers} == {200}
    assert len({json.dumps(request["tools"]) for request in world.model.requests}) == 1


async def test_a_changed_catalog_changes_what_is_injected(tmp_path: Path) -> None:
    async with llm_world(tmp_path, HELLO, HELLO) as world:
        await world.chat("Hi")
        swaps = world.gateway.snapshots.swaps
        publish(tmp_path / "documents", catalog("demo", "http://127.0.0.1:9/mcp", [FAILS]))
        await wait_for_snapshots(world.gateway, swaps + 1)
        await world.chat("Hi")
    assert [tool_names_in_request(world, number) for number in (0, 1)] == [["demo__add", "demo__fail"], ["demo__fail"]]
