"""Requests that the scripted providers reject: one for each documented rule of the providers."""

from __future__ import annotations

import itertools
import json
import pkgutil
import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

import pytest

from fairlead_formats.providers.anthropic.fake import AnthropicApi
from fairlead_formats.providers.anthropic.fake_rules import signature as thinking_signature
from fairlead_formats.providers.bedrock.fake import BedrockApi
from fairlead_formats.providers.bedrock.fake_rules import signature as converse_signature
from fairlead_formats.providers.gemini.fake import GeminiApi
from fairlead_formats.providers.gemini.fake_rules import signature
from fairlead_formats.providers.openai_chat.fake import ChatApi
from fairlead_formats.providers.openai_responses.fake import ResponsesApi
from fairlead_formats.rejected_requests import RULES
from fairlead_formats.request_rules.rule import ApiFamily, RequestRule
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedApi
from fairlead_tools.validation.schema_draft import draft_error

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"q": {"type": "string"}}}
STRICT_SCHEMA: dict[str, Any] = {**SCHEMA, "additionalProperties": False, "required": ["q"]}
SPEECH = (ApiFamily.REALTIME, ApiFamily.LIVE)
VERSION = {"anthropic-version": "2023-06-01"}


def chat_tool(name: str = "find", schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema, **more}}


