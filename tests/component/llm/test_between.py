"""Every SDK gets from providers of all other families what it gets from a provider of its own family."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_formats.messages.call import ModelCall
from fairlead_formats.neutral.conversation import CallPart, MediaPart, MessageTurn, ResultPart, TextPart
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.registry import find
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.protocol import TranslationLosses
from oddproperties import ARGUMENTS, SCHEMA, TOOL, under_other_names

for client in ("openai", "anthropic", "google.genai"):
    pytest.importorskip(client, reason="the providers' clients are not installed (fairlead[dev])")
clients = pytest.importorskip("pairclients")
FORMATS = clients.FORMATS
PAIRS = clients.PAIRS
ask = clients.ask

LENGTH = {"chat": "length", "responses": "max_output_tokens", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}
LENGTH["bedrock"] = "max_tokens"
FILTER = {"chat": "content_filter", "responses": "content_filter", "anthropic": "refusal", "gemini": "SAFETY"}
FILTER["bedrock"] = "content_filtered"
CALLS = [ScriptedCall("theirs", {"q": number}) for number in (1, 2)]


def _turn(name: str, provider: str) -> ScriptedTurn:
    """A scripted turn with the finish reasons of a provider."""
    turns: dict[str, ScriptedTurn] = {
        "text": ScriptedTurn("Hello, world."),
        "unicode": ScriptedTurn("Grüße, 世界 — \u2028 \u0085 und 🪢."),
        "one call": ScriptedTurn("", CALLS[:1]),
        "text and parallel calls": ScriptedTurn("Look.", CALLS),
        "a call without arguments": ScriptedTurn("", [ScriptedCall("theirs", "{}")]),
        "length": ScriptedTurn("Half", finish_reason=LENGTH[provider]),
        "filter": ScriptedTurn("No", finish_reason=FILTER[provider]),
        "an empty answer": ScriptedTurn(""),
    }
    return turns[name]


NAMES = [
    "text",
    "unicode",
    "one call",
    "text and parallel calls",
    "a call without arguments",
    "length",
    "filter",
    "an empty answer",
]


@pytest.mark.diagonal
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_an_answer_means_what_it_means_within_one_family(front: str, provider: str, name: str, stream: bool) -> None:
    answer, _ = ask(front, provider, _turn(name, provider), stream=stream)
    own, _ = ask(front, front, _turn(name, front), stream=stream)
    assert answer.meaning == own.meaning
    assert len(set(answer.ids)) == len(answer.ids)


def _caller_tools(front: str) -> list[Any]:
    """The caller's tool with unusual property names, in a client's format."""
    name = {"chat": "openai-chat", "responses": "openai-responses"}.get(front, front)
    made: list[Any] = list(find(name).convert([{**TOOL, "name": "theirs"}]).tools)
    return made


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("front", ["chat", "responses"])
def test_a_caller_gets_calls_of_its_tool_under_its_own_names_of_properties(front: str, stream: bool) -> None:
    odd, plain = (ScriptedCall("theirs", under_other_names(each)) for each in (ARGUMENTS, {"plain": 1}))
    turn = ScriptedTurn("", [odd, plain])
    answer, wire = ask(front, "anthropic", turn, stream=stream, tools=_caller_tools(front))
    assert [arguments for _, arguments in answer.calls] == [ARGUMENTS, {"plain": 1}]
    properties = wire.requests[0]["tools"][0]["input_schema"]["properties"]
    assert list(properties) == list(under_other_names(SCHEMA["properties"]))


def test_a_model_gets_the_calls_of_a_history_under_the_names_that_it_knows() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "theirs", "arguments": json.dumps(ARGUMENTS)}}
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "43"},
    ]
    _, wire = ask(
        "chat", "anthropic", ScriptedTurn("Fine."), stream=False, tools=_caller_tools("chat"), messages=history
    )
    assert wire.requests[0]["messages"][1]["content"][0]["input"] == under_other_names(ARGUMENTS)


THINKERS = [name for name in FORMATS if name != "chat"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("front", "provider"), [each for each in PAIRS if each[1] in THINKERS])
def test_thoughts_are_shown_in_every_family(front: str, provider: str, stream: bool) -> None:
    answer, _ = ask(front, provider, ScriptedTurn("So.", thoughts=["Hm, hm."]), stream=stream)
    assert (answer.thoughts, answer.text) == ("Hm, hm.", "So.")


def _counts(front: str, usage: Any) -> tuple[int, ...]:
    """Input tokens, cached ones among them, and output tokens, as a family's client reads them."""
    if front == "chat":
        return usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens
    if front == "responses":
        return usage.input_tokens, usage.input_tokens_details.cached_tokens, usage.output_tokens
    if front == "anthropic":
        cached = usage.cache_read_input_tokens
        written = usage.cache_creation_input_tokens or 0
        return usage.input_tokens + cached + written, cached, usage.output_tokens
    return usage.prompt_token_count, usage.cached_content_token_count, usage.candidates_token_count


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_usage_is_counted_as_the_clients_family_counts(front: str, provider: str, stream: bool) -> None:
    answer, _ = ask(front, provider, ScriptedTurn("Hello"), stream=stream)
    total = 145 if provider in ("anthropic", "bedrock") else 100
    output = 10 - (5 if front == "gemini" and provider == "responses" else 0)  # Gemini counts thoughts separately
    assert _counts(front, answer.usage) == (total, 40, output)


