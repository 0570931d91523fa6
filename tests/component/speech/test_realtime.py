"""OpenAI Realtime through the gateway: the client's events, the gateway's tools, and who requests responses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from fairlead_speech.scripted import SpokenCall, SpokenReply
from llmworld import policy
from speechworld import SILENCE, SPEECH, own_tool, speech_world

ADD = SpokenCall("demo__add", {"a": 2, "b": 3}, "call_add")


def names(event: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in event["session"]["tools"]]


async def test_a_spoken_call_is_run_and_its_result_is_spoken(tmp_path: Path) -> None:
    async with (
        speech_world(tmp_path, SpokenReply("One moment.", (ADD,)), SpokenReply("It is five.")) as world,
        world.client() as client,
    ):
        await client.speak()
        first, second = await client.until("response.done", 2)
        assert [call["arguments"] for call in world.called] == [{"a": 2, "b": 3}]
        outputs = world.session.of_type("conversation.item.create")
        assert [(each["item"]["call_id"], each["item"]["output"]) for each in outputs] == [("call_add", "5")]
        assert len(world.session.of_type("response.create")) == 1, "the first response was asked for by the speech"
        assert [item["type"] for item in first["response"]["output"]] == ["message"], "without the call"
        assert second["response"]["output"][0]["content"][0]["transcript"] == "It is five."
        assert not [message for message in client.frames if "call_add" in message or "function_call" in message]


async def test_the_client_gets_only_its_own_tools(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        await client.update(tools=[own_tool()], instructions="Be brief.")
        (updated,) = await client.until("session.updated")
        assert names(updated) == ["theirs"]
        assert world.session.tool_names == ["theirs", "demo__add", "demo__fail"]
        assert updated["session"]["instructions"] == "Be brief."
        await client.update(tools=[])
        _, cleared = await client.until("session.updated", 2)
        assert names(cleared) == []
        assert world.session.tool_names == ["demo__add", "demo__fail"], "clearing its own clears no others"


async def test_a_tool_of_the_client_hides_the_gateways_of_that_name(tmp_path: Path) -> None:
    call = SpokenCall("demo__add", {"a": 1}, "call_own")
    async with speech_world(tmp_path, SpokenReply("", (call,))) as world, world.client() as client:
        await client.update(tools=[own_tool("demo__add")])
        await client.until("session.updated")
        assert world.session.tool_names == ["demo__add", "demo__fail"]
        await client.send("response.create")
        (done,) = await client.until("response.done")
        assert done["response"]["output"][0]["call_id"] == "call_own"
        assert world.called == []


async def test_the_clients_own_call_reaches_it_beside_the_gateways(tmp_path: Path) -> None:
    both = SpokenReply("", (ADD, SpokenCall("theirs", {}, "call_theirs")))
    async with speech_world(tmp_path, both, SpokenReply("Done.")) as world, world.client() as client:
        await client.update(tools=[own_tool()])
        await client.until("session.updated")
        await client.send("response.create")
        (done,) = await client.until("response.done")
        assert [item["call_id"] for item in done["response"]["output"]] == ["call_theirs"]
        await world.session.until("conversation.item.create")
        item = {"type": "function_call_output", "call_id": "call_theirs", "output": "ok"}
        await client.send("conversation.item.create", item=item)
        await client.send("response.create")
        await client.until("response.done", 2)
        assert len(world.session.of_type("response.create")) == 2, "both are the client's"


async def test_parallel_calls_are_answered_by_one_response(tmp_path: Path) -> None:
    calls = tuple(SpokenCall("demo__add", {"a": number, "b": 1}, f"call_{number}") for number in range(3))
    async with speech_world(tmp_path, SpokenReply("", calls), SpokenReply("All.")) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done", 2)
        outputs = {
            each["item"]["call_id"]: each["item"]["output"]
            for each in world.session.of_type("conversation.item.create")
        }
        assert outputs == {"call_0": "1", "call_1": "2", "call_2": "3"}
        assert len(world.session.of_type("response.create")) == 2
        assert world.session.calls == set()


async def test_a_second_call_of_an_id_is_not_run(tmp_path: Path) -> None:
    twice = SpokenReply("", (ADD, ADD))
    async with speech_world(tmp_path, twice, SpokenReply("Five.")) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done", 2)
        assert len(world.called) == 1


async def test_errors_and_unknown_tools_are_results(tmp_path: Path) -> None:
    calls = (SpokenCall("demo__fail", {}, "call_1"), SpokenCall("demo__add", {"a": "x"}, "call_2"))
    async with speech_world(tmp_path, SpokenReply("", calls), SpokenReply("Sorry.")) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done", 2)
        outputs = [each["item"]["output"] for each in world.session.of_type("conversation.item.create")]
        assert any("it failed" in output for output in outputs)
        assert len(outputs) == 2


async def test_audio_passes_byte_for_byte_both_ways(tmp_path: Path) -> None:
    message = '{"audio" : "' + SPEECH + '","type":"input_audio_buffer.append"}'  # an unusual order of members
    async with speech_world(tmp_path, SpokenReply("one two three")) as world, world.client() as client:
        await client.update(audio={"input": {"turn_detection": None}})
        await client.until("session.updated")
        await client.socket.send_str(message)
        await client.send("input_audio_buffer.append", audio=SILENCE)
        await client.send("response.create")
        await client.until("response.done")
        assert [each["audio"] for each in world.session.of_type("input_audio_buffer.append")] == [SPEECH, SILENCE]
        deltas = [each for each in client.frames if '"response.output_audio.delta"' in each]
        assert len(deltas) == 3
        assert all(each.startswith('{"type":"response.output_audio.delta"') for each in deltas)


async def test_the_clients_own_request_for_a_response_wins(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def slow(_: Any) -> dict[str, Any]:
        await release.wait()
        return {"content": [{"type": "text", "text": "slow"}]}

    tool = {"name": "slow", "description": "Slow", "inputSchema": {"type": "object"}}
    replies = (
        SpokenReply("", (SpokenCall("demo__slow", {}, "call_slow"),)),
        SpokenReply("Meanwhile."),
        SpokenReply("Now."),
    )
    async with speech_world(tmp_path, *replies, tools=[tool], answer=slow) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done")
        await client.send("response.create")
        await client.until("response.done", 2)
        assert not world.session.of_type("conversation.item.create")
        release.set()
        *_, last = await client.until("response.done", 3)
        assert last["response"]["output"][0]["content"][0]["transcript"] == "Now."
        assert not client.of_type("error")


async def test_an_interruption_cancels_calls_that_only_read(tmp_path: Path) -> None:
    begun = asyncio.Event()
    release = asyncio.Event()

    async def slow(params: Any) -> dict[str, Any]:
        if params["name"] == "look":
            begun.set()
            await asyncio.Event().wait()
        await release.wait()
        return {"content": [{"type": "text", "text": "written"}]}

    look = {
        "name": "look",
        "description": "Look",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }
    write = {"name": "write", "description": "Write", "inputSchema": {"type": "object"}}
    calls = SpokenCall("demo__look", {}, "call_look"), SpokenCall("demo__write", {}, "call_write")
    replies = SpokenReply("", calls), SpokenReply("Yes?"), SpokenReply("It is written.")
    async with speech_world(tmp_path, *replies, tools=[look, write], answer=slow) as world, world.client() as client:
        await client.speak()
        await client.until("response.done")
        await begun.wait()
        await client.send("input_audio_buffer.append", audio=SPEECH)
        (first,) = await world.session.until("conversation.item.create")
        assert first["item"]["call_id"] == "call_look"
        assert "interrupted" in first["item"]["output"]
        assert not world.session.of_type("response.create"), "nobody talks into the speech of the user"
        await client.send("input_audio_buffer.append", audio=SILENCE)
        await client.until("response.done", 2)
        release.set()
        await client.until("response.done", 3)
        written = world.session.of_type("conversation.item.create")[-1]["item"]
        assert (written["call_id"], written["output"]) == ("call_write", "written")


async def test_an_interrupted_response_runs_no_call_that_is_not_whole(tmp_path: Path) -> None:
    held = asyncio.Event()
    replies = SpokenReply("Well, let me see", (ADD,), held), SpokenReply("Yes?")
    async with speech_world(tmp_path, *replies) as world, world.client() as client:
        await client.speak()
        await client.until("response.output_audio.delta")
        await client.speak()
        first, _ = await client.until("response.done", 2)
        assert first["response"]["status"] == "cancelled"
        assert world.called == []


async def test_results_that_cannot_be_spoken_go_to_the_client_as_an_event(tmp_path: Path) -> None:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}

    async def draw(_: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": "a dragon"}, image]}

    tool = {"name": "draw", "description": "Draw", "inputSchema": {"type": "object"}}
    replies = SpokenReply("", (SpokenCall("demo__draw", {}, "call_draw"),)), SpokenReply("Look.")
    async with speech_world(tmp_path, *replies, tools=[tool], answer=draw) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done", 2)
        (shown,) = client.of_type("fairlead.tool_result")
        assert (shown["call_id"], shown["name"], shown["content"]) == ("call_draw", "demo__draw", [image])
        (output,) = world.session.of_type("conversation.item.create")
        assert output["item"]["output"].startswith("a dragon")
        assert image["data"] not in json.dumps(output)


async def test_tools_that_the_provider_would_call_itself_are_refused(tmp_path: Path) -> None:
    mcp = {"type": "mcp", "server_label": "x", "server_url": "https://x.example/mcp"}
    async with speech_world(tmp_path) as world, world.client() as client:
        await client.send("session.update", event_id="mine", session={"type": "realtime", "tools": [mcp]})
        await client.send("response.create", response={"tools": [mcp]})
        first, second = await client.until("error", 2)
        assert (first["error"]["code"], first["error"]["event_id"]) == ("mcp_tools_refused", "mine")
        assert second["error"]["param"] == "response.tools"
        assert "mcp" not in world.session.tool_names
        assert not world.session.of_type("response.create")
    other = tmp_path / "other"
    other.mkdir()
    async with speech_world(other, speech_provider_mcp=True) as world, world.client() as client:
        await client.update(tools=[mcp])
        (updated,) = await client.until("session.updated")
        assert updated["session"]["tools"] == [mcp]


async def test_a_refused_update_leaves_the_tools_as_they_were(tmp_path: Path) -> None:
    async with speech_world(tmp_path) as world, world.client() as client:
        await client.update(tools=[own_tool()])
        await client.until("session.updated")
        await client.update(tools=[{**own_tool("bad"), "strict": True}])
        (refused,) = await client.until("error")
        assert refused["error"]["event_id"] is None, "the client gave the update no id"
        await client.update(instructions="Go on.")
        _, updated = await client.until("session.updated", 2)
        assert names(updated) == ["theirs"]
        assert world.session.tool_names == ["theirs", "demo__add", "demo__fail"]


async def test_items_behind_hidden_ones_name_the_last_item_that_is_seen(tmp_path: Path) -> None:
    replies = SpokenReply("One moment.", (ADD,)), SpokenReply("Five.")
    async with speech_world(tmp_path, *replies) as world, world.client() as client:
        await client.send("response.create")
        await client.until("response.done", 2)
        first, second = client.of_type("conversation.item.added")
        assert second["previous_item_id"] == first["item"]["id"]
        assert world.session.last_item == second["item"]["id"]


async def test_a_call_that_policies_hold_back_reaches_the_client(tmp_path: Path) -> None:
    reply = SpokenReply("", (SpokenCall("demo__fail", {}, "call_1"),))
    async with speech_world(tmp_path, reply, policies=[policy(auto_run="ReadOnly")]) as world, world.client() as client:
        await client.send("response.create")
        (done,) = await client.until("response.done")
        assert [item["name"] for item in done["response"]["output"]] == ["demo__fail"]
        assert world.called == []


async def test_a_refused_request_for_a_response_delays_nothing(tmp_path: Path) -> None:
    held = asyncio.Event()
    replies = SpokenReply("Let me see", (ADD,), held), SpokenReply("Five.")
    async with speech_world(tmp_path, *replies) as world, world.client() as client:
        await client.send("response.create", event_id="mine")
        await client.until("response.output_audio.delta")
        await client.send("response.create")
        (refused,) = await client.until("error")
        assert refused["error"]["code"] == "conversation_already_has_active_response"
        assert refused["error"]["event_id"] is None, "the client gave it no id"
        held.set()
        *_, last = await client.until("response.done", 2)
        assert last["response"]["output"][0]["content"][0]["transcript"] == "Five."
