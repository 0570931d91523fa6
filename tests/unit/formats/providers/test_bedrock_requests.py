"""Requests to Bedrock: features that the API lacks, and features that only some of its models support."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_formats.pairs.pair import pair
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.bedrock.api import API
from fairlead_formats.providers.bedrock.counting import COUNTING
from fairlead_formats.providers.bedrock.format import BEDROCK
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.wire.protocol import BadRequest, ModelRound

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
OPUS = "global.anthropic.claude-opus-4-7-v1:0"
LLAMA = "us.meta.llama4-maverick-17b-instruct-v1:0"
TOOL = {"toolSpec": {"name": "find", "description": "Finds", "inputSchema": {"json": {"type": "object"}}}}
USER_MESSAGE = {"role": "user", "content": [{"text": "Find it"}]}
CALLS = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "find", "input": {"q": 1}}}]}
RESULT = {"toolResult": {"toolUseId": "c1", "content": [{"json": {"found": 2}}, {"text": "so"}], "status": "error"}}
HISTORY = [USER_MESSAGE, CALLS, {"role": "user", "content": [RESULT]}]
INJECTED = json.dumps({"toolSpec": {"name": "ours", "inputSchema": {"json": {"type": "object"}}}}).encode()


def provider_request(
    body: dict[str, Any], *, first: bool = True, last: bool = False, injected: bool = False
) -> dict[str, Any]:
    """The request to the provider for a client's request in Bedrock's format."""
    read = BEDROCK.read(json.dumps(body).encode(), CLAUDE, stream=False)
    tools = [INJECTED] if injected else []
    written: dict[str, Any] = json.loads(
        read.body(ModelRound(CLAUDE, injected_tools=tools, sends_forced_choice=first, forbids_calls=last))
    )
    return written


def translate_chat_request(model: str = CLAUDE, **members: Any) -> tuple[dict[str, Any], list[str]]:
    """The request to the provider for a client's Chat Completions request, and the losses."""
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], **members}
    read = pair(CHAT, BEDROCK).read(json.dumps(body).encode())
    return json.loads(read.body(ModelRound(model))), [*(read.losses or ())]


def test_members_are_forwarded_unchanged() -> None:
    body = {
        "messages": [*HISTORY[:1], {"role": "assistant", "content": [{"hologram": 1.0}]}],
        "toolConfig": {"tools": [TOOL, {"cachePoint": {"type": "default"}}], "toolChoice": {"any": {}}},
        "guardrailConfig": {"guardrailIdentifier": "g"},
        "serviceTier": {"type": "flex"},
    }
    assert provider_request({**body, "fairlead": {"tools": "none"}}) == body


def test_tools_follow_those_of_the_caller_and_a_forced_call_is_forced_once() -> None:
    config = {"tools": [TOOL], "toolChoice": {"tool": {"name": "find"}}}
    written = provider_request({"messages": HISTORY, "toolConfig": config}, injected=True)
    assert [tool["toolSpec"]["name"] for tool in written["toolConfig"]["tools"]] == ["find", "ours"]
    assert written["toolConfig"]["toolChoice"] == {"tool": {"name": "find"}}
    later = provider_request({"messages": HISTORY, "toolConfig": config}, injected=True, first=False)
    assert "toolChoice" not in later["toolConfig"]


@pytest.mark.parametrize(
    ("config", "last"),
    [({"tools": [TOOL]}, True), (None, False), ({"tools": [TOOL], "toolChoice": {"none": {}}}, False)],
)
def test_a_request_that_must_not_lead_to_calls_has_calls_and_results_as_text(config: Any, last: bool) -> None:
    written = provider_request({"messages": HISTORY, **({"toolConfig": config} if config else {})}, last=last)
    assert "toolConfig" not in written
    assert [block["text"] for message in written["messages"] for block in message["content"]] == [
        "Find it",
        '[call of find with {"q":1}]',
        "[error of a call]",
        '{"found":2}',
        "so",
    ]


def test_reasoning_of_later_rounds_is_not_sent_back() -> None:
    shown = {"reasoningContent": {"reasoningText": {"text": "So", "signature": "fairlead.0."}}}
    signed = {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "the provider's"}}}
    answer = {"role": "assistant", "content": [signed, {"text": "One."}, shown, {"text": "Two."}]}
    written = provider_request({"messages": [USER_MESSAGE, answer, USER_MESSAGE]})
    assert written["messages"][1]["content"] == [signed, {"text": "One."}, {"text": "Two."}]


def test_signed_reasoning_and_thinking_are_removed_for_another_model() -> None:
    signed = {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "another's"}}}
    called = {"role": "assistant", "content": [signed, *CALLS["content"]]}
    body = {
        "messages": [USER_MESSAGE, called, HISTORY[2]],
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    }
    removed = BEDROCK.remove_thoughts(json.dumps(body).encode(), 0)
    assert removed is not None
    assert json.loads(removed) == {"messages": HISTORY, "additionalModelRequestFields": {}}
    assert BEDROCK.remove_thoughts(removed, 0) is None


