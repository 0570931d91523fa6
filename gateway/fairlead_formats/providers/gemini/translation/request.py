"""Conversion of requests between Gemini's API and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.conversation import (
    BEGINNING,
    GO_ON,
    NeutralRequest,
    OutputSchema,
    SamplingSettings,
    ToolChoice,
    budget_of,
    effort_of,
    parse_effort,
)
from fairlead_formats.neutral.members import RequestMembers, require_messages
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.providers.gemini.openapi import from_openapi
from fairlead_formats.providers.gemini.thinking import level_for, levels_of
from fairlead_formats.providers.gemini.translation.messages import read_messages, write_messages
from fairlead_formats.schema.budget import TooMuch
from fairlead_formats.wire.protocol import BadRequest, TranslationLosses

JSON: Final = "application/json"
NO_SIGNATURE: Final = "skip_thought_signature_validator"
"""Signature for calls that another model made. Gemini 3 requires a signature on the first call of a turn. Source:
Google, "Thought signatures".
"""
MIN_BUDGET: Final = 128
"""Minimum thinking budget, in tokens, of models whose thinking cannot be switched off."""
_MODELS_WITH_SIGNATURES: Final = re.compile(r"gemini-(?:[3-9]|\d\d)")
_ALWAYS_THINKS: Final = re.compile(r"gemini-2\.5-pro")
_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def read_request(
    body: Mapping[str, Any], model: str | None, stream: bool | None, losses: TranslationLosses
) -> NeutralRequest:
    """Read a client's request. `model` and `stream` come from the path of the request. Raises BadRequest."""
    members = RequestMembers(body, losses)
    members.refuse("cachedContent", "only Gemini has this cache; send the whole conversation in `contents`")
    members.leave_out("fairlead", "model")
    turns = read_messages(require_messages(members, "contents", "parts", is_text=False), losses)
    system = members.first("systemInstruction", "system_instruction")
    parts = items(member(system, "parts")) if isinstance(system, dict) else [{"text": system}]
    config = RequestMembers(members.first("generationConfig", "generation_config"), losses)
    choice = _choice(members.first("toolConfig", "tool_config"))
    if (config.positive_integer("candidateCount", "candidate_count") or 1) != 1:
        losses.add("candidateCount")
    settings = _settings(config)
    config.report_rest()
    tools = members.first("tools")
    members.report_rest()
    texts = tuple(text for text in (text_of(member(part, "text")) for part in parts) if text)
    return NeutralRequest(
        model=model or "", stream=bool(stream), system=texts, turns=turns, tools=tools, choice=choice, settings=settings
    )


def _settings(config: RequestMembers) -> SamplingSettings:
    thinking = config.first("thinkingConfig", "thinking_config")
    budget = member(thinking, "thinkingBudget", "thinking_budget")
    config.leave_out("responseModalities")
    return SamplingSettings(
        max_tokens=config.positive_integer("maxOutputTokens", "max_output_tokens"),
        temperature=config.number("temperature"),
        top_p=config.number("topP", "top_p"),
        top_k=config.positive_integer("topK", "top_k"),
        seed=config.positive_integer("seed"),
        frequency_penalty=config.number("frequencyPenalty", "frequency_penalty"),
        presence_penalty=config.number("presencePenalty", "presence_penalty"),
        stop=config.texts("stopSequences", "stop_sequences"),
        effort=parse_effort(member(thinking, "thinkingLevel", "thinking_level")),
        budget=budget if isinstance(budget, int) and budget >= 0 else None,
        include_reasoning=member(thinking, "includeThoughts", "include_thoughts") is True,
        output=_output(config),
    )


def _output(config: RequestMembers) -> OutputSchema | None:
    mime = config.text("responseMimeType", "response_mime_type")
    schema = config.first("responseJsonSchema", "response_json_schema")
    openapi_schema = config.first("responseSchema", "response_schema")
    if schema is None and isinstance(openapi_schema, dict):
        try:
            schema = from_openapi(openapi_schema)
        except TooMuch as error:
            raise BadRequest(f"generationConfig.responseSchema: {error}", "generationConfig.responseSchema") from error
    if isinstance(schema, dict):
        return OutputSchema(schema)
    return OutputSchema(None) if mime == JSON else None


def _choice(tool_config: object) -> ToolChoice | None:
    config = member(tool_config, "functionCallingConfig", "function_calling_config")
    names = tuple(
        name
        for name in items(member(config, "allowedFunctionNames", "allowed_function_names"))
        if isinstance(name, str)
    )
    mode = text_of(member(config, "mode")).upper()
    if mode == "NONE":
        return ToolChoice("none")
    return {
        "ANY": ToolChoice("required", names),
        "AUTO": ToolChoice("auto"),
        "VALIDATED": ToolChoice("auto", names),
    }.get(mode)


