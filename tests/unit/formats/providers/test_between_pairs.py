"""Pairs of formats: names of tools, request members that depend on the model, and streams in the form of JSON
arrays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats.neutral.conversation import EFFORTS
from fairlead_formats.pairs.pair import pair
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.gemini.fake import GeminiApi
from fairlead_formats.providers.gemini.format import GEMINI_ARRAY, GEMINI_EVENTS
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadAnswer, BadRequest, BadStream, LoopResult, ModelRound, WireFormat
from fairlead_tools.validation.schema_draft import draft_error

CHAT_REQUEST: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def _out(provider: WireFormat, model: str, **members: Any) -> tuple[dict[str, Any], list[str]]:
    """The request to a model for a client of Chat Completions, and the losses."""
    read = pair(CHAT, provider).read(json.dumps(CHAT_REQUEST | members).encode())
    body: dict[str, Any] = json.loads(read.body(ModelRound(model, requests_usage=True)))
    return body, [*(read.losses or ())]


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-sonnet-4-5", 16_384),
        ("claude-opus-4-6", 16_384),
        ("claude-3-5-haiku-20241022", 8192),
        ("claude-3-opus-20240229", 4096),
        ("claude-of-nobody", 4096),
    ],
)
def test_the_token_limit_that_messages_requires_is_the_models(model: str, tokens: int) -> None:
    assert _out(ANTHROPIC, model)[0]["max_tokens"] == tokens
    assert _out(ANTHROPIC, model, max_tokens=7)[0]["max_tokens"] == 7


def test_thoughts_have_room_beside_the_answer() -> None:
    body, losses = _out(ANTHROPIC, "claude-sonnet-4-5", reasoning_effort="medium", temperature=0.5)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 8192}
    assert body["max_tokens"] == 16_384 + 8192
    assert "temperature" not in body
    assert losses == ["temperature"]


@pytest.mark.parametrize("model", ["claude-opus-4-6", "claude-sonnet-5", "claude-opus-4-7-20260401"])
def test_newer_models_decide_themselves_how_long_they_think(model: str) -> None:
    body, _ = _out(ANTHROPIC, model, reasoning_effort="high")
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "high"}


@pytest.mark.parametrize("model", ["claude-3-5-sonnet-20241022", "claude-3-haiku-20240307"])
def test_models_that_cannot_think_get_no_thinking_setting(model: str) -> None:
    body, losses = _out(ANTHROPIC, model, reasoning_effort="high")
    assert "thinking" not in body
    assert losses == ["reasoning"]


@pytest.mark.parametrize("members", [{"tool_choice": "required"}, {"max_tokens": 1500}])
def test_no_thinking_is_requested_where_the_api_refuses_it(members: dict[str, Any]) -> None:
    function = {"name": "find", "parameters": {"type": "object"}}
    tools = [{"type": "function", "function": function}]
    body, losses = _out(ANTHROPIC, "claude-sonnet-4-5", reasoning_effort="high", tools=tools, **members)
    assert "thinking" not in body
    assert losses == ["reasoning"]


@pytest.mark.parametrize(
    ("model", "member"),
    [("gpt-5-mini", "max_completion_tokens"), ("o4-mini", "max_completion_tokens"), ("our-qwen", "max_tokens")],
)
def test_the_token_limit_has_the_name_that_the_model_accepts(model: str, member: str) -> None:
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": CHAT_REQUEST["messages"]}).encode()
    out = json.loads(pair(ANTHROPIC, CHAT).read(body).body(ModelRound(model, requests_usage=True)))
    assert {name for name in out if name.startswith("max")} == {member}


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
def test_models_of_openai_that_do_not_reason_get_no_reasoning_setting(provider: WireFormat) -> None:
    body = json.dumps(
        {
            "model": "m",
            "max_tokens": 9,
            "messages": CHAT_REQUEST["messages"],
            "thinking": {"type": "enabled", "budget_tokens": 2000},
        }
    ).encode()
    for model, told in (("gpt-4o", False), ("gpt-5", True), ("our-qwen", True)):
        read = pair(ANTHROPIC, provider).read(body)
        out = json.loads(read.body(ModelRound(model, requests_usage=True)))
        assert ("reasoning" in out or "reasoning_effort" in out) == told
        assert [*(read.losses or ())] == ([] if told else ["reasoning"])


@pytest.mark.parametrize(("model", "signed"), [("gemini-3-pro", True), ("gemini-2.5-flash", False)])
def test_calls_of_other_models_are_marked_for_gemini_where_it_wants_signatures(model: str, signed: bool) -> None:
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": "find", "arguments": "{}"}} for n in (1, 2)]
    results = [{"role": "tool", "tool_call_id": f"c{n}", "content": "x"} for n in (1, 2)]
    body, _ = _out(
        GEMINI_EVENTS, model, messages=[*CHAT_REQUEST["messages"], {"role": "assistant", "tool_calls": calls}, *results]
    )
    parts = body["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [
        "skip_thought_signature_validator" if signed else None,
        None,
    ]


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-3-pro-preview", ["LOW", "LOW", "LOW", "HIGH", "HIGH", "HIGH"]),
        ("models/gemini-3.1-pro-preview", ["LOW", "LOW", "LOW", "MEDIUM", "HIGH", "HIGH"]),
        ("gemini-3-flash-preview", ["MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH"]),
        ("gemini-3.1-flash-lite", ["MINIMAL", "MINIMAL", "LOW", "MEDIUM", "HIGH", "HIGH"]),
        ("gemini-3.8-flash", ["LOW", "LOW", "LOW", "MEDIUM", "HIGH", "HIGH"]),
        ("gemini-2.5-flash", [0, 512, 1024, 8192, 24_576, 32_768]),
        ("gemini-2.5-pro", [128, 512, 1024, 8192, 24_576, 32_768]),
    ],
)
def test_an_effort_is_a_thinking_level_that_the_model_of_gemini_has_or_a_budget_before_gemini_3(
    model: str, thinking: list[Any]
) -> None:
    for effort, value in zip(EFFORTS, thinking, strict=True):
        body, losses = _out(GEMINI_EVENTS, model, reasoning_effort=effort)
        member = "thinkingLevel" if isinstance(value, str) else "thinkingBudget"
        assert body["generationConfig"]["thinkingConfig"] == {member: value}
        assert losses == (["reasoning"] if effort == "none" and value != 0 else [])
        path = f"/v1beta/models/{model.removeprefix('models/')}:generateContent"
        assert GeminiApi(draft_error).refusal(path, body, {}) is None


def test_a_budget_of_messages_is_a_thinking_level_for_gemini_3_beside_its_thoughts() -> None:
    thinking = {"type": "enabled", "budget_tokens": 5000}
    request = json.dumps({**CHAT_REQUEST, "max_tokens": 9000, "thinking": thinking}).encode()
    out = json.loads(pair(ANTHROPIC, GEMINI_EVENTS).read(request).body(ModelRound("gemini-3-pro", requests_usage=True)))
    assert out["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "HIGH"
    assert "thinkingBudget" not in out["generationConfig"]["thinkingConfig"]


def test_names_of_tools_that_the_provider_refuses_are_others_on_the_way() -> None:
    call = {"functionCall": {"id": "c", "name": "our.find", "args": {}}}
    answer = {"functionResponse": {"id": "c", "name": "our.find", "response": {"output": "x"}}}
    body = {
        "contents": [
            {"role": "user", "parts": [{"text": "Hi"}]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [answer]},
        ],
        "tools": [{"functionDeclarations": [{"name": "our.find", "parametersJsonSchema": {"type": "object"}}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["our.find"]}},
    }
    wire = pair(GEMINI_EVENTS, ANTHROPIC)
    read = wire.read(json.dumps(body).encode(), "m", False)
    out = json.loads(read.body(ModelRound("m", requests_usage=True)))
    (name,) = read.tool_names
    assert name != "our.find"
    assert out["tools"][0]["name"] == out["tool_choice"]["name"] == out["messages"][1]["content"][0]["name"] == name
    block = {"type": "tool_use", "id": "t", "name": name, "input": {}}
    message = {"id": "msg", "model": "m", "content": [block], "stop_reason": "tool_use", "usage": {}}
    answered = wire.answer(json.dumps(message).encode(), read)
    back = json.loads(answered.write(LoopResult(client_tools=read.tool_names)))
    assert back["candidates"][0]["content"]["parts"][0]["functionCall"]["name"] == "our.find"


def test_calls_of_tools_that_policies_let_nobody_run_come_back_as_calls() -> None:
    wire = pair(ANTHROPIC, RESPONSES)
    read = wire.read(json.dumps(CHAT_REQUEST | {"max_tokens": 9}).encode())
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "manual", "arguments": "{}"}
    body = {"id": "resp", "object": "response", "status": "completed", "model": "m", "output": [call]}
    answer = wire.answer(json.dumps(body).encode(), read)
    back = json.loads(answer.write(LoopResult(client_tools=("manual",))))
    assert [block["name"] for block in back["content"]] == ["manual"]
    assert back["stop_reason"] == "tool_use"


@pytest.mark.parametrize("breaks", [False, True], ids=["whole", "broken"])
def test_a_client_of_gemini_that_requests_no_events_gets_an_array(breaks: bool) -> None:
    wire = pair(GEMINI_ARRAY, CHAT)
    body = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    read = wire.read(json.dumps(body).encode(), "m", True)
    stream = wire.stream(read, None)
    chunk = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hello\u2028"}}]}
    out = stream.feed(json.dumps(chunk).encode()) + stream.keep_alive()
    if breaks:
        out += stream.write_error(LlmError(502, "it broke", "bad_answer"))
    else:
        chunk["choices"] = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
        out += stream.feed(json.dumps(chunk).encode()) + stream.end_round() + stream.finish({"fairlead": {}})
    chunks = json.loads(out)
    assert wire.stream_type == "application/json"
    assert chunks[0]["candidates"][0]["content"]["parts"] == [{"text": "Hello\u2028"}]
    if breaks:
        assert chunks[-1]["error"]["status"] == "INTERNAL"
    else:
        assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"model": "m"}', b'"x"', b"[" * 5000, b'{"model":"m","messages":3}']
)
@pytest.mark.parametrize("provider", [ANTHROPIC, RESPONSES, GEMINI_EVENTS])
def test_bodies_that_are_not_requests_are_refused(provider: WireFormat, body: bytes) -> None:
    with pytest.raises(BadRequest):
        pair(CHAT, provider).read(body)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 9)
    | st.text(max_size=4)
    | st.sampled_from(["assistant", "stop", "STOP", "end_turn", "text", "tool_use", "function_call", "text_delta"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "index",
                    "delta",
                    "content",
                    "text",
                    "choices",
                    "message",
                    "finish_reason",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "id",
                    "candidates",
                    "parts",
                    "functionCall",
                    "args",
                    "finishReason",
                    "content_block",
                    "input",
                    "usage",
                    "item",
                    "output_index",
                    "response",
                    "output",
                    "item_id",
                    "thought",
                    "refusal",
                    "error",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=15,
)
KINDS = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "response.created",
    "response.output_item.added",
    "response.output_text.delta",
    "response.function_call_arguments.delta",
    "response.output_item.done",
    "response.completed",
]
FORMATS: list[WireFormat] = [CHAT, RESPONSES, ANTHROPIC, GEMINI_EVENTS]
BODIES: dict[str, dict[str, Any]] = {
    CHAT.name: CHAT_REQUEST,
    RESPONSES.name: {"model": "m", "input": "Hi"},
    ANTHROPIC.name: CHAT_REQUEST | {"max_tokens": 9},
    GEMINI_EVENTS.name: {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
}


TYPED = st.sampled_from(KINDS).flatmap(lambda kind: JSON.map(lambda event: _with_type(event, kind)))


def _with_type(event: Any, kind: str) -> Any:
    """The event with an existing type."""
    return {"type": kind, **event} if isinstance(event, dict) else event


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TYPED, max_size=6))
@pytest.mark.parametrize(
    ("front", "provider"), [(front, other) for front in FORMATS for other in FORMATS if front != other]
)
def test_streams_of_a_provider_are_translated_or_an_error(
    front: WireFormat, provider: WireFormat, events: list[Any]
) -> None:
    wire = pair(front, provider)
    stream = wire.stream(wire.read(json.dumps(BODIES[front.name]).encode(), "m", True), ("name",))
    try:
        out = [stream.feed(json.dumps(event).encode()) for event in events]
        out += [stream.end_round(), stream.finish({"fairlead": {}})]
    except BadStream as error:
        out = [stream.write_error(LlmError(502, str(error), "bad_answer"), error.error)]
    assert b"".join(out)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
@pytest.mark.parametrize(
    ("front", "provider"), [(front, other) for front in FORMATS for other in FORMATS if front != other]
)
def test_answers_of_a_provider_are_translated_or_an_error(front: WireFormat, provider: WireFormat, value: Any) -> None:
    wire = pair(front, provider)
    read = wire.read(json.dumps(BODIES[front.name]).encode(), "m", False)
    try:
        answer = wire.answer(json.dumps(value).encode(), read)
    except BadAnswer:
        return
    assert isinstance(json.loads(answer.write(LoopResult(usage=answer.usage, extra_members={"fairlead": {}}))), dict)