def chat_calls(*ids: str) -> dict[str, Any]:
    function = {"name": "find", "arguments": "{}"}
    calls = [{"id": ident, "type": "function", "function": function} for ident in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_answer(ident: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": ident, "content": "found"}


USER_MESSAGE = {"role": "user", "content": "Find it"}
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [USER_MESSAGE, chat_calls("c1", "c2"), chat_answer("c2"), chat_answer("c1"), USER_MESSAGE],
    "tools": [chat_tool(), chat_tool("seek", STRICT_SCHEMA, strict=True)],
    "tool_choice": {"type": "function", "function": {"name": "find"}},
}


def schema_cases(prefix: str, tool: Any) -> dict[str, dict[str, Any]]:
    """Cases about tools, for both of OpenAI's APIs."""
    closed = {"type": "object", "additionalProperties": False}
    strict = {
        "strict-closed": {"type": "object", "properties": {}},
        "strict-required": {**closed, "properties": {"q": {"type": "string"}}},
        "strict-keyword": {**closed, "properties": {}, "allOf": [SCHEMA]},
        "strict-type": {**closed, "properties": {"q": {"description": "Any"}}, "required": ["q"]},
    }
    lax = {
        "schema-root": {"properties": {}},
        "schema-valid": {**SCHEMA, "required": None},
        "schema-properties": {"type": "object"},
        "schema-items": {"type": "object", "properties": {"q": {"type": "array"}}},
        "schema-pattern": {"type": "object", "properties": {"q": {"type": "string", "pattern": r"\p{L}"}}},
    }
    cases = {
        "tool-name": [tool("find it")],
        "tool-name-length": [tool("f" * 65)],
        "tool-names-unique": [tool(), tool()],
        "tool-count": [tool(f"find_{number}") for number in range(129)],
        **{name: [tool("find", schema)] for name, schema in lax.items()},
        **{name: [tool("find", schema, strict=True)] for name, schema in strict.items()},
    }
    return {f"{prefix}-{name}": {"tools": tools, "tool_choice": "auto"} for name, tools in cases.items()}


CHAT_CASES: dict[str, dict[str, Any]] = {
    **schema_cases("chat", chat_tool),
    "chat-member": {"fairlead": {}},
    "chat-messages": {"messages": []},
    "chat-tool-choice": {"tool_choice": {"type": "function", "function": {"name": "seek_it"}}},
    "chat-tools-empty": {"tools": [], "tool_choice": None},
    "chat-choice-without-tools": {"tools": None},
    "chat-functions-empty": {"functions": []},
    "chat-choice-without-functions": {"function_call": "auto"},
    "chat-content": {"messages": [USER_MESSAGE, {"role": "assistant", "content": None}]},
    "chat-tool-message": {"messages": [USER_MESSAGE, chat_answer("c1")]},
    "chat-missing-output": {"messages": [USER_MESSAGE, chat_calls("c1", "c2"), chat_answer("c1"), USER_MESSAGE]},
    "chat-call-ids-unique": {"messages": [USER_MESSAGE, chat_calls("c1", "c1"), chat_answer("c1")]},
}


def flat_tool(name: str = "find", schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": schema, "strict": False, **more}


def item_call(ident: str, **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": ident, "name": "find", "arguments": "{}", **more}


def item_output(ident: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": ident, "output": "found"}


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed-1"}
STORED = "resp_scripted_0001"
STORED_OUTPUT = [item_output("call_scripted_0001_0000")]
RESPONSES: dict[str, Any] = {
    "model": "m",
    "input": [USER_MESSAGE, THOUGHT, item_call("c1", id="fc_1"), item_output("c1")],
    "tools": [flat_tool()],
    "tool_choice": {"type": "function", "name": "find"},
}
RESPONSES_CASES: dict[str, dict[str, Any]] = {
    **schema_cases("responses", flat_tool),
    "responses-member": {"fairlead": {}},
    "responses-previous": {"previous_response_id": "resp_2"},
    "responses-conversation": {"previous_response_id": STORED, "conversation": "conv_1"},
    "responses-tool-choice": {"tool_choice": {"type": "function", "name": "seek"}},
    "responses-item-id": {"input": [USER_MESSAGE, item_call("c1", id="call_1"), item_output("c1")]},
    "responses-item-ids-unique": {"input": [USER_MESSAGE, {"type": "item_reference", "id": "rs_1"}, THOUGHT]},
    "responses-item-reference": {"input": [{"type": "item_reference", "id": "rs_2"}]},
    "responses-call-id-length": {"input": [USER_MESSAGE, item_call("c" * 65), item_output("c" * 65)]},
    "responses-call-ids-unique": {"input": [item_call("c1"), item_call("c1"), item_output("c1")]},
    "responses-missing-output": {"input": "Go on", "previous_response_id": STORED},
    "responses-output-without-call": {"input": [USER_MESSAGE, item_output("c1")]},
    "responses-reasoning-followed": {"input": [USER_MESSAGE, THOUGHT, USER_MESSAGE]},
    "responses-call-reasoning": {
        "input": [USER_MESSAGE, item_call("call_scripted_0001_0000", id="fc_scripted_0001_0000"), *STORED_OUTPUT]
    },
    "responses-encrypted-content": {
        "input": [USER_MESSAGE, {**THOUGHT, "encrypted_content": "another's"}, item_call("c1"), item_output("c1")]
    },
}


def claude_tool(name: str = "find", schema: Any = SCHEMA, **more: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": schema, **more}


def tool_use(ident: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": ident, "name": "find", "input": {}, **more}


def tool_result(ident: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": "found"}


def blocks(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": [*content]}


def thinking_block(number: int = 1) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "Hm", "signature": thinking_signature(number, "Hm")}


TEXT = {"type": "text", "text": "Hello"}
CACHED = {"cache_control": {"type": "ephemeral"}}
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048, "tool_choice": None}
MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 99,
    "messages": [
        USER_MESSAGE,
        USER_MESSAGE,
        blocks("assistant", thinking_block(), tool_use("t1")),
        blocks("user", tool_result("t1"), TEXT),
    ],
    "tools": [claude_tool()],
    "tool_choice": {"type": "tool", "name": "find"},
}
MESSAGES_CASES: dict[str, dict[str, Any]] = {
    "messages-version": {},
    "messages-member": {"fairlead": {}},
    "messages-thread": {"thread": {"type": "continue", "previous_message_id": "msg_unknown"}},
    "messages-thread-beta": {"thread": {"type": "create"}},
    "messages-thread-fields": {"thread": {"type": "continue", "previous_message_id": "msg_scripted_0001"}},
    "messages-max-tokens": {"max_tokens": None},
    "messages-empty": {"messages": []},
    "messages-role": {"messages": [USER_MESSAGE, {"role": "tool", "content": "found"}]},
    "messages-first-role": {"messages": [{"role": "assistant", "content": "Hello"}, USER_MESSAGE]},
    "messages-content": {"messages": [USER_MESSAGE, blocks("assistant")]},
    "messages-text": {"messages": [blocks("user", {"type": "text", "text": " "})]},
    "messages-trailing-space": {"messages": [USER_MESSAGE, {"role": "assistant", "content": "Hello "}]},
    "messages-block": {"messages": [blocks("user", {"type": "hologram"})]},
    "messages-mcp-block": {"messages": [USER_MESSAGE, blocks("assistant", {"type": "mcp_tool_use"}), USER_MESSAGE]},
    "messages-tool-name": {"tools": [claude_tool("find it")]},
    "messages-tool-names-unique": {"tools": [claude_tool(), claude_tool()]},
    "messages-schema-type": {"tools": [claude_tool(schema={"properties": {}})]},
    "messages-schema-valid": {"tools": [claude_tool(schema={**SCHEMA, "required": None})]},
    "messages-schema-root": {"tools": [claude_tool(schema={**SCHEMA, "anyOf": [SCHEMA]})]},
    "messages-property-name": {"tools": [claude_tool(schema={"type": "object", "properties": {"$filter": {}}})]},
    "messages-tool-choice": {"tool_choice": {"type": "tool", "name": "seek"}},
    "messages-choice-without-tools": {"tools": []},
    "messages-call-id": {
        "messages": [USER_MESSAGE, blocks("assistant", tool_use("a:1")), blocks("user", tool_result("a:1"))]
    },
    "messages-result-id": {"messages": [USER_MESSAGE, blocks("user", tool_result("a:1"))]},
    "messages-call-ids-unique": {"messages": [USER_MESSAGE, blocks("assistant", tool_use("t1"), tool_use("t1"))]},
    "messages-call-input": {"messages": [USER_MESSAGE, blocks("assistant", tool_use("t1", input="{}"))]},
    "messages-missing-result": {
        "messages": [USER_MESSAGE, blocks("assistant", tool_use("t1")), blocks("user", TEXT, tool_result("t1"))]
    },
    "messages-result-without-call": {"messages": [USER_MESSAGE, blocks("user", tool_result("t1"))]},
    "messages-single-result": {
        "messages": [
            USER_MESSAGE,
            blocks("assistant", tool_use("t1")),
            blocks("user", tool_result("t1"), tool_result("t1")),
        ]
    },
    "messages-cache-control": {"tools": [claude_tool(f"find_{n}", **CACHED) for n in range(5)], "tool_choice": None},
    "messages-thinking-cached": {
        "messages": [USER_MESSAGE, blocks("assistant", {**thinking_block(), **CACHED}, TEXT), USER_MESSAGE]
    },
    "messages-thinking-budget": {**THINKS, "thinking": {"type": "enabled", "budget_tokens": 1000}},
    "messages-thinking-max-tokens": {**THINKS, "max_tokens": 1024},
    "messages-thinking-temperature": {**THINKS, "temperature": 0.5},
    "messages-thinking-forced": {**THINKS, "tool_choice": {"type": "any"}},
    "messages-thinking-first": {
        **THINKS,
        "messages": [USER_MESSAGE, blocks("assistant", TEXT, tool_use("t1")), blocks("user", tool_result("t1"))],
    },
    "messages-thinking-signature": {
        "messages": [
            USER_MESSAGE,
            blocks("assistant", {**thinking_block(), "signature": "another's"}, TEXT),
            USER_MESSAGE,
        ]
    },
    "messages-thinking-modified": {
        "messages": [USER_MESSAGE, blocks("assistant", thinking_block(1), thinking_block(2), TEXT), USER_MESSAGE]
    },
}


def declare(*functions: Mapping[str, Any]) -> dict[str, Any]:
    return {"functionDeclarations": [*functions]}


def function(name: str = "find", **members: Any) -> dict[str, Any]:
    return {"name": name, **members}


def parameters(**members: Any) -> dict[str, Any]:
    return {"tools": [declare(function(parameters={"type": "OBJECT", "properties": {"q": members}}))]}


def call_part(name: str = "find", **members: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}}, "thoughtSignature": signature(1), **members}


def response_part(name: str = "find") -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": {"output": "found"}}}


def content(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": [*parts]}


HELLO = content("user", {"text": "Find it"})
GEMINI: dict[str, Any] = {
    "contents": [HELLO, content("model", call_part()), content("user", response_part())],
    "tools": [
        declare(
            function(parameters={"type": "OBJECT", "properties": {"q": {"type": "STRING"}}, "required": ["q"]}),
            function("seek", parametersJsonSchema=SCHEMA),
        )
    ],
}
GEMINI_CASES: dict[str, dict[str, Any]] = {
    "gemini-member": {"fairlead": {}},
    "gemini-value": {"contents": ["Hello"]},
    "gemini-contents": {"contents": []},
    "gemini-role": {"contents": [content("system", {"text": "Hello"})]},
    "gemini-parts": {"contents": [content("user")]},
    "gemini-part-data": {"contents": [content("user", {"thought": True})]},
    "gemini-last-role": {"contents": [HELLO, content("model", {"text": "Hello"})]},
    "gemini-function-name": {"tools": [declare(function("2nd"))]},
    "gemini-function-names-unique": {"tools": [declare(function(), function())]},
    "gemini-function-count": {"tools": [declare(*(function(f"find_{number}") for number in range(513)))]},
    "gemini-function-member": {"tools": [declare(function(strict=True))]},
    "gemini-two-schemas": {"tools": [declare(function(parameters=SCHEMA, parametersJsonSchema=SCHEMA))]},
    "gemini-json-schema": {"tools": [declare(function(parametersJsonSchema={**SCHEMA, "required": None}))]},
    "gemini-schema-member": parameters(type="NUMBER", exclusiveMinimum=1),
    "gemini-schema-value": {"tools": [declare(function(parameters={"type": "OBJECT", "properties": {"q": True}}))]},
    "gemini-schema-type": parameters(type=["STRING", "NULL"]),
    "gemini-schema-any-of": parameters(anyOf=[{"type": "STRING"}], description="Any"),
    "gemini-schema-properties": {"tools": [declare(function(parameters={"type": "OBJECT"}))]},
    "gemini-schema-required": parameters(type="OBJECT", properties={}, required=["q"]),
    "gemini-schema-items": parameters(type="ARRAY"),
    "gemini-schema-enum": parameters(type="INTEGER", enum=[1]),
    "gemini-schema-format": parameters(type="STRING", format="uri"),
    "gemini-functions-once": {"tools": [declare(function()), declare(function("seek"))]},
    "gemini-functions-combined": {"tools": [declare(function()), {"googleSearch": {}}]},
    "gemini-allowed-mode": {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["find"]}}},
    "gemini-allowed-names": {
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["find_it"]}}
    },
    "gemini-cached": {"cachedContent": "cachedContents/1"},
    "gemini-response-count": {
        "contents": [HELLO, content("model", call_part(), call_part()), content("user", response_part())]
    },
    "gemini-response-of-call": {
        "contents": [HELLO, content("model", call_part()), content("user", response_part("seek"))]
    },
    "gemini-call-order": {"contents": [content("model", call_part()), content("user", response_part())]},
    "gemini-response-order": {"contents": [HELLO, content("model", {"text": "Hm"}), content("user", response_part())]},
    "gemini-thinking-both": {
        "generationConfig": {"thinkingConfig": {"thinkingBudget": 8192, "thinkingLevel": "LOW"}},
    },
    "gemini-thinking-level": {"generationConfig": {"thinkingConfig": {"thinkingLevel": "MOST"}}},
    "gemini-missing-signature": {
        "contents": [HELLO, content("model", {"functionCall": {"name": "find"}}), content("user", response_part())]
    },
    "gemini-signature": {
        "contents": [HELLO, content("model", call_part(thoughtSignature="another's")), content("user", response_part())]
    },
}