HEAD = '{"id":"c","object":"chat.completion.chunk","created":1,"model":"scripted","choices":[{"index":0,"delta":'
REFUSED = ScriptedTurn(
    events=[
        HEAD + '{"role":"assistant","content":null,"refusal":""},"finish_reason":null}]}',
        HEAD + '{"refusal":"I cannot."},"finish_reason":null}]}',
        HEAD + '{},"finish_reason":"stop"}]}',
        "[DONE]",
    ]
)


@pytest.mark.parametrize(
    ("front", "refusal", "text", "stop"),
    [
        ("responses", "I cannot.", "", ("completed", None)),
        ("anthropic", "", "I cannot.", "refusal"),
        ("gemini", "", "I cannot.", "SAFETY"),
    ],
)
def test_a_refusal_of_chat_is_one_in_every_family(front: str, refusal: str, text: str, stop: Any) -> None:
    answer, _ = ask(front, "chat", REFUSED, stream=True)
    assert (answer.refusal, answer.text, answer.stop) == (refusal, text, stop)


@pytest.mark.parametrize(
    ("front", "stop"),
    [("chat", "content_filter"), ("responses", ("incomplete", "content_filter")), ("anthropic", "refusal")],
)
def test_a_prompt_that_gemini_blocks_is_filtered(front: str, stop: Any) -> None:
    blocked = '{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3}}'
    answer, _ = ask(front, "gemini", ScriptedTurn(events=[blocked]), stream=True)
    assert (answer.text, answer.stop) == ("", stop)


@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_signs_of_life_may_stand_anywhere_in_a_stream(front: str, provider: str) -> None:
    turn = ScriptedTurn("Look.", CALLS, thoughts=["Hm."] if provider != "chat" else [])
    answer, _ = ask(front, provider, turn, stream=True, alive=True)
    assert (answer.text, answer.calls) == ("Look.", [("theirs", {"q": 1}), ("theirs", {"q": 2})])


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RESULT = {"content": [{"type": "text", "text": "found"}], "isError": False}
TURNS = (
    MessageTurn("user", (TextPart("What is this?"), MediaPart("image", "image/png", data=PNG))),
    MessageTurn(
        "assistant", (TextPart("I look."), *(CallPart(ModelCall(f"call_{n}", "theirs", {"q": n})) for n in (1, 2)))
    ),
    MessageTurn("user", tuple(ResultPart(f"call_{n}", "theirs", RESULT) for n in (1, 2))),
    MessageTurn("assistant", (TextPart("A dot."),)),
    MessageTurn("user", (TextPart("And now?"),)),
)
NAMES_OF = {name: wire.name for name, wire in FORMATS.items()}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_a_conversation_with_images_and_calls_reaches_the_model_whole(front: str, provider: str, stream: bool) -> None:
    family = FAMILIES[NAMES_OF[front]]
    spoken = FAMILIES[NAMES_OF[provider]]
    messages = {family.messages_member: family.messages.write_messages(TURNS, TranslationLosses()).messages}
    answer, wire = ask(front, provider, ScriptedTurn("Still a dot."), stream=stream, **messages)
    assert answer.text == "Still a dot."
    assert spoken.messages.read_messages(wire.requests[0][spoken.messages_member], TranslationLosses()) == TURNS
    assert not wire.losses


@pytest.mark.parametrize(("front", "provider"), PAIRS)
def test_text_and_arguments_flow_as_they_come(front: str, provider: str) -> None:
    api = clients.APIS[provider]()
    wire = clients.wire_format(front, provider)
    family = FAMILIES[NAMES_OF[front]]
    body: dict[str, Any] = {"model": "m", "stream": True, "max_tokens": 9} if front != "gemini" else {}
    if front == "anthropic":  # without this member, arguments arrive in one piece after they are known to be JSON
        body["tools"] = [{"name": "theirs", "input_schema": {"type": "object"}, "eager_input_streaming": True}]
    body |= {family.messages_member: family.messages.write_messages(TURNS[-1:], TranslationLosses()).messages}
    read = wire.read(json.dumps(body).encode(), "m", True)
    stream = wire.stream(read, ("theirs",))
    turn = ScriptedTurn("Some words to say.", [ScriptedCall("theirs", {"query": "a longer text"})])
    pieces = [stream.feed(event.encode()) for event in api.events(turn, 1, {"model": "m"})]
    words = [b"Some ", b"words", b" to s"]
    if "gemini" not in (front, provider):  # Gemini's calls arrive in one piece
        words += [b"a lo", b"nger "]
    places = [next(index for index, piece in enumerate(pieces) if word in piece) for word in words]
    assert places == sorted(set(places))