def test_a_managed_prompt_gets_no_tools_of_the_gateway() -> None:
    body = json.dumps({"messages": [USER_MESSAGE], "promptVariables": {"city": {"text": "Bonn"}}}).encode()
    assert BEDROCK.read(body, CLAUDE, stream=False).no_injection
    assert BEDROCK.read(
        b'{"messages":[{}]}', "arn:aws:bedrock:us-east-1:1:prompt/ABCDEFGHIJ", stream=False
    ).no_injection


@pytest.mark.parametrize(
    ("model", "fields", "output", "lost"),
    [
        (CLAUDE, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, None, []),
        (OPUS, {"thinking": {"type": "adaptive"}}, {"effort": "low"}, []),
        ("anthropic.claude-3-haiku-20240307-v1:0", None, None, ["reasoning"]),
        (LLAMA, None, None, ["reasoning"]),
    ],
)
def test_reasoning_is_requested_in_the_form_that_the_model_accepts(
    model: str, fields: Any, output: Any, lost: list[str]
) -> None:
    body, losses = translate_chat_request(model, reasoning_effort="low")
    assert (body.get("additionalModelRequestFields"), body.get("outputConfig"), losses) == (fields, output, lost)


def test_settings_are_those_of_the_api_and_the_rest_is_reported() -> None:
    schema = {"type": "object", "properties": {}}
    body, losses = translate_chat_request(
        max_tokens=9,
        temperature=1.5,
        top_p=0.5,
        stop=["a"],
        seed=1,
        logit_bias={"1": 2},
        response_format={"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    )
    assert body["inferenceConfig"] == {"maxTokens": 9, "stopSequences": ["a"], "temperature": 1}
    form = body["outputConfig"]["textFormat"]
    assert (form["type"], json.loads(form["structure"]["jsonSchema"]["schema"])) == ("json_schema", schema)
    assert losses == ["logit_bias", "seed", "temperature", "top_p"]


def test_results_stand_alone_for_models_that_refuse_other_blocks_beside_them() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    function = {"name": "find", "description": "Finds", "parameters": {"type": "object", "properties": {}}}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "user", "content": "And?"},
    ]
    tools = [{"type": "function", "function": function}]
    alone, _ = translate_chat_request(LLAMA, messages=messages, tools=tools)
    (result,) = alone["messages"][2]["content"]
    assert result["toolResult"]["content"] == [{"text": "found"}, {"text": "And?"}]
    mixed, _ = translate_chat_request(CLAUDE, messages=messages, tools=tools)
    assert mixed["messages"][2]["content"][1] == {"text": "And?"}


def test_documents_have_names_that_the_api_takes_and_a_text_beside_them() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}
    titles = ["Q3 (final)_v2.pdf", "Q3 (final) v2.pdf", ""]
    documents = [{"type": "document", "source": source, **({"title": title} if title else {})} for title in titles]
    body = {"model": CLAUDE, "max_tokens": 9, "messages": [{"role": "user", "content": documents}]}
    read = pair(ANTHROPIC, BEDROCK).read(json.dumps(body).encode())
    content = json.loads(read.body(ModelRound(CLAUDE)))["messages"][0]["content"]
    names = [block["document"]["name"] for block in content[:3]]
    assert names == ["Q3 (final) v2", "Q3 (final) v2 (2)", "file 3"]
    assert content[3] == {"text": "(see the document)"}


def test_images_by_url_become_text_and_are_reported() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body, losses = translate_chat_request(messages=[{"role": "user", "content": [image]}])
    assert "https://example.com/a.png" in body["messages"][0]["content"][0]["text"]
    assert losses == ["image_url"]


@pytest.mark.parametrize("model", [CLAUDE, "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.meta.llama4"])
def test_a_path_names_a_model_however_it_is_written(model: str) -> None:
    path = BEDROCK.path(model, stream=True)
    assert path.count("/") == 3
    operation = API.operation(f"/model/{model}/converse-stream", {})
    assert operation is not None
    assert (operation.model, operation.stream) == (model, True)
    assert API.operation(f"/model/{model}/invoke", {}) is None


def test_a_count_is_of_the_members_that_the_model_reads() -> None:
    inner = {"messages": [USER_MESSAGE], "inferenceConfig": {"maxTokens": 9}, "toolConfig": {"tools": [TOOL]}}
    read = COUNTING.read(json.dumps({"input": {"converse": inner}}).encode(), CLAUDE)
    body = COUNTING.body(read.body(ModelRound(CLAUDE)), CLAUDE)
    assert json.loads(body) == {"input": {"converse": {"messages": [USER_MESSAGE], "toolConfig": {"tools": [TOOL]}}}}
    with pytest.raises(BadRequest, match=r"send `input\.converse`"):
        COUNTING.read(b'{"input":{"invokeModel":{"body":"QQ=="}}}', CLAUDE)
