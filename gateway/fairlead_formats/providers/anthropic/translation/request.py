"""Conversion of requests between Anthropic Messages and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.claude_thinking import (
    ADAPTIVE,
    MIN_BUDGET,
    adaptive_effort,
    claude_thinking,
    never_thinks,
    thinks_adaptively,
)
from fairlead_formats.neutral.conversation import (
    BEGINNING,
    NeutralRequest,
    OutputSchema,
    SamplingSettings,
    ToolChoice,
    parse_effort,
)
from fairlead_formats.neutral.members import RequestMembers, report_extras, require_messages
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.providers.anthropic.threads import THREAD, refuse_continuation
from fairlead_formats.providers.anthropic.translation.messages import read_messages, write_messages
from fairlead_formats.wire.protocol import BadRequest, TranslationLosses

MOST_TOKENS: Final = 16_384
"""Maximum of the `max_tokens` that the gateway sets. A whole answer of this size arrives before requests time out."""
_OLDER_MODELS: Final = ((re.compile(r"claude-3-[57]"), 8192), (re.compile(r"claude-(3|2|instant)"), 4096))
"""Largest `max_tokens` of older models, by pattern of the model name."""
_encode: Final = msgspec.json.Encoder().encode


def read_request(
    body: Mapping[str, Any], model: str | None, stream: bool | None, losses: TranslationLosses
) -> NeutralRequest:
    """Read a client's request. Raises BadRequest."""
    members = RequestMembers(body, losses)
    model = members.model()
    members.leave_out("fairlead")
    refuse_continuation(members.first(THREAD))
    members.refuse("mcp_servers", "only Anthropic runs MCP servers; name servers of the gateway instead")
    turns = read_messages(require_messages(members, "messages", "content"), losses)
    tool_choice = members.first("tool_choice")
    tools, system = members.first("tools"), tuple(_system(members.first("system"), losses))
    settings = _settings(members, tool_choice)
    streams = bool(members.flag("stream"))
    members.report_rest()
    return NeutralRequest(
        model=model,
        stream=streams,
        system=system,
        turns=turns,
        tools=tools,
        choice=_choice(tool_choice),
        settings=settings,
    )


def _system(system: object, losses: TranslationLosses) -> list[str]:
    if isinstance(system, str):
        return [system]
    for block in items(system):
        report_extras(block, losses, "text")
    return [text_of(member(block, "text")) for block in items(system)]


def _settings(members: RequestMembers, choice: object) -> SamplingSettings:
    thinking, config = members.first("thinking"), members.first("output_config")
    kind = member(thinking, "type")
    budget = member(thinking, "budget_tokens") if kind == "enabled" else None
    effort = parse_effort(member(config, "effort"))
    form = member(config, "format") or members.first("output_format")
    schema = member(form, "schema")
    metadata = RequestMembers(members.first("metadata"), TranslationLosses())
    is_single_call = member(choice, "disable_parallel_tool_use")
    return SamplingSettings(
        max_tokens=members.positive_integer("max_tokens"),
        temperature=members.number("temperature"),
        top_p=members.number("top_p"),
        top_k=members.positive_integer("top_k"),
        stop=members.texts("stop_sequences"),
        effort="none" if kind == "disabled" else effort,
        budget=budget if isinstance(budget, int) and not isinstance(budget, bool) else None,
        include_reasoning=kind in ("enabled", "adaptive") and member(thinking, "display") != "omitted",
        parallel=False if is_single_call is True else None,
        user=metadata.text("user_id"),
        output=OutputSchema(schema) if isinstance(schema, dict) else None,
    )


def _choice(tool_choice: object) -> ToolChoice | None:
    kind, name = member(tool_choice, "type"), member(tool_choice, "name")
    if kind == "tool":
        return ToolChoice("required", (name,)) if isinstance(name, str) else None
    by_type: dict[Any, ToolChoice] = {
        "auto": ToolChoice("auto"),
        "any": ToolChoice("required"),
        "none": ToolChoice("none"),
    }
    return by_type.get(text_of(kind))