def write_request(
    request: NeutralRequest, tools: TranslatedTools, choice: ToolChoice | None, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a request to the provider."""
    settings, written_turns = request.settings, write_messages(request.turns, losses)
    if not written_turns.messages:
        raise BadRequest("messages: the request needs at least one user message", "messages")
    _complete_turns(written_turns.messages, losses)
    body: dict[str, Any] = {"contents": written_turns.messages}
    system = [{"text": text} for text in (*request.system, *written_turns.system) if text]
    if system:
        body["systemInstruction"] = {"parts": system}
    if tools.definitions:
        body["tools"] = tools.definitions
    if choice is not None:
        body["toolConfig"] = {"functionCallingConfig": _write_choice(choice)}
    if settings.parallel is False:
        losses.add("parallel_tool_calls")
    if settings.user is not None:
        losses.add("user")
    for name in settings.openai_only:
        losses.add(name)
    config = _config(settings)
    if config:
        body["generationConfig"] = config
    return body


def _complete_turns(contents: list[dict[str, Any]], losses: TranslationLosses) -> None:
    """Add user messages where the API requires them: before a call at the beginning of the conversation, and after text
    of the model at its end. A call at the end needs no such message, because its result follows later.
    """
    if contents[0]["role"] == "model" and _has_call(contents[0]):
        contents.insert(0, {"role": "user", "parts": [{"text": BEGINNING}]})
        losses.add("first_message")
    if contents[-1]["role"] == "model" and not _has_call(contents[-1]):
        contents.append({"role": "user", "parts": [{"text": GO_ON}]})
        losses.add("last_message")


def _has_call(content: dict[str, Any]) -> bool:
    return any("functionCall" in part for part in content["parts"])


def _config(settings: SamplingSettings) -> dict[str, Any]:
    output, budget = settings.output, budget_of(settings)
    thinking = {} if budget is None else {"thinkingBudget": budget}
    if settings.include_reasoning:
        thinking["includeThoughts"] = True
    members = {
        "maxOutputTokens": settings.max_tokens,
        "temperature": settings.temperature,
        "topP": settings.top_p,
        "topK": settings.top_k,
        "seed": settings.seed,
        "frequencyPenalty": settings.frequency_penalty,
        "presencePenalty": settings.presence_penalty,
        "stopSequences": list(settings.stop) or None,
        "responseMimeType": None if output is None else JSON,
        "responseJsonSchema": None if output is None else output.schema,
        "thinkingConfig": thinking or None,
    }
    return {name: value for name, value in members.items() if value is not None}


def _write_choice(choice: ToolChoice) -> dict[str, Any]:
    if choice.mode == "required":
        return {"mode": "ANY", **({"allowedFunctionNames": list(choice.names)} if choice.names else {})}
    if choice.names and choice.mode == "auto":
        return {"mode": "VALIDATED", "allowedFunctionNames": list(choice.names)}
    return {"mode": choice.mode.upper()}


def adapt_to_model(members: dict[str, Raw], model: str, window: int, losses: TranslationLosses) -> None:
    """Adapt members of a request to the model: add signatures to calls of other models if the model requires
    signatures, and write the thinking budget as a level if the model takes levels. If the client switches off thinking
    but the model always thinks, the model gets its minimum.
    """
    if _MODELS_WITH_SIGNATURES.search(model) and b'"functionCall"' in bytes(members.get("contents", b"")):
        contents = _decode(members["contents"])
        for content in contents:
            first_call = next((part for part in content.get("parts", ()) if "functionCall" in part), None)
            if first_call is not None and "thoughtSignature" not in first_call:
                first_call["thoughtSignature"] = NO_SIGNATURE
        members["contents"] = Raw(_encode(contents))
    if b'"thinkingBudget":' in bytes(members.get("generationConfig", b"")):
        config = _decode(members["generationConfig"])
        _adapt_thinking(config["thinkingConfig"], model, losses)
        members["generationConfig"] = Raw(_encode(config))


def _adapt_thinking(thinking: dict[str, Any], model: str, losses: TranslationLosses) -> None:
    budget, levels = thinking["thinkingBudget"], levels_of(model)
    if budget == 0 and (levels or _ALWAYS_THINKS.search(model)):
        losses.add("reasoning")
        thinking["thinkingBudget"] = MIN_BUDGET
    if levels:
        del thinking["thinkingBudget"]
        thinking["thinkingLevel"] = level_for(effort_of(budget), levels)