def converse_tool(name: str = "find", schema: Any = SCHEMA, **members: Any) -> dict[str, Any]:
    spec = {"name": name, "description": "Finds", "inputSchema": {"json": schema}, **members}
    return {"toolConfig": {"tools": [{"toolSpec": spec}]}}


def converse_use(ident: str = "c1", **members: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": ident, "name": "find", "input": {}, **members}}


def converse_result(ident: str = "c1", **members: Any) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": ident, "content": [{"text": "found"}], **members}}


def document(name: str = "a file") -> dict[str, Any]:
    return {"document": {"format": "pdf", "name": name, "source": {"bytes": "QQ=="}}}


def asks_converse(*parts: Any) -> dict[str, Any]:
    return {"messages": [blocks("user", *parts)]}


TEXT_BLOCK = {"text": "Find it"}
THOUGHT_OF = {"reasoningText": {"text": "Hm", "signature": converse_signature(1, "Hm")}}
CONVERSE: dict[str, Any] = {
    "messages": [
        blocks("user", TEXT_BLOCK, document(), {"image": {"format": "png", "source": {"bytes": "QQ=="}}}),
        blocks("assistant", {"reasoningContent": THOUGHT_OF}, converse_use()),
        blocks("user", converse_result()),
        blocks("assistant", TEXT_BLOCK),
        blocks("user", TEXT_BLOCK, {"cachePoint": {"type": "default"}}),
    ],
    "system": [TEXT_BLOCK],
    "inferenceConfig": {"maxTokens": 2048},
    **converse_tool(),
}
CONVERSE_CASES: dict[str, dict[str, Any]] = {
    "converse-member": {"fairlead": {}},
    "converse-first-role": {"messages": []},
    "converse-alternation": {"messages": [blocks("user", TEXT_BLOCK), blocks("user", TEXT_BLOCK)]},
    "converse-content": {"messages": [blocks("user")]},
    "converse-text": asks_converse({"text": " "}),
    "converse-block": asks_converse({"hologram": {}}),
    "converse-media-role": {"messages": [blocks("user", TEXT_BLOCK), blocks("assistant", TEXT_BLOCK, document())]},
    "converse-image": asks_converse({"image": {"format": "tiff", "source": {"bytes": "QQ=="}}}),
    "converse-document-text": asks_converse(document()),
    "converse-document-name": asks_converse(TEXT_BLOCK, document("a.pdf")),
    "converse-document-names-unique": asks_converse(TEXT_BLOCK, document(), document()),
    "converse-tool-config": {"toolConfig": None},
    "converse-tools": {"toolConfig": {"tools": []}},
    "converse-tool-name": converse_tool("find it"),
    "converse-tool-description": converse_tool(description=""),
    "converse-schema-type": converse_tool(schema={"properties": {}}),
    "converse-schema-valid": converse_tool(schema={**SCHEMA, "required": None}),
    "converse-tool-choice": {"toolConfig": {**converse_tool()["toolConfig"], "toolChoice": {"none": {}}}},
    "converse-call-id": {
        "messages": [blocks("user", TEXT_BLOCK), blocks("assistant", converse_use("c 1")), blocks("user", TEXT_BLOCK)]
    },
    "converse-call-ids-unique": {
        "messages": [
            blocks("user", TEXT_BLOCK),
            blocks("assistant", converse_use(), converse_use()),
            blocks("user", converse_result()),
        ]
    },
    "converse-call-input": {
        "messages": [
            blocks("user", TEXT_BLOCK),
            blocks("assistant", converse_use(input="{}")),
            blocks("user", TEXT_BLOCK),
        ]
    },
    "converse-missing-result": {
        "messages": [blocks("user", TEXT_BLOCK), blocks("assistant", converse_use()), blocks("user", TEXT_BLOCK)]
    },
    "converse-result-without-call": asks_converse(converse_result()),
    "converse-result-content": {
        "messages": [
            blocks("user", TEXT_BLOCK),
            blocks("assistant", converse_use()),
            blocks("user", converse_result(status="error", content=[])),
        ]
    },
    "converse-results-alone": {
        "messages": [
            blocks("user", TEXT_BLOCK),
            blocks("assistant", converse_use()),
            blocks("user", converse_result(), TEXT_BLOCK),
        ]
    },
    "converse-temperature": {"inferenceConfig": {"temperature": 1.5}},
    "converse-system": {"system": [{"text": ""}]},
    "converse-thinking-signature": {
        "messages": [
            blocks("user", TEXT_BLOCK),
            blocks("assistant", {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "another's"}}}),
        ]
    },
    "converse-thinking-budget": {
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1000}}
    },
    "converse-thinking-forced": {
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        "inferenceConfig": {"temperature": 0.5},
    },
    "converse-foreign-field": {"additionalModelRequestFields": {"top_k": 5}},
}
PATHS = {
    ApiFamily.CONVERSE: "/model/llama4/converse",
    "converse-thinking-budget": "/model/anthropic.claude-sonnet-4-5/converse",
    "converse-thinking-forced": "/model/anthropic.claude-sonnet-4-5/converse",
}
"""Paths of requests, by API or rule, for rules that depend on the model in the path."""
VALID = {
    ApiFamily.CHAT: CHAT,
    ApiFamily.RESPONSES: RESPONSES,
    ApiFamily.MESSAGES: MESSAGES,
    ApiFamily.GEMINI: GEMINI,
    ApiFamily.CONVERSE: CONVERSE,
}
BETAS = {**VERSION, "anthropic-beta": "message-threads-2026-08-12"}
BETAS_CASES = {"messages-thread", "messages-thread-fields"}
CASES = {**CHAT_CASES, **RESPONSES_CASES, **MESSAGES_CASES, **GEMINI_CASES, **CONVERSE_CASES}


