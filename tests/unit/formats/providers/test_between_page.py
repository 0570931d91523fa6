"""The page about clients with providers of other families agrees with the code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from fairlead_formats.neutral.answers import ReportedUsage, StopReason, TranslatedAnswer
from fairlead_formats.neutral.conversation import BUDGETS, NeutralRequest
from fairlead_formats.neutral.provider_errors import ErrorKind, ProviderRefusal
from fairlead_formats.neutral.tools import translate_choice
from fairlead_formats.pairs.families import FAMILIES
from fairlead_formats.pairs.tools_for import translate_tools
from fairlead_formats.providers.anthropic import errors as anthropic_errors
from fairlead_formats.providers.bedrock import errors as bedrock_errors
from fairlead_formats.providers.gemini import errors as gemini_errors
from fairlead_formats.providers.openai_chat import errors as openai_errors
from fairlead_formats.wire.protocol import TranslationLosses

PAGE = Path("docs/connect/between-providers.md").read_text()
CHAT, RESPONSES, MESSAGES, GEMINI, BEDROCK = FAMILIES
TITLES = {CHAT: "chat", RESPONSES: "Responses", MESSAGES: "Messages", GEMINI: "Gemini", BEDROCK: "Bedrock"}
HI = {"role": "user", "content": "Hi"}
ANSWER = {"role": "assistant", "content": "Hello"}
TOOL = {"type": "object", "properties": {}}
TOOLS: dict[str, Any] = {
    CHAT: [{"type": "function", "function": {"name": name, "parameters": TOOL}} for name in ("one", "two")],
    RESPONSES: [{"type": "function", "name": name, "parameters": TOOL, "strict": False} for name in ("one", "two")],
    MESSAGES: [{"name": name, "input_schema": TOOL} for name in ("one", "two")],
    GEMINI: [{"functionDeclarations": [{"name": name, "parametersJsonSchema": TOOL} for name in ("one", "two")]}],
    BEDROCK: [{"toolSpec": {"name": name, "inputSchema": {"json": TOOL}}} for name in ("one", "two")],
}
PLAIN: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": [HI]},
    RESPONSES: {"model": "m", "input": [HI]},
    MESSAGES: {"model": "m", "max_tokens": 4096, "messages": [HI]},
    GEMINI: {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    BEDROCK: {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
}


def _user(source: str, part: dict[str, Any]) -> dict[str, Any]:
    """A request whose message has one additional part."""
    if source == GEMINI:
        return {"contents": [{"role": "user", "parts": [{"text": "Hi"}, part]}]}
    if source == BEDROCK:
        return {"messages": [{"role": "user", "content": [{"text": "Hi"}, part]}]}
    text = {"type": "input_text" if source == RESPONSES else "text", "text": "Hi"}
    return {FAMILIES[source].messages_member: [{"role": "user", "content": [text, part]}]}


def _assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [HI, {"role": "assistant", "content": [*blocks, {"type": "text", "text": "Yes"}]}, HI]}


def _config(**members: Any) -> dict[str, Any]:
    return {"generationConfig": members}


SCHEMA = {"type": "object"}
ALLOWED = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "one"}}]}
ROWS: list[tuple[str, str, dict[str, Any]]] = [
    (
        "an image by its data",
        CHAT,
        _user(CHAT, {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}),
    ),
    ("an image by its address", CHAT, _user(CHAT, {"type": "image_url", "image_url": {"url": "https://a.b/c.png"}})),
    (
        "`detail` of an image",
        CHAT,
        _user(CHAT, {"type": "image_url", "image_url": {"url": "https://a.b/c.png", "detail": "high"}}),
    ),
    (
        "a PDF by its data",
        CHAT,
        _user(CHAT, {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}}),
    ),
    ("a file by its id", CHAT, _user(CHAT, {"type": "file", "file": {"file_id": "file-1"}})),
    ("`input_audio`", CHAT, _user(CHAT, {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}})),
    ("words of the system amid the conversation", CHAT, {"messages": [HI, {"role": "developer", "content": "x"}, HI]}),
    ("a conversation that the assistant begins", CHAT, {"messages": [ANSWER, HI]}),
    ("a last message of the assistant's", CHAT, {"messages": [HI, ANSWER]}),
    (
        "arguments of an earlier call that are not JSON",
        CHAT,
        {
            "messages": [
                HI,
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "one", "arguments": "{"}}],
                },
                {"role": "tool", "tool_call_id": "c", "content": "no"},
            ]
        },
    ),
    ("`temperature`, `top_p`", CHAT, {"temperature": 0.5}),
    ("`stop`", CHAT, {"stop": ["a"]}),
    ("`seed`", CHAT, {"seed": 1}),
    ("`frequency_penalty`, `presence_penalty`", CHAT, {"frequency_penalty": 1}),
    ("`user`", CHAT, {"user": "u"}),
    ("`metadata`, `service_tier`, `prompt_cache_key`, `verbosity`", CHAT, {"metadata": {"a": "b"}}),
    (
        "`response_format` with a schema",
        CHAT,
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
    ),
    ("`response_format: json_object`", CHAT, {"response_format": {"type": "json_object"}}),
    ("`reasoning_effort`", CHAT, {"reasoning_effort": "medium"}),
    ("`parallel_tool_calls: false`", CHAT, {"tools": TOOLS[CHAT], "parallel_tool_calls": False}),
    (
        "`tool_choice` of some tools",
        CHAT,
        {"tools": TOOLS[CHAT], "tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED}},
    ),
    ("`n`, `logprobs`, `logit_bias`, all else", CHAT, {"n": 2}),
    ("`custom` tools", CHAT, {"tools": [*TOOLS[CHAT], {"type": "custom", "custom": {"name": "free"}}]}),
    (
        "the grammar of a `custom` tool",
        CHAT,
        {
            "tools": [
                {
                    "type": "custom",
                    "custom": {
                        "name": "free",
                        "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}},
                    },
                }
            ]
        },
    ),
    (
        "`reasoning` items",
        RESPONSES,
        {"input": [HI, {"type": "reasoning", "id": "rs", "summary": []}, {"role": "assistant", "content": "Yes"}, HI]},
    ),
    ("a document by its address", RESPONSES, _user(RESPONSES, {"type": "input_file", "file_url": "https://a.b/c.pdf"})),
    ("hosted tools", RESPONSES, {"tools": [*TOOLS[RESPONSES], {"type": "web_search"}]}),
    ("`top_k`", MESSAGES, {"top_k": 5}),
    ("`thinking` with a budget", MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
    ("`thinking` blocks", MESSAGES, _assistant({"type": "thinking", "thinking": "x", "signature": "y"})),
    ("`cache_control`", MESSAGES, {"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]}),
    (
        "tools with a date in their type",
        MESSAGES,
        {"tools": [*TOOLS[MESSAGES], {"type": "web_search_20250305", "name": "web_search"}]},
    ),
    ("`defer_loading` of a tool", MESSAGES, {"tools": [{**TOOLS[MESSAGES][0], "defer_loading": True}]}),
    (
        "`disable_parallel_tool_use`",
        MESSAGES,
        {"tools": TOOLS[MESSAGES], "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    ("`thinkingBudget`", GEMINI, _config(thinkingConfig={"thinkingBudget": 1024})),
    ("`responseSchema`", GEMINI, _config(responseMimeType="application/json", responseSchema={"type": "OBJECT"})),
    ("`safetySettings`", GEMINI, {"safetySettings": [{"category": "x", "threshold": "y"}]}),
    ("`googleSearch`, `codeExecution`", GEMINI, {"tools": [*TOOLS[GEMINI], {"googleSearch": {}}]}),
    (
        "`allowedFunctionNames`",
        GEMINI,
        {
            "tools": TOOLS[GEMINI],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["one", "two"]}},
        },
    ),
    ("sound as `inlineData`", GEMINI, _user(GEMINI, {"inlineData": {"mimeType": "audio/wav", "data": "QQ=="}})),
    ("`cachePoint`", BEDROCK, _user(BEDROCK, {"cachePoint": {"type": "default"}})),
    (
        "a file in S3",
        BEDROCK,
        _user(BEDROCK, {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://a/b.png"}}}}),
    ),
    ("`guardrailConfig`", BEDROCK, {"guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"}}),
    (
        "Claude's `thinking` in `additionalModelRequestFields`",
        BEDROCK,
        {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}}},
    ),
    ("`systemTool`", BEDROCK, {"toolConfig": {"tools": [*TOOLS[BEDROCK], {"systemTool": {"name": "nova_grounding"}}]}}),
]


def _translation_losses(source: str, target: str, members: dict[str, Any]) -> list[str]:
    losses = TranslationLosses()
    family = FAMILIES[source]
    request = family.requests.read_request(PLAIN[source] | members, "m", False, losses)
    tools = translate_tools(request.tools, source, target, losses)
    FAMILIES[target].requests.write_request(request, tools, translate_choice(request.choice, tools, losses), losses)
    return [*losses]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(row)} |" for row in [head, *rows]]
    return [lines[0], "|---" * len(head) + "|", *lines[1:]]


def requests() -> list[str]:
    """Table rows about losses of requests."""
    rows = []
    for label, source, members in ROWS:
        cells = []
        for target in FAMILIES:
            lost = [] if target == source else _translation_losses(source, target, members)
            cells.append("–" if target == source else ", ".join(f"`{code}`" for code in lost) or "kept")
        rows.append([TITLES[source], label, *cells])
    return _table(["client", "sends", *TITLES.values()], rows)


def stops() -> list[str]:
    """Table rows about stop reasons, as each family's clients see them."""
    request = NeutralRequest(model="m", stream=False, system=(), turns=())
    rows = []
    for stop in get_args(StopReason):
        answer = TranslatedAnswer("a", "m", 0, (), stop)
        cells = []
        for family in FAMILIES.values():
            body = family.answers.write_answer(answer, ReportedUsage(), request, TranslationLosses())
            details = body.get("incomplete_details") or {}
            first = (body.get("choices") or body.get("candidates") or [body])[0]
            told = [
                first.get(name) for name in ("finish_reason", "stop_reason", "finishReason", "stopReason", "status")
            ]
            word = next(each for each in told if each)
            cells.append(f"`{word}`" + (f" (`{details['reason']}`)" if details else ""))
        rows.append([MEANINGS[stop], *cells])
    return _table(["the model", *TITLES.values()], rows)


