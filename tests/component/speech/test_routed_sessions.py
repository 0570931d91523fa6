"""In a routed session, the speech model and the engine share configuration and conversation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cascadeworld import RoutedWorld, routed_world
from fairlead_speech.scripted import SpokenCall, SpokenReply
from routedturns import DEEP, ask, spoken_sentences, transcripts
from speechworld import own_tool
from waiting import eventually


def systems(world: RoutedWorld) -> list[str]:
    """The instructions that the engine's model received."""
    return [each["messages"][0]["content"] for each in world.backends.requests]


def functions(world: RoutedWorld) -> set[str]:
    """The tools that the engine's model received last."""
    return {each["function"]["name"] for each in world.backends.requests[-1]["tools"]}


async def test_the_engine_has_only_what_the_provider_took(tmp_path: Path) -> None:
    replies = [SpokenReply("Long ago.")] * 2
    async with routed_world(tmp_path, *replies, **DEEP) as world, world.client() as client:
        await client.update(instructions="Be rude.", tools=[{**own_tool(), "strict": True}])
        await client.update(instructions="Be kind.")
        await ask(client, "tell me the legend")
        await client.until("response.done")
        await client.update(instructions="Be vile.", tools=[{**own_tool(), "strict": True}])
        await client.until("error", 2)
        await ask(client, "tell me the legend")
        await client.until("response.done", 2)
        assert (systems(world), "theirs" in functions(world)) == (["Be kind."] * 2, False)


async def test_tools_that_the_provider_calls_itself_are_not_the_engines(tmp_path: Path) -> None:
    theirs = [{"type": "mcp", "server_label": "theirs", "server_url": "https://mcp.example"}, own_tool()]
    async with (
        routed_world(tmp_path, SpokenReply("Long ago."), speech_provider_mcp=True, **DEEP) as world,
        world.client() as client,
    ):
        await client.update(instructions="Be kind.", tools=theirs)
        await client.until("session.updated")
        await ask(client, "tell me the legend")
        await client.until("response.done")
        assert (systems(world), "theirs" in functions(world)) == (["Be kind."], True)


async def test_tools_that_are_refused_here_are_not_the_engines_either(tmp_path: Path) -> None:
    theirs = [{"type": "mcp", "server_label": "theirs", "server_url": "https://mcp.example"}]
    async with routed_world(tmp_path, SpokenReply("Long ago."), **DEEP) as world, world.client() as client:
        await client.update(instructions="Be kind.")
        await client.update(instructions="Be rude.", tools=theirs)
        await ask(client, "tell me the legend")
        await client.until("response.done")
        assert systems(world) == ["Be kind."]