def scripted_api(family: ApiFamily) -> ScriptedApi:
    """A scripted API. The Responses API has a stored answer with a thought and a call, and the Messages API has a
    thread."""
    responses = ResponsesApi(draft_error)
    responses.whole_body(ScriptedTurn(thoughts=["Hm"], calls=[ScriptedCall("find")]), 1, {"input": "Find it"})
    messages = AnthropicApi(draft_error)
    messages.whole_body(ScriptedTurn("Hello"), 1, {"messages": [USER_MESSAGE], "thread": {"type": "create"}})
    apis: dict[ApiFamily, ScriptedApi] = {
        ApiFamily.CHAT: ChatApi(draft_error),
        ApiFamily.RESPONSES: responses,
        ApiFamily.MESSAGES: messages,
        ApiFamily.GEMINI: GeminiApi(draft_error),
        ApiFamily.CONVERSE: BedrockApi(draft_error),
    }
    return apis[family]


def error_of(rule: RequestRule, message: str, param: str | None) -> dict[str, Any]:
    """Body of the error, in the form that the API documents."""
    if rule.api is ApiFamily.MESSAGES:
        details = {} if rule.code is None else {"details": {"error_code": rule.code}}
        return {"type": "error", "error": {"type": rule.type, "message": message, **details}}
    if rule.api is ApiFamily.GEMINI:
        return {"error": {"code": rule.status, "message": message, "status": rule.type}}
    if rule.api is ApiFamily.CONVERSE:
        return {"message": message}
    return {"error": {"message": message, "type": rule.type, "param": param, "code": rule.code}}