MEANINGS: dict[StopReason, str] = {
    "end": "ended",
    "sequence": "met a stop sequence",
    "calls": "calls tools of the caller's",
    "length": "reached the bound of tokens",
    "context": "filled its window",
    "filter": "was filtered",
    "refusal": "refused, without words of its own for that",
    "pause": "paused",
    "malformed": "wrote a call that nobody can read",
}


def failures() -> list[str]:
    """Table rows about errors, as each family's clients see them."""
    rows = []
    for kind in get_args(ErrorKind):
        refusal = ProviderRefusal(kind, "")
        openai = openai_errors.write_refusal(refusal)
        anthropic = anthropic_errors.write_refusal(refusal)
        gemini = gemini_errors.write_refusal(refusal)
        bedrock = bedrock_errors.write_refusal(refusal)
        told = openai[1]["code"] or openai[1]["type"]
        rows.append(
            [
                kind.replace("_", " "),
                f"{openai[0]} `{told}`",
                f"{anthropic[0]} `{anthropic[1]['type']}`",
                f"{gemini[0]} `{gemini[1]['status']}`",
                f"{bedrock[0]} `{bedrock[1]['__type']}`",
            ]
        )
    return _table(["failure", "chat, Responses", "Messages", "Gemini", "Bedrock"], rows)


@pytest.mark.parametrize("table", [requests, stops, failures])
def test_each_table_of_the_page_is_as_computed(table: Any) -> None:
    assert "\n".join(table()) in PAGE


def test_the_page_has_the_table_of_efforts() -> None:
    assert ", ".join(f"`{effort}` {budget:,}" for effort, budget in BUDGETS.items()) in PAGE