@pytest.mark.parametrize("refused", ["turn_detection", "transcription"])
async def test_where_the_provider_refuses_what_routing_needs_each_turn_is_answered_once(
    tmp_path: Path, refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    spoken = [SpokenReply(f"Answer {number}.") for number in range(2)]
    async with routed_world(tmp_path, spoken=spoken, refuses=[refused], **DEEP) as world, world.client() as client:
        heard = world.session.config["audio"]["input"]
        await eventually(lambda: len(world.session.of_type("session.update")) >= 4)
        await client.update(instructions="Be kind.")
        (updated,) = await client.until("session.updated")
        assert (heard["turn_detection"]["create_response"], heard["transcription"]) == (True, None)
        assert updated["session"]["audio"]["input"] == heard
        for number in range(2):
            await client.speak()
            await client.until("response.done", number + 1)
        assert transcripts(client) == ["Answer 0.", "Answer 1."]
        assert world.session.of_type("response.create") == []
        assert f"refused audio.input.{refused}" in caplog.text


async def test_items_that_a_client_deletes_are_deleted_on_both_sides(tmp_path: Path) -> None:
    replies = SpokenReply("Long ago."), SpokenReply("It is lost.")
    spoken = [SpokenReply("Hello.")]
    heard = ["hello", "tell me the legend", "the legend of the crown"]
    async with routed_world(tmp_path, *replies, spoken=spoken, heard=heard, **DEEP) as world, world.client() as client:
        for number in range(2):
            await client.speak()
            await client.until("response.done", number + 1)
        (copy,) = await world.session.until("conversation.item.create")
        await ask(client, "Never mind the legend", conversation="none")
        await client.until("response.done", 3)
        theirs = {each["item"]["id"]: None for each in client.of_type("conversation.item.added")}
        for item in theirs:
            await client.send("conversation.item.delete", item_id=item)
        await client.until("conversation.item.deleted", len(theirs))
        deleted = [each["item_id"] for each in world.session.of_type("conversation.item.delete")]
        (engines,) = set(theirs) - set(deleted)
        assert set(deleted) == {*theirs, copy["item"]["id"]} - {engines}
        await client.speak()
        await client.until("response.done", 4)
        told_last = [(each["role"], each["content"]) for each in world.backends.requests[-1]["messages"]]
        assert told_last == [("user", "the legend of the crown")]


async def test_an_item_behind_one_of_the_engine_stands_behind_its_copy(tmp_path: Path) -> None:
    async with routed_world(tmp_path, SpokenReply("Long ago."), **DEEP) as world, world.client() as client:
        await ask(client, "tell me the legend")
        (done,) = await client.until("response.done")
        _, copy = await world.session.until("conversation.item.create", 2)
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Why?"}]}
        before = done["response"]["output"][0]["id"]
        await client.send("conversation.item.create", previous_item_id=before, item=item)
        (*_, sent) = await world.session.until("conversation.item.create", 3)
        assert sent["previous_item_id"] == copy["item"]["id"]


async def test_results_of_the_engines_calls_never_go_to_the_model(tmp_path: Path) -> None:
    theirs = SpokenReply("", (SpokenCall("theirs", {}, "call_theirs"),))
    async with routed_world(tmp_path, theirs, **DEEP) as world, world.client() as client:
        await client.update(tools=[own_tool()])
        await ask(client, "tell me the legend")
        (done,) = await client.until("response.done")
        await client.send("response.cancel")
        await eventually(lambda: not world.answerer.active)
        output = {"type": "function_call_output", "call_id": "call_theirs", "output": "ok"}
        await client.send("conversation.item.create", item=output)
        await client.until("conversation.item.done", 3)
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Why?"}]}
        before = done["response"]["output"][0]["id"]
        await client.send("conversation.item.create", previous_item_id=before, item=item)
        first, second = await world.session.until("conversation.item.create", 2)
        assert [each["item"]["type"] for each in (first, second)] == ["message", "message"]
        assert "previous_item_id" not in second, "the provider has no copy of a call"
        assert client.of_type("error") == []


async def test_a_request_for_a_turn_that_is_about_to_be_answered_makes_no_second_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hearing = asyncio.Event()
    go_on = asyncio.Event()
    spoken = [SpokenReply("Hello.")]
    async with routed_world(tmp_path, spoken=spoken, heard=["hello"], **DEEP) as world, world.client() as client:

        async def hear_late() -> None:
            hearing.set()
            await go_on.wait()

        monkeypatch.setattr(world.routed_session._session, "wait_for_texts", hear_late)
        await client.speak()
        await hearing.wait()
        await client.send("response.create", response={"metadata": {"turn": "1"}})
        await eventually(lambda: bool(world.routed_session._pending_request))
        go_on.set()
        (done,) = await client.until("response.done")
        assert done["response"]["metadata"] == {"turn": "1"}
        assert len(world.session.of_type("response.create")) == 1


async def test_items_added_while_the_engine_speaks_are_not_copied_as_its_answer(tmp_path: Path) -> None:
    held = SpokenReply("It is a very long story.", held=asyncio.Event())
    async with routed_world(tmp_path, held, **DEEP) as world, world.client() as client:
        await ask(client, "tell me the legend")
        await client.until("response.output_audio.delta")
        content = [{"type": "output_text", "text": "By the way."}]
        await client.send("conversation.item.create", item={"type": "message", "role": "assistant", "content": content})
        await world.session.until("conversation.item.create", 2)
        assert held.held is not None
        held.held.set()
        await client.until("response.done")
        await world.session.until("conversation.item.create", 3)
        assert spoken_sentences(world) == ["By the way.", "It is a very long story."]


async def test_a_cancel_of_another_response_leaves_the_engine_speaking(tmp_path: Path) -> None:
    held = SpokenReply("It is a very long story.", held=asyncio.Event())
    async with routed_world(tmp_path, held, **DEEP) as world, world.client() as client:
        await ask(client, "tell me the legend")
        await client.until("response.output_audio.delta")
        await client.send("response.cancel", response_id="resp_other")
        (error,) = await client.until("error")
        assert error["error"]["code"] == "response_cancel_not_active"
        assert world.answerer.active
        (created,) = client.of_type("response.created")
        await client.send("response.cancel", response_id=created["response"]["id"])
        (done,) = await client.until("response.done")
        assert done["response"]["status_details"]["reason"] == "client_cancelled"