def test_each_rule_of_the_list_has_a_request_that_breaks_it() -> None:
    assert CASES.keys() == {name for name, rule in RULES.items() if rule.api not in SPEECH}


@pytest.mark.parametrize("package", ["openai", "anthropic", "google"])
def test_rules_name_types_that_the_sdk_has(package: str) -> None:
    pytest.importorskip(package, reason=f"the SDK is not installed (fairlead[dev]): {package}")
    for rule in RULES.values():
        if rule.source.startswith(f"{package}."):
            assert_in_sdk(rule.source)


def test_rules_name_a_page_or_a_type_as_their_source() -> None:
    places = ("https://", "openai.types.", "anthropic.types.", "google.genai.types.")
    assert [rule.name for rule in RULES.values() if not rule.source.startswith(places)] == []


def assert_in_sdk(path: str) -> None:
    """Assert that an SDK has the class, or the member of a class, at a dotted path."""
    owner, _, name = path.rpartition(".")
    value = pkgutil.resolve_name(owner)
    members = {**getattr(value, "__annotations__", {}), **getattr(value, "model_fields", {})}
    assert name in members or hasattr(value, name), path


@pytest.mark.parametrize("family", VALID)
def test_valid_requests_are_taken(family: ApiFamily) -> None:
    assert scripted_api(family).refusal(PATHS.get(family, ""), VALID[family], VERSION) is None


