"""Conversion of requests between OpenAI Responses and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.neutral.conversation import (
    MessageTurn,
    NeutralRequest,
    SamplingSettings,
    TextPart,
    ToolChoice,
    leading_system,
    parse_effort,
)
from fairlead_formats.neutral.members import RequestMembers, require_messages
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.providers.openai_chat.translation.members_of_both_apis import (
    SHARED_SETTINGS,
    read_choice,
    read_output,
    refuses_reasoning,
    write_output,
    write_tools,
)
from fairlead_formats.providers.openai_responses.mcp_tools import SCHEME
from fairlead_formats.providers.openai_responses.translation.messages import read_messages, write_messages
from fairlead_formats.wire.protocol import TranslationLosses

MIN_OUTPUT_TOKENS: Final = 16
"""Minimum `max_output_tokens` that the API accepts."""
REPEATED_MEMBERS: Final = (
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "instructions",
    "temperature",
    "top_p",
    "metadata",
    "text",
    "reasoning",
    "max_output_tokens",
    "truncation",
    "user",
    "store",
)
"""Request members that the response repeats."""
_WHY_NOT_STORED: Final = "only a provider of OpenAI Responses stores it; send the whole conversation in `input`"


def read_request(
    body: Mapping[str, Any], model: str | None, stream: bool | None, losses: TranslationLosses
) -> NeutralRequest:
    """Read a client's request. Raises BadRequest."""
    members = RequestMembers(body, losses)
    model = members.model()
    for name in ("previous_response_id", "conversation", "prompt"):
        members.refuse(name, _WHY_NOT_STORED)
    members.refuse("background", "only a provider of OpenAI Responses answers in the background; leave it out")
    members.leave_out("fairlead", "store", "stream_options", "include", "truncation")
    if isinstance(body.get("input"), str) and body["input"]:
        members.leave_out("input")
        turns: tuple[MessageTurn, ...] = (MessageTurn("user", (TextPart(body["input"]),)),)
    else:
        turns = read_messages(require_messages(members, "input", "content"), losses)
    instructions = members.text("instructions")
    system, turns = leading_system(turns)
    tools = [tool for tool in items(members.first("tools")) if not _names_gateway_server(tool)]
    choice = read_choice(members.first("tool_choice"))
    streams, settings = bool(members.flag("stream")), _settings(members)
    members.report_rest()
    return NeutralRequest(
        model=model,
        stream=streams,
        system=tuple([instructions, *system] if instructions else system),
        turns=turns,
        tools=tools,
        choice=choice,
        settings=settings,
        echo={name: body[name] for name in REPEATED_MEMBERS if body.get(name) is not None},
    )


def _names_gateway_server(tool: object) -> bool:
    """Whether a tool names a server of the gateway, and so is not sent to the provider."""
    return member(tool, "type") == "mcp" and text_of(member(tool, "server_url")).partition("://")[0] == SCHEME


def _settings(members: RequestMembers) -> SamplingSettings:
    reasoning, text = members.first("reasoning"), members.first("text")
    openai_only = members.take_members(*SHARED_SETTINGS)
    if member(text, "verbosity") is not None:
        openai_only["verbosity"] = member(text, "verbosity")
    return SamplingSettings(
        max_tokens=members.positive_integer("max_output_tokens"),
        temperature=members.number("temperature"),
        top_p=members.number("top_p"),
        effort=parse_effort(member(reasoning, "effort")),
        include_reasoning=member(reasoning, "summary", "generate_summary") is not None,
        parallel=members.flag("parallel_tool_calls"),
        user=members.text("user"),
        output=read_output(member(text, "format")),
        openai_only=openai_only,
    )


def write_request(
    request: NeutralRequest, tools: TranslatedTools, choice: ToolChoice | None, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a request to the provider. It asks the provider not to store the response, and therefore to
    return encrypted reasoning.
    """
    settings = request.settings
    body: dict[str, Any] = {
        "model": request.model,
        "input": write_messages(request.turns, losses).messages,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    instructions = "\n\n".join(text for text in request.system if text)
    if instructions:
        body["instructions"] = instructions
    if request.stream:
        body["stream"] = True
    body |= write_tools(tools, choice, settings, nests=False)
    openai_only = dict(settings.openai_only)
    text = {"format": write_output(settings.output), "verbosity": openai_only.pop("verbosity", None)}
    text = {name: value for name, value in text.items() if value is not None}
    members = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "user": settings.user,
        "text": text or None,
        "reasoning": _reasoning(settings) or None,
    }
    body |= {name: value for name, value in members.items() if value is not None}
    if settings.max_tokens is not None:
        body["max_output_tokens"] = max(settings.max_tokens, MIN_OUTPUT_TOKENS)
    for name in ("top_k", "seed", "frequency_penalty", "presence_penalty", "stop"):
        if getattr(settings, name):
            losses.add(name)
    return body | openai_only


def _reasoning(settings: SamplingSettings) -> dict[str, Any]:
    effort = settings.requested_effort
    reasoning: dict[str, Any] = {} if effort is None else {"effort": effort}
    return {**reasoning, "summary": "auto"} if settings.include_reasoning else reasoning


def adapt_to_model(members: dict[str, Raw], model: str, window: int, losses: TranslationLosses) -> None:
    """Remove reasoning settings for models that refuse them."""
    if refuses_reasoning(model) and "reasoning" in members:
        losses.add("reasoning")
        del members["reasoning"]
