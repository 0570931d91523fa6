"""If a provider answers a request for a stream with a JSON document, the client still gets a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairlead_formats.neutral.conversation import MessageTurn, TextPart
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.providers.gemini.fake import GeminiApi
from fairlead_formats.providers.openai_chat.fake import ChatApi
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from familytalks import PROVIDERS, parse_answer, post_request
from gatewayworld import Answer
from geminiworld import gemini_world
from llmworld import chunks, llm_world

pytest.importorskip("pairclients")
from pairclients import FORMATS, FRONTS, ask

HI = MessageTurn("user", (TextPart("Hi"),))
CLIENT_CALLS = [ScriptedCall("theirs", {"q": number}) for number in (1, 2)]
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
LENGTH = {
    "chat": "length",
    "responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "gemini": "MAX_TOKENS",
    "bedrock": "max_tokens",
}
ANSWERS = {
    "text": ScriptedTurn("Grüße, 世界 — \u2028 und 🪢."),
    "text and parallel calls": ScriptedTurn("Look.", CLIENT_CALLS),
    "a call without arguments": ScriptedTurn("", [ScriptedCall("theirs", "{}")]),
    "thoughts": ScriptedTurn("So.", CLIENT_CALLS[:1], thoughts=["Hm.", "Oh."]),
    "an empty answer": ScriptedTurn(""),
    "length": ScriptedTurn("Half"),
}


def as_document(turn: ScriptedTurn, **members: Any) -> ScriptedTurn:
    return msgspec.structs.replace(turn, ignores_stream=True, **members)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("provider", FORMATS)
@pytest.mark.parametrize("front", FRONTS)
def test_a_streaming_client_gets_the_same_from_a_document_as_from_a_stream(
    front: str, provider: str, name: str
) -> None:
    turn = ANSWERS[name]
    if name == "length":
        turn = msgspec.structs.replace(turn, finish_reason=LENGTH[provider])
    streamed, _ = ask(front, provider, turn, stream=True)
    from_document, _ = ask(front, provider, as_document(turn), stream=True)
    assert from_document.meaning == streamed.meaning
    assert from_document.thoughts == streamed.thoughts
    assert from_document.ids == streamed.ids
    assert from_document.usage == streamed.usage


@pytest.mark.parametrize("front", FAMILIES)
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_hidden_calls_of_a_document_are_run_and_the_next_round_is_relayed(
    tmp_path: Path, front: str, provider: str
) -> None:
    rounds = [ScriptedTurn("Let me see.", [ADD]), ScriptedTurn("It is 42.", CLIENT_CALLS[:1])]
    async with llm_world(tmp_path, *map(as_document, rounds), provider=PROVIDERS[provider]) as world:
        answer = await post_request(world, front, HI, stream=True)
    text, calls, own = parse_answer(answer, front, stream=True)
    assert text.replace("\n\n", "") == "Let me see.It is 42."
    assert [call.name for call in calls] == ["theirs"]
    assert len(world.called) == len(own["calls"]) == 1
    assert own["rounds"] == 2


async def test_a_stream_may_follow_a_document_and_a_document_a_stream(tmp_path: Path) -> None:
    rounds = [
        as_document(ScriptedTurn("One.", [ADD])),
        ScriptedTurn("Two.", [ADD]),
        as_document(ScriptedTurn("Three.")),
    ]
    async with llm_world(tmp_path, *rounds) as world:
        answer = await world.chat("Add", stream=True, stream_options={"include_usage": True})
    sent = chunks(answer)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in sent[:-2]) == "One.\n\nTwo.\n\nThree."
    assert sent[-2]["usage"]["prompt_tokens"] == 300
    assert sent[-1] == "[DONE]"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
async def test_a_stream_under_another_content_type_is_read_as_a_stream(tmp_path: Path, kind: str) -> None:
    body = "".join(f"data: {data}\n\n" for data in ChatApi().events(ScriptedTurn("Hello."), 1, {}))
    turn = ScriptedTurn(ignores_stream=True, whole=body, headers={"content-type": kind})
    async with llm_world(tmp_path, turn) as world:
        sent = chunks(await world.chat("Hi", stream=True))
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in sent[:-1]) == "Hello."


async def test_an_array_of_gemini_is_taken_in_place_of_events(tmp_path: Path) -> None:
    pieces = GeminiApi().events(ScriptedTurn("It is forty-two.", CLIENT_CALLS[:1]), 1, {})
    array = ScriptedTurn(ignores_stream=True, whole=f"[{','.join(pieces)}]")
    async with gemini_world(tmp_path, array) as world:
        answer = await post_request(world, "gemini", HI, stream=True)
    text, calls, _ = parse_answer(answer, "gemini", stream=True)
    assert (text, [call.name for call in calls]) == ("It is forty-two.", ["theirs"])
    assert answer.headers["content-type"].startswith("text/event-stream")


def _error_of(answer: Answer) -> tuple[int, str]:
    error = answer.message["error"]
    return answer.status, error["message"]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ('{"error": {"message": "gone"}}', "is not a chat completion"),
        ('{"choices": []}', "has no choices"),
        ('"text"', "is not a chat completion"),
        ("[1, 2]", "is not a chat completion"),
        ('{"choices": ' + "[" * 1200 + "]" * 1200 + "}", "is not a chat completion"),
        ('{"choices": [' + "{}," * 400_000 + "{}]}", "answer holds"),
    ],
)
async def test_json_of_another_form_is_refused_before_the_stream_begins(
    tmp_path: Path, document: str, why: str
) -> None:
    async with llm_world(tmp_path, ScriptedTurn(ignores_stream=True, whole=document)) as world:
        status, message = _error_of(await world.chat("Hi", stream=True))
    assert status == 502
    assert message.startswith("script0: ")
    assert why in message


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_json_of_another_form_ends_a_later_round_with_an_error(tmp_path: Path, provider: str) -> None:
    rounds = [ScriptedTurn("", [ADD]), ScriptedTurn(ignores_stream=True, whole='{"hello": 1}')]
    async with llm_world(tmp_path, *rounds, provider=PROVIDERS[provider]) as world:
        answer = await post_request(world, "openai-chat", HI, stream=True)
    assert len(world.called) == 1
    error = chunks(answer)[-1]["error"]
    assert "the provider's" in error["message"]
    assert json.dumps(error).count("script0") == 1


async def test_a_page_in_place_of_a_stream_names_its_type_and_what_to_check(tmp_path: Path) -> None:
    page = ScriptedTurn(ignores_stream=True, whole="<html>", headers={"content-type": "text/html"})
    async with llm_world(tmp_path, page) as world:
        status, message = _error_of(await world.chat("Hi", stream=True))
    assert (status, message) == (
        502,
        "script0: the provider answered a request for a stream with 'text/html': check the provider's `baseUrl`",
    )