@pytest.mark.parametrize("name", CASES)
def test_requests_that_break_a_rule_get_its_error(name: str) -> None:
    rule = RULES[name]
    headers = {} if name == "messages-version" else BETAS if name in BETAS_CASES else VERSION
    path = PATHS.get(name, PATHS.get(rule.api, ""))
    rejected = scripted_api(rule.api).refusal(path, {**VALID[rule.api], **CASES[name]}, headers)
    assert rejected is not None
    status, body = rejected
    error = json.loads(body)
    told = error if rule.api is ApiFamily.CONVERSE else error["error"]
    assert (status, error) == (rule.status, error_of(rule, told["message"], told.get("param")))
    assert_fits(told["message"], rule.message)
    if rule.param is not None:
        assert_fits(told["param"], rule.param)


def assert_fits(text: str, template: str) -> None:
    """Assert that a text is an instance of a template, whatever values it contains."""
    pieces = [(re.escape(literal), "" if name is None else ".*") for literal, name, *_ in Formatter().parse(template)]
    assert re.fullmatch("".join(itertools.chain(*pieces)), text, re.DOTALL), (text, template)


def test_tokens_are_counted_without_max_tokens() -> None:
    request = {**MESSAGES, "max_tokens": None}
    assert scripted_api(ApiFamily.MESSAGES).refusal("/v1/messages/count_tokens", request, VERSION) is None


