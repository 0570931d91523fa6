"""The pages life-of-a-chat-request.md, life-of-a-search.md and life-of-a-speech-session.md of docs/how-it-works: their
links name existing code, and real requests take their steps in order.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_gateway.endpoint.reader import RequestReader
from fairlead_speech.scripted import SpokenCall, SpokenReply
from lifepages import LifePage, assert_taken_in_order, links_in, steps, trace_calls
from llmworld import ANTHROPIC, llm_world
from restworld import get
from speechworld import speech_world

CHAT = LifePage("life-of-a-chat-request")
SEARCH = LifePage("life-of-a-search")
SPEECH = LifePage("life-of-a-speech-session")
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
TURNS = (ScriptedTurn("Let me see.", [ADD]), ScriptedTurn("It is 42."))

interpreted = pytest.mark.skipif(
    not hasattr(RequestReader.feed, "__code__"), reason="compiled functions cannot be traced"
)


@pytest.mark.parametrize(("page", "least"), [(CHAT, 30), (SEARCH, 12), (SPEECH, 20)], ids=["chat", "search", "speech"])
def test_each_name_of_a_page_is_defined_in_the_file_that_it_links_to(page: LifePage, least: int) -> None:
    assert len(links_in(page.text)) > least
    page.assert_names_are_where_they_lead()


@interpreted
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_chat_request_takes_the_steps_in_the_order_of_the_page(tmp_path: Path, stream: bool) -> None:
    seen: list[str] = []
    async with llm_world(tmp_path, *TURNS, *TURNS) as world:
        await world.chat("What is 2 + 40?")  # loads the modules that are imported at the first request
        with trace_calls(seen):
            assert (await world.chat("What is 2 + 40?", stream=stream)).status == 200
    assert_taken_in_order(steps(CHAT.part("A stream" if stream else "One request, stop by stop")), seen)


@interpreted
async def test_a_request_to_a_model_of_another_family_takes_the_steps_of_the_page(tmp_path: Path) -> None:
    seen: list[str] = []
    async with llm_world(tmp_path, *TURNS, *TURNS, provider=ANTHROPIC) as world:
        await world.chat("What is 2 + 40?", max_tokens=50)
        with trace_calls(seen):
            assert (await world.chat("What is 2 + 40?", max_tokens=50)).status == 200
    assert_taken_in_order(steps(CHAT.part("A model of another family")), seen)


@interpreted
async def test_a_search_takes_the_steps_in_the_order_of_the_page(tmp_path: Path) -> None:
    seen: list[str] = []
    async with llm_world(tmp_path) as world:
        await get(world.gateway, "/v1/search?query=add")
        with trace_calls(seen):
            assert (await get(world.gateway, "/v1/search?query=add")).status == 200
    assert_taken_in_order(steps(SEARCH.part("One search, stop by stop")), seen)


@interpreted
async def test_a_speech_session_takes_the_steps_in_the_order_of_the_page(tmp_path: Path) -> None:
    seen: list[str] = []
    replies = (
        SpokenReply("One moment.", (SpokenCall("demo__add", {"a": 2, "b": 40}, "call_add"),)),
        SpokenReply("It is 42."),
    )
    async with speech_world(tmp_path, *replies) as world:
        with trace_calls(seen):
            async with world.client() as client:
                await client.update(instructions="Be brief.")
                await client.speak()
                await client.until("response.done", 2)
    assert_taken_in_order(steps(SPEECH.part("One session, stop by stop")), seen)
