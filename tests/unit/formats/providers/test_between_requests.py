"""Requests converted from one family's format to another's, and back."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats.messages.call import ModelCall
from fairlead_formats.neutral.conversation import (
    CallPart,
    MediaPart,
    MessageTurn,
    NeutralRequest,
    OutputSchema,
    ResultPart,
    SamplingSettings,
    TextPart,
    ToolChoice,
)
from fairlead_formats.neutral.tools import translate_choice
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.pairs.tools_for import translate_tools
from fairlead_formats.providers.bedrock.tools import BEDROCK
from fairlead_formats.wire.protocol import MAX_CODE, MAX_CODES, BadRequest, TranslationLosses

PAIRS = [(first, other) for first in FAMILIES for other in FAMILIES if first != other]
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Finds",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    },
}

words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
images = st.just(MediaPart("image", "image/png", data=PNG))
pdfs = st.just(MediaPart("document", "application/pdf", data="JVBERi0=", name="a.pdf"))


def _with_unique_name(part: TextPart | MediaPart, number: int) -> TextPart | MediaPart:
    """The part; a document gets a unique name, because Bedrock requires one."""
    if isinstance(part, TextPart) or part.what != "document":
        return part
    return msgspec.structs.replace(part, name=f"file {number}.pdf")


@st.composite
def conversations(draw: st.DrawFn) -> NeutralRequest:
    """Requests that every family can represent: texts of user and model, calls, and their results."""
    turns: list[MessageTurn] = []
    numbers = itertools.count()
    for _ in range(draw(st.integers(1, 4))):
        parts = draw(st.lists(words.map(TextPart) | images | pdfs, min_size=1, max_size=3))
        turns.append(MessageTurn("user", tuple(_with_unique_name(part, next(numbers)) for part in parts)))
        for _ in range(draw(st.integers(0, 2))):
            calls = [
                ModelCall(f"call_{next(numbers)}", "find", draw(st.dictionaries(words, values, max_size=3)))
                for _ in range(draw(st.integers(1, 3)))
            ]
            text = [TextPart(draw(words))] if draw(st.booleans()) else []
            turns.append(MessageTurn("assistant", (*text, *map(CallPart, calls))))
            results = [
                ResultPart(call.id, "find", {"content": [{"type": "text", "text": draw(words)}], "isError": False})
                for call in calls
            ]
            turns.append(MessageTurn("user", tuple(results)))
        turns.append(MessageTurn("assistant", (TextPart(draw(words)),)))
    turns.append(MessageTurn("user", (TextPart(draw(words)),)))
    settings = SamplingSettings(
        max_tokens=draw(st.none() | st.integers(16, 4000)),
        temperature=draw(st.none() | st.sampled_from([0.0, 0.25, 1.0])),
        output=draw(st.none() | st.just(OutputSchema({"type": "object"}))),
    )
    choice = draw(
        st.sampled_from([None, ToolChoice("auto"), ToolChoice("required"), ToolChoice("required", ("find",))])
    )
    return NeutralRequest(
        model="m",
        stream=False,
        system=tuple(draw(st.lists(words, max_size=1))),
        turns=tuple(turns),
        tools=[TOOL],
        choice=choice,
        settings=settings,
    )


def _write(request: NeutralRequest, source: str, target: str, losses: TranslationLosses) -> dict[str, Any]:
    tools = translate_tools(request.tools, source, target, losses)
    choice = translate_choice(request.choice, tools, losses)
    body = FAMILIES[target].requests.write_request(request, tools, choice, losses)
    written: dict[str, Any] = json.loads(json.dumps(body))
    return written


def _read(body: dict[str, Any], name: str, losses: TranslationLosses) -> NeutralRequest:
    return FAMILIES[name].requests.read_request(body, "m", False, losses)


def _alike(left: NeutralRequest, other: NeutralRequest) -> None:
    assert left.turns == other.turns
    assert left.system == other.system
    assert left.choice == other.choice
    assert left.settings == other.settings


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(conversations())
@pytest.mark.parametrize(("via", "other"), PAIRS)
def test_a_conversation_survives_another_family_and_comes_back(via: str, other: str, request: NeutralRequest) -> None:
    losses = TranslationLosses()
    first = _write(request, "openai-chat", via, losses)
    read = _read(first, via, losses)
    _alike(read, request)
    there = _read(_write(read, via, other, losses), other, losses)
    _alike(there, request)
    assert _write(there, other, via, losses) == first
    assert not [*losses]


CHAT: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def _from_chat(target: str, **members: Any) -> tuple[dict[str, Any], list[str]]:
    losses = TranslationLosses()
    return _write(_read(CHAT | members, "openai-chat", losses), "openai-chat", target, losses), [*losses]


@pytest.mark.parametrize(
    ("name", "value", "holders"),
    [
        ("stop", ["a", "b"], {"anthropic", "gemini", BEDROCK}),
        ("seed", 7, {"gemini"}),
        ("frequency_penalty", 0.5, {"gemini"}),
        ("presence_penalty", 0.5, {"gemini"}),
        ("user", "u1", {"anthropic", "openai-responses"}),
        ("metadata", {"a": "b"}, {"openai-responses"}),
        ("service_tier", "flex", {"openai-responses"}),
        ("verbosity", "low", {"openai-responses"}),
        ("response_format", {"type": "json_object"}, {"gemini", "openai-responses"}),
        ("logit_bias", {"1": 1}, set()),
        ("n", 2, set()),
        ("a_member_of_a_server", 1, set()),
    ],
)
@pytest.mark.parametrize("target", [name for name in FAMILIES if name != "openai-chat"])
def test_a_setting_is_kept_or_reported_as_lost(target: str, name: str, value: object, holders: set[str]) -> None:
    body, losses = _from_chat(target, **{name: value})
    plain, _ = _from_chat(target)
    assert (body != plain) == (target in holders)
    codes = {"response_format": "json_object"}
    assert losses == ([] if target in holders else [codes.get(name, name)])


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("anthropic", {"thinking": {"type": "enabled", "budget_tokens": 8192}}),
        ("openai-responses", {"reasoning": {"effort": "medium"}}),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 8192}}}),
    ],
)
def test_an_effort_is_a_budget_where_the_family_counts_tokens(target: str, wanted: dict[str, Any]) -> None:
    body, losses = _from_chat(target, reasoning_effort="medium")
    assert {name: body[name] for name in wanted} == wanted
    assert not losses
    read = _read(body, target, TranslationLosses())
    assert _write(read, target, "openai-chat", TranslationLosses())["reasoning_effort"] == "medium"


def test_anthropic_gets_no_thinking_setting_amid_calls_whose_thoughts_are_lost() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
    ]
    body, losses = _from_chat("anthropic", messages=messages, reasoning_effort="high")
    assert "thinking" not in body
    assert losses == ["reasoning"]


@pytest.mark.parametrize("target", [name for name in FAMILIES if name != "openai-chat"])
def test_arguments_in_history_that_are_not_json_are_wrapped_and_reported(target: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": '}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "no"},
        {"role": "user", "content": "Go on"},
    ]
    body, losses = _from_chat(target, messages=messages)
    assert losses == ["call_arguments"]
    again = _read(body, target, TranslationLosses())
    calls = [part.call for turn in again.turns for part in turn.parts if isinstance(part, CallPart)]
    assert [call.arguments for call in calls] == [{"_invalid_arguments": '{"q": '}]


OPAQUE = "c2lnbmVkLWJ5LWE="
HISTORIES: dict[str, dict[str, Any]] = {
    "anthropic": {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be kind", "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {"name": "find", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}},
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "secret-thought", "signature": OPAQUE},
                    {"type": "redacted_thinking", "data": OPAQUE},
                    {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": {}},
                    {"type": "text", "text": "Yes"},
                ],
            },
            {"role": "user", "content": "And?"},
        ],
    },
    "openai-responses": {
        "model": "m",
        "tools": [{"type": "web_search"}],
        "input": [
            {"role": "user", "content": "Hi"},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "secret-thought"}],
                "encrypted_content": OPAQUE,
            },
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]},
            {"role": "user", "content": "And?"},
        ],
    },
    "gemini": {
        "tools": [{"googleSearch": {}}],
        "safetySettings": [{"category": "x"}],
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {
                "role": "model",
                "parts": [{"text": "secret-thought", "thought": True}, {"text": "Yes", "thoughtSignature": OPAQUE}],
            },
            {"role": "user", "parts": [{"text": "And?"}]},
        ],
    },
    BEDROCK: {
        "toolConfig": {"tools": [{"systemTool": {"name": "web_search"}}, {"cachePoint": {"type": "default"}}]},
        "guardrailConfig": {"guardrailIdentifier": "safetySettings"},
        "messages": [
            {"role": "user", "content": [{"text": "Hi"}, {"cachePoint": {"type": "default"}}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "secret-thought", "signature": OPAQUE}}},
                    {"reasoningContent": {"redactedContent": OPAQUE}},
                    {"toolUse": {"toolUseId": "t", "name": "web_search", "input": {}, "type": "server_tool_use"}},
                    {"text": "Yes"},
                ],
            },
            {"role": "user", "content": [{"text": "And?"}]},
        ],
    },
    "openai-chat": {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "Yes",
                "reasoning_content": "secret-thought",
                "reasoning_details": [{"type": "reasoning.encrypted", "data": OPAQUE}],
            },
            {"role": "user", "content": "And?"},
        ],
    },
}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_opaque_parts_of_one_family_never_reach_another(source: str, target: str) -> None:
    losses = TranslationLosses()
    body = json.dumps(_write(_read(HISTORIES[source], source, losses), source, target, losses))
    for word in (OPAQUE, "secret-thought", "cache_control", "web_search", "googleSearch", "safetySettings"):
        assert word not in body
    assert "Yes" in body
    assert "thinking" in [*losses]
    if source != "openai-chat":
        assert "tools.refused" in [*losses]


@pytest.mark.parametrize("source", ["openai-chat", "anthropic"])
@pytest.mark.parametrize(
    ("value", "why"), [("Hi", "must be a list"), ([], "needs at least one entry"), (None, "needs")]
)
def test_messages_that_are_not_a_list_are_not_called_empty(source: str, value: Any, why: str) -> None:
    with pytest.raises(BadRequest, match=f"^messages: .*{why}"):
        _read({"model": "m", "messages": value}, source, TranslationLosses())


@pytest.mark.parametrize(
    ("source", "member", "content", "expected"),
    [
        ("anthropic", "messages", "content", "a text or a list of parts"),
        ("openai-chat", "messages", "content", "a text or a list of parts"),
        ("openai-responses", "input", "content", "a text or a list of parts"),
        ("bedrock-converse", "messages", "content", "a list of parts"),
        ("gemini", "contents", "parts", "a list of parts"),
    ],
)
def test_a_message_of_another_type_is_named_with_what_it_has_to_be(
    source: str, member: str, content: str, expected: str
) -> None:
    def refusal(message: object) -> str:
        with pytest.raises(BadRequest) as refused:
            _read({"model": "m", member: [message]}, source, TranslationLosses())
        assert refused.value.param == member
        return str(refused.value)

    assert refusal({"role": "user", content: 5}) == f"{member}.0.{content}: must be {expected}"
    assert refusal({"role": "user", content: {"type": "text"}}) == f"{member}.0.{content}: must be {expected}"
    assert refusal({"role": "user", content: ["Hi"]}) == f"{member}.0.{content}.0: must be an object"
    assert refusal("Hi") == f"{member}.0: must be an object"


def test_servers_of_the_gateway_among_the_tools_are_not_a_loss() -> None:
    losses = TranslationLosses()
    tool = {"type": "mcp", "server_label": "shop", "server_url": "fairlead://shop", "require_approval": "never"}
    request = _read({"model": "m", "input": "Hi", "tools": [tool]}, "openai-responses", losses)
    assert "tools" not in _write(request, "openai-responses", "anthropic", losses)
    assert not [*losses]


def test_system_messages_in_the_middle_move_to_the_start_where_the_family_needs_it() -> None:
    messages = [
        {"role": "system", "content": "one"},
        {"role": "user", "content": "Hi"},
        {"role": "developer", "content": "two"},
        {"role": "user", "content": "Go"},
    ]
    for target, system in (("anthropic", "one\n\ntwo"), ("gemini", {"parts": [{"text": "one"}, {"text": "two"}]})):
        body, losses = _from_chat(target, messages=messages)
        assert body["system" if target == "anthropic" else "systemInstruction"] == system
        assert losses == ["system_position"]
    body, losses = _from_chat("openai-responses", messages=messages)
    assert [item["role"] for item in body["input"]] == ["user", "system", "user"]
    assert not losses


def test_long_ids_of_calls_are_cut_to_what_responses_takes() -> None:
    call = {"id": "c" * 65, "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c" * 65, "content": "so"},
    ]
    body, losses = _from_chat("openai-responses", messages=messages)
    ids = [item["call_id"] for item in body["input"] if "call_id" in item]
    assert (len(ids), len({*ids}), len(ids[0]) <= 64, losses) == (2, 1, True, [])


def test_a_conversation_that_the_model_begins_gets_a_first_user_message_for_anthropic() -> None:
    messages = [{"role": "assistant", "content": "Hello"}, {"role": "user", "content": "Hi"}]
    body, losses = _from_chat("anthropic", messages=messages)
    assert [(each["role"], each["content"][0]["text"]) for each in body["messages"]] == [
        ("user", "(beginning of the conversation)"),
        ("assistant", "Hello"),
        ("user", "Hi"),
    ]
    assert losses == ["first_message"]


def test_a_conversation_that_the_model_ends_gets_a_last_user_content_for_gemini() -> None:
    messages = [{"role": "assistant", "content": "Hello"}]
    body, losses = _from_chat("gemini", messages=messages)
    assert body["contents"][1:] == [{"role": "user", "parts": [{"text": "(go on)"}]}]
    assert losses == ["last_message"]


def test_a_history_that_begins_with_calls_gets_a_first_user_content_for_gemini() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "so"},
    ]
    body, losses = _from_chat("gemini", messages=messages)
    assert [each["role"] for each in body["contents"]] == ["user", "model", "user"]
    assert losses == ["first_message"]


@pytest.mark.parametrize(
    ("target", "lost"), [("anthropic", True), ("openai-responses", True), ("gemini", False), (BEDROCK, True)]
)
def test_audio_is_described_to_the_model_where_its_family_accepts_none(target: str, lost: bool) -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    body, losses = _from_chat(target, messages=[{"role": "user", "content": [sound]}])
    assert losses == (["audio"] if lost else [])
    assert ("UklGRg==" in json.dumps(body)) != lost


@pytest.mark.parametrize("target", [name for name in FAMILIES if name != "openai-chat"])
def test_images_by_address_stay_addresses_where_the_family_has_them(target: str) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body, losses = _from_chat(target, messages=[{"role": "user", "content": [{"type": "text", "text": "See"}, image]}])
    assert "https://example.com/a.png" in json.dumps(body)
    assert losses == (["image_url"] if target == BEDROCK else [])


@pytest.mark.parametrize("target", [name for name in FAMILIES if name != "anthropic"])
def test_images_in_results_reach_the_model(target: str) -> None:
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "image", "source": source}]}
    request = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
            {"role": "user", "content": [result, {"type": "text", "text": "What is it?"}]},
        ],
    }
    losses = TranslationLosses()
    body = _write(_read(request, "anthropic", losses), "anthropic", target, losses)
    text = json.dumps(body)
    assert PNG in text
    assert text.index("t1") < text.index(PNG) < text.index("What is it?")


def test_ids_of_calls_without_any_are_their_own_and_match_their_results() -> None:
    call = {"functionCall": {"name": "find", "args": {}}}
    result = {"functionResponse": {"name": "find", "response": {}}}
    contents = [
        {"role": "user", "parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [call, call]},
        {"role": "user", "parts": [result, result]},
        {"role": "model", "parts": [call]},
        {"role": "user", "parts": [result]},
    ]
    losses = TranslationLosses()
    body = _write(_read({"contents": contents}, "gemini", losses), "gemini", "openai-chat", losses)
    made = [call["id"] for message in body["messages"] for call in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
    assert len(set(made)) == 3
    assert made == answered


@pytest.mark.parametrize(
    ("source", "members", "param"),
    [
        ("openai-chat", {"functions": [{"name": "f"}]}, "functions"),
        ("openai-chat", {"messages": []}, "messages"),
        ("openai-responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
        ("openai-responses", {"background": True}, "background"),
        ("openai-responses", {"input": [{"type": "item_reference", "id": "x"}]}, "input"),
        ("anthropic", {"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ("gemini", {"cachedContent": "cachedContents/1"}, "cachedContent"),
    ],
)
def test_a_request_for_what_another_provider_does_not_hold_is_refused(
    source: str, members: dict[str, Any], param: str
) -> None:
    with pytest.raises(BadRequest) as raised:
        _read(HISTORIES[source] | members, source, TranslationLosses())
    assert raised.value.param == param
    assert len(str(raised.value)) > 20


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                [
                    "role",
                    "content",
                    "type",
                    "text",
                    "parts",
                    "tool_calls",
                    "function",
                    "name",
                    "input",
                    "id",
                    "functionCall",
                    "source",
                    "image_url",
                    "arguments",
                    "system",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    JSON,
    st.sampled_from(
        [
            "tools",
            "tool_choice",
            "messages",
            "input",
            "contents",
            "system",
            "thinking",
            "text",
            "toolConfig",
            "generationConfig",
            "inferenceConfig",
            "additionalModelRequestFields",
            "outputConfig",
            "reasoning",
            "response_format",
            "stop",
        ]
    ),
)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_requests_of_a_client_are_translated_or_refused(source: str, target: str, value: Any, name: str) -> None:
    losses = TranslationLosses()
    try:
        body = _write(_read(HISTORIES[source] | {name: value}, source, losses), source, target, losses)
    except BadRequest:
        return
    assert isinstance(body, dict)
    codes = [*losses]
    assert len(codes) <= MAX_CODES + 1
    assert all(len(code) <= MAX_CODE and code.isascii() for code in codes)