def test_gemini_counts_calls_and_responses_in_either_spelling() -> None:
    snake = {"function_response": {"name": "find", "response": {"output": "found"}}}
    mixed = [HELLO, content("model", call_part(), call_part()), content("user", snake, response_part())]
    api = scripted_api(ApiFamily.GEMINI)
    assert api.refusal("", {**GEMINI, "contents": mixed}, {}) is None
    rejected = api.refusal("", {**GEMINI, "contents": [*mixed[:2], content("user", snake)]}, {})
    assert rejected is not None
    assert "number of function response parts" in rejected[1].decode()


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("gemini-2.5-flash", []),
        ("gemini-3-pro-preview", ["low", "high"]),
        ("gemini-3.1-pro-preview", ["low", "medium", "high"]),
        ("gemini-3-flash-preview", ["minimal", "low", "medium", "high"]),
    ],
)
def test_gemini_takes_the_thinking_levels_of_the_model(model: str, taken: list[str]) -> None:
    for level in ("minimal", "low", "medium", "high"):
        request = {**GEMINI, "generationConfig": {"thinkingConfig": {"thinkingLevel": level}}}
        refusal = scripted_api(ApiFamily.GEMINI).refusal(f"/v1beta/models/{model}:generateContent", request, {})
        assert (refusal is None) == (level in taken)


def test_gemini_before_3_takes_calls_without_signatures() -> None:
    request = {**GEMINI, **GEMINI_CASES["gemini-missing-signature"]}
    path = "/v1beta/models/gemini-2.5-flash:generateContent"
    assert scripted_api(ApiFamily.GEMINI).refusal(path, request, {}) is None
