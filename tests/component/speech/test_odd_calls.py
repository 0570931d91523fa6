"""Calls of tools that were not offered, duplicate ids, and simultaneous requests of client and gateway for a
response."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cascadeworld import cascade_world, speak
from fairlead_api.documents.rules import Tier
from fairlead_speech.scripted import SpokenCall, SpokenReply
from liveworld import BLOCKS, NEW, OLD, live_world, own_function
from llmworld import policy
from speechworld import RealtimeClient, SpeechWorld, own_tool, speech_world

ADD = SpokenCall("demo__add", {"a": 2, "b": 3}, "call_add")
MISSPELT = SpokenCall("demo__ad", {"a": 2, "b": 3}, "call_odd")
OWN = SpokenCall("theirs", {}, "call_own")
LOOKUP = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}
# a session is in the tier `fast` by default; slow tools are only in `deep`
TIERS = (Tier(name="fast", max_latency_ms=500, default=True), Tier(name="deep", max_latency_ms=4000))
UNKNOWN = "Error: Unknown tool: demo__ad. Did you mean demo__add?"


def outputs(world: SpeechWorld) -> list[tuple[str, str]]:
    """Call id and text of each output that the provider received."""
    items = [event["item"] for event in world.session.of_type("conversation.item.create")]
    return [(item["call_id"], item["output"]) for item in items if item["type"] == "function_call_output"]


async def settle(world: SpeechWorld, client: RealtimeClient) -> None:
    """Wait until both sides have received all messages that were sent before."""
    number = len(client.of_type("session.updated")) + 1
    await client.update(instructions=f"Number {number}.")
    await client.until("session.updated", number)


async def test_a_call_of_a_tool_that_nobody_offered_tells_the_model_which_it_meant(tmp_path: Path) -> None:
    replies = SpokenReply("", (MISSPELT,)), SpokenReply("I see.")
    async with speech_world(tmp_path, *replies) as world, world.client() as client:
        await client.send("response.create")
        first, _ = await client.until("response.done", 2)
        assert outputs(world) == [("call_odd", UNKNOWN)]
        assert first["response"]["output"] == []
        assert not [received for received in client.frames if "demo__ad" in received]
        assert world.called == []


async def test_a_call_of_a_tool_that_nobody_offered_waits_for_no_client_beside_a_call_of_its_own(
    tmp_path: Path,
) -> None:
    replies = SpokenReply("", (MISSPELT, OWN)), SpokenReply("I see.")
    async with speech_world(tmp_path, *replies) as world, world.client() as client:
        await client.update(tools=[own_tool()])
        await client.until("session.updated")
        await client.send("response.create")
        (done,) = await client.until("response.done")
        assert [item["call_id"] for item in done["response"]["output"]] == ["call_own"]
        await world.session.until("conversation.item.create")
        assert outputs(world) == [("call_odd", UNKNOWN)]
        item = {"type": "function_call_output", "call_id": "call_own", "output": "ok"}
        await client.send("conversation.item.create", item=item)
        await client.send("response.create")
        await client.until("response.done", 2)
        assert sorted(outputs(world)) == [("call_odd", UNKNOWN), ("call_own", "ok")]


async def test_a_call_of_a_tool_that_is_too_slow_for_the_tier_of_the_session_is_refused(tmp_path: Path) -> None:
    replies = SpokenReply("", (SpokenCall("demo__lookup", {}, "call_never"),)), SpokenReply("No.")
    async with speech_world(tmp_path, *replies, tiers=TIERS, slow=[LOOKUP]) as world, world.client() as client:
        await world.session.until("session.update")
        assert "demo__lookup" not in world.session.tool_names
        await client.send("response.create")
        await client.until("response.done", 2)
        ((ident, text),) = outputs(world)
        assert ident == "call_never"
        assert "Unknown tool: demo__lookup" in text
        assert world.called == []


@pytest.mark.parametrize("where", ["session", "cleared", "response", "prompt"])
async def test_calls_of_tools_that_the_client_declared_reach_it(tmp_path: Path, where: str) -> None:
    async with speech_world(tmp_path, SpokenReply("", (OWN,))) as world, world.client() as client:
        if where in ("session", "cleared"):
            await client.update(tools=[own_tool()])
        if where == "cleared":
            await client.update(tools=[])
        if where == "prompt":
            await client.update(prompt={"id": "pmpt_1"})
        await settle(world, client)
        await client.send("response.create", **({"response": {"tools": [own_tool()]}} if where == "response" else {}))
        (done,) = await client.until("response.done")
        assert [item["name"] for item in done["response"]["output"]] == ["theirs"]
        assert outputs(world) == []


async def test_calls_pass_where_the_gateway_offers_no_tools(tmp_path: Path) -> None:
    query = "model=gpt-realtime&x-fairlead-tools=none"
    async with (
        speech_world(tmp_path, SpokenReply("", (MISSPELT,))) as world,
        world.client(query, ready=False) as client,
    ):
        await client.send("response.create")
        (done,) = await client.until("response.done")
        assert [item["name"] for item in done["response"]["output"]] == ["demo__ad"]


async def test_a_call_with_which_the_client_restores_a_conversation_is_shown_to_it(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        item = {"type": "function_call", "call_id": "call_old", "name": "removed", "arguments": "{}"}
        await client.send("conversation.item.create", item=item)
        (added,) = await client.until("conversation.item.added")
        assert added["item"]["name"] == "removed"
        assert world.called == []


@pytest.mark.parametrize("model", [NEW, OLD, BLOCKS])
async def test_a_live_call_of_a_tool_that_nobody_offered_tells_the_model_which_it_meant(
    tmp_path: Path, model: str
) -> None:
    replies = SpokenReply("", (MISSPELT,)), SpokenReply("I see.")
    async with live_world(tmp_path, *replies, model=model) as world, world.client() as client:
        await client.speak()
        await world.session.until("toolResponse")
        while client.transcript() != "I see. ":
            await client.turns(len(client.content("turnComplete")) + 1)
        (result,) = world.session.results()
        assert result["id"] == "call_odd"
        assert result["response"] == {"error": UNKNOWN.removeprefix("Error: ")}
        assert not [received for received in client.frames if b"demo__ad" in received]


async def test_a_live_call_of_a_function_that_the_client_declared_reaches_it(tmp_path: Path) -> None:
    reply = SpokenReply("", (MISSPELT, OWN))
    setup = {"tools": [own_function()]}
    async with live_world(tmp_path, reply) as world, world.client(setup=setup) as client:
        await client.ask("Add")
        await world.session.until("toolResponse")
        (message,) = await client.until("toolCall")
        assert [call["name"] for call in message["functionCalls"]] == ["theirs"]


async def test_a_cascaded_call_of_a_tool_that_nobody_offered_tells_the_model_which_it_meant(tmp_path: Path) -> None:
    replies = SpokenReply("", (MISSPELT,)), SpokenReply("I see.")
    async with cascade_world(tmp_path, *replies, heard=["add"]) as world, world.client() as client:
        await speak(client)
        await client.until("response.done", 2)
        told = [each["content"] for each in world.backends.requests[-1]["messages"] if each["role"] == "tool"]
        assert told == [UNKNOWN]
        assert not [received for received in client.frames if "demo__ad" in received]


async def test_a_second_response_with_the_id_of_an_earlier_call_gets_an_error_and_goes_on(tmp_path: Path) -> None:
    replies = SpokenReply("", (ADD,)), SpokenReply("", (ADD,)), SpokenReply("Five.")
    async with speech_world(tmp_path, *replies) as world, world.client() as client:
        await client.send("response.create")
        *_, last = await client.until("response.done", 3)
        assert last["response"]["output"][0]["content"][0]["transcript"] == "Five."
        (_, five), (ident, refusal) = outputs(world)
        assert (five, ident) == ("5", "call_add")
        reason = "an earlier call has its id call_add: call it again with another id"
        assert refusal == f"Error: demo__add was not run, because {reason}"
        await settle(world, client)
        assert len(world.session.of_type("response.create")) == 3
        assert len(world.called) == 1


async def test_a_second_response_with_the_id_of_a_running_call_waits_for_its_result(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def slow(_: Any) -> dict[str, Any]:
        await release.wait()
        return {"content": [{"type": "text", "text": "slow"}]}

    call = SpokenCall("demo__lookup", {}, "call_slow")
    replies = SpokenReply("", (call,)), SpokenReply("", (call,)), SpokenReply("Now.")
    async with speech_world(tmp_path, *replies, tools=[LOOKUP], answer=slow) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done")
        await client.send("response.create")
        await client.until("response.done", 2)
        release.set()
        await client.until("response.done", 3)
        await settle(world, client)
        assert outputs(world) == [("call_slow", "slow")]
        assert len(world.session.of_type("response.create")) == 3


async def test_a_live_call_with_the_id_of_an_earlier_one_gets_an_error_and_the_turn_goes_on(tmp_path: Path) -> None:
    replies = SpokenReply("", (ADD,)), SpokenReply("", (ADD,)), SpokenReply("Five.")
    async with live_world(tmp_path, *replies) as world, world.client() as client:
        await client.ask("Add")
        await client.turns(1)
        five, refusal = [result["response"] for result in world.session.results()]
        assert five == {"output": "5"}
        assert "an earlier call has its id call_add" in refusal["error"]
        assert len(world.called) == 1


async def test_a_request_that_crosses_the_gateways_own_is_answered_by_one_response(tmp_path: Path) -> None:
    begins = asyncio.Event()
    replies = SpokenReply("", (ADD,)), SpokenReply("Five.", begins=begins), SpokenReply("Again.")
    async with speech_world(tmp_path, *replies) as world, world.client() as client:
        await client.send("response.create")
        await world.session.until("response.create", 2)
        await client.send("response.create")
        await settle(world, client)
        begins.set()
        await client.until("response.done", 2)
        await settle(world, client)
        assert len(client.of_type("response.created")) == 2
        assert len(world.session.of_type("response.create")) == 2
        assert not client.of_type("error")


@pytest.mark.parametrize("adds", ["item", "response"])
async def test_a_crossing_request_with_something_new_gets_a_response_of_its_own(tmp_path: Path, adds: str) -> None:
    begins = asyncio.Event()
    replies = SpokenReply("", (ADD,)), SpokenReply("Five.", begins=begins), SpokenReply("Again.")
    async with speech_world(tmp_path, *replies) as world, world.client() as client:
        await client.send("response.create")
        await world.session.until("response.create", 2)
        if adds == "item":
            content = [{"type": "input_text", "text": "And six?"}]
            await client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await client.send("response.create", response={"metadata": {"of": "mine"}} if adds == "response" else {})
        await settle(world, client)
        begins.set()
        *_, last = await client.until("response.done", 3)
        assert last["response"]["output"][0]["content"][0]["transcript"] == "Again."
        assert (last["response"]["metadata"] == {"of": "mine"}) == (adds == "response")
        assert len(world.session.of_type("response.create")) == 3
        assert not client.of_type("error")


async def test_a_result_that_comes_during_the_response_that_the_client_requested_is_answered_after_it(
    tmp_path: Path,
) -> None:
    release, begins = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> dict[str, Any]:
        await release.wait()
        return {"content": [{"type": "text", "text": "slow"}]}

    call = SpokenCall("demo__lookup", {}, "call_slow")
    replies = SpokenReply("", (call,)), SpokenReply("Meanwhile.", begins=begins), SpokenReply("Now.")
    async with speech_world(tmp_path, *replies, tools=[LOOKUP], answer=slow) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done")
        await client.send("response.create")
        await world.session.until("response.create", 2)
        release.set()
        await settle(world, client)
        begins.set()
        *_, last = await client.until("response.done", 3)
        assert last["response"]["output"][0]["content"][0]["transcript"] == "Now."
        await settle(world, client)
        assert len(world.session.of_type("response.create")) == 3
        assert not client.of_type("error")


async def test_a_call_that_policies_hold_back_reaches_the_client_beside_one_that_nobody_offered(tmp_path: Path) -> None:
    reply = SpokenReply("", (SpokenCall("demo__fail", {}, "call_1"), MISSPELT))
    async with speech_world(tmp_path, reply, policies=[policy(auto_run="ReadOnly")]) as world, world.client() as client:
        await client.send("response.create")
        (done,) = await client.until("response.done")
        assert "demo__fail" in [item["name"] for item in done["response"]["output"]]
        assert world.called == []