def write_request(
    request: NeutralRequest, tools: TranslatedTools, choice: ToolChoice | None, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a request to the provider, except the members that depend on the model (`adapt_to_model`)."""
    settings, written_turns = request.settings, write_messages(request.turns, losses)
    system = [text for text in (*request.system, *written_turns.system) if text.strip()]
    body: dict[str, Any] = {"model": request.model, "messages": written_turns.messages}
    if not written_turns.messages:
        raise BadRequest("messages: the request needs at least one user message", "messages")
    _begin_with_user(written_turns.messages, losses)
    if system:
        body["system"] = "\n\n".join(system)
    if request.stream:
        body["stream"] = True
    if tools.definitions:
        body["tools"] = tools.definitions
        tool_choice = _write_choice(choice, settings.parallel, losses)
        if tool_choice:
            body["tool_choice"] = tool_choice
    if settings.max_tokens is not None:
        body["max_tokens"] = settings.max_tokens
    if settings.user is not None:
        body["metadata"] = {"user_id": settings.user[:256]}
    if settings.stop:
        body["stop_sequences"] = list(settings.stop)
    if settings.output is not None and settings.output.schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": settings.output.schema}}
    elif settings.output is not None:
        losses.add("json_object")
    thinking = claude_thinking(request, choice, losses)
    if thinking:
        body["thinking"] = thinking
    _write_sampling(body, settings, losses, thinks=bool(thinking))
    return body


def _begin_with_user(messages: list[dict[str, Any]], losses: TranslationLosses) -> None:
    """Put a user message in front if the first message is the model's: the API refuses such a conversation."""
    if messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": BEGINNING}]})
        losses.add("first_message")


def _write_sampling(
    body: dict[str, Any], settings: SamplingSettings, losses: TranslationLosses, *, thinks: bool
) -> None:
    """Write the sampling settings that the API accepts: temperatures up to 1, and no setting together with thinking."""
    for name in ("seed", "frequency_penalty", "presence_penalty"):
        if getattr(settings, name):
            losses.add(name)
    for name in settings.openai_only:
        losses.add(name)
    for name in ("temperature", "top_p", "top_k"):
        value = getattr(settings, name)
        if value is None:
            continue
        if thinks or (name == "top_p" and settings.temperature is not None):  # newer models refuse both together
            losses.add(name)
        elif name == "temperature" and value > 1:
            losses.add(name)
            body[name] = 1
        else:
            body[name] = value


def _write_choice(choice: ToolChoice | None, parallel: bool | None, losses: TranslationLosses) -> dict[str, Any] | None:
    tool_choice: dict[str, Any] = {"type": "auto"}
    if choice is not None and choice.mode == "none":
        return {"type": "none"}
    if choice is not None and choice.mode == "required":
        tool_choice = {"type": "any"}
    if choice is not None and choice.names:
        if tool_choice["type"] == "any" and len(choice.names) == 1:
            tool_choice = {"type": "tool", "name": choice.names[0]}
        else:
            losses.add("tool_choice")
    if parallel is False:
        tool_choice["disable_parallel_tool_use"] = True
    return None if choice is None and parallel is not False else tool_choice


def adapt_to_model(members: dict[str, Raw], model: str, window: int, losses: TranslationLosses) -> None:
    """Set the members that depend on the model: `max_tokens` and `thinking`.

    The API requires `max_tokens`. If the client sets none, it is an eighth of the context window (`window`, in tokens),
    at most `MOST_TOKENS` or an older model's limit, plus the thinking budget. For models without thinking, `thinking`
    is removed; for newer models its budget becomes an effort of adaptive thinking.
    """
    thinking = msgspec.json.decode(members.get("thinking", b"{}"))
    if thinking and never_thinks(model):
        del members["thinking"]
        losses.add("reasoning")
        thinking = {}
    if "max_tokens" not in members:
        limit = next((tokens for pattern, tokens in _OLDER_MODELS if pattern.search(model)), MOST_TOKENS)
        tokens = min(limit, max(window // 8, MIN_BUDGET))
        members["max_tokens"] = Raw(_encode(tokens + thinking.get("budget_tokens", 0)))
    if thinking and thinks_adaptively(model):
        config = msgspec.json.decode(members.get("output_config", b"{}"))
        config["effort"] = adaptive_effort(thinking)
        members |= {"thinking": Raw(_encode(ADAPTIVE)), "output_config": Raw(_encode(config))}
