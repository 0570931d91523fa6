"""Conversion of requests between Chat Completions and the neutral form (`neutral.conversation`). Pure module."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from fairlead_formats.messages.call import member
from fairlead_formats.neutral.conversation import (
    NeutralRequest,
    SamplingSettings,
    ToolChoice,
    leading_system,
    parse_effort,
)
from fairlead_formats.neutral.members import RequestMembers, require_messages
from fairlead_formats.neutral.tools import TranslatedTools
from fairlead_formats.providers.openai_chat.translation.members_of_both_apis import (
    SHARED_SETTINGS,
    nest,
    read_choice,
    read_output,
    refuses_reasoning,
    write_output,
    write_tools,
)
from fairlead_formats.providers.openai_chat.translation.messages import read_messages, write_messages
from fairlead_formats.wire.protocol import TranslationLosses

_OPENAI_MODELS: Final = re.compile(r"(?:^|[/.:])(?:gpt-|o\d|chatgpt-)")
_MAX_TOKENS: Final = "max_tokens"


def read_request(
    body: Mapping[str, Any], model: str | None, stream: bool | None, losses: TranslationLosses
) -> NeutralRequest:
    """Read a client's request. Raises BadRequest."""
    members = RequestMembers(body, losses)
    model = members.model()
    members.refuse("functions", "a request can have `functions` or `tools`, not both; leave out `functions`")
    members.leave_out("function_call", "fairlead", "store", "stream_obfuscation")
    if (members.positive_integer("n") or 1) != 1:
        losses.add("n")
    turns = read_messages(require_messages(members, "messages", "content"), losses)
    system, turns = leading_system(turns)
    streams = bool(members.flag("stream"))
    include_usage = member(members.first("stream_options"), "include_usage") is True
    tools, choice = members.first("tools"), read_choice(members.first("tool_choice"))
    settings = _settings(members)
    members.report_rest()
    return NeutralRequest(
        model=model,
        stream=streams,
        system=tuple(system),
        turns=turns,
        tools=tools,
        choice=choice,
        settings=settings,
        include_usage=include_usage,
    )


def _settings(members: RequestMembers) -> SamplingSettings:
    openai_only = members.take_members(*SHARED_SETTINGS, "verbosity")
    return SamplingSettings(
        max_tokens=members.positive_integer("max_completion_tokens", _MAX_TOKENS),
        temperature=members.number("temperature"),
        top_p=members.number("top_p"),
        seed=members.positive_integer("seed"),
        frequency_penalty=members.number("frequency_penalty"),
        presence_penalty=members.number("presence_penalty"),
        stop=members.texts("stop"),
        effort=parse_effort(members.first("reasoning_effort")),
        parallel=members.flag("parallel_tool_calls"),
        user=members.text("user"),
        output=read_output(members.first("response_format")),
        openai_only=openai_only,
    )


def write_request(
    request: NeutralRequest, tools: TranslatedTools, choice: ToolChoice | None, losses: TranslationLosses
) -> dict[str, Any]:
    """Write the body of a request to the provider."""
    settings = request.settings
    system = [{"role": "system", "content": text} for text in request.system if text]
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [*system, *write_messages(request.turns, losses).messages],
    }
    if request.stream:
        body["stream"] = True
    body |= write_tools(tools, choice, settings, nests=True)
    output = write_output(settings.output)
    members = {
        _MAX_TOKENS: settings.max_tokens,
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "frequency_penalty": settings.frequency_penalty,
        "presence_penalty": settings.presence_penalty,
        "stop": list(settings.stop) or None,
        "reasoning_effort": settings.requested_effort,
        "user": settings.user,
        "response_format": None if output is None else nest(output),
    }
    body |= {name: value for name, value in members.items() if value is not None}
    body |= settings.openai_only
    if settings.top_k is not None:
        losses.add("top_k")
    return body


def adapt_to_model(members: dict[str, Raw], model: str, window: int, losses: TranslationLosses) -> None:
    """Write the token limit under the name that the model accepts: OpenAI's newer models refuse `max_tokens`, while
    older compatible servers accept only `max_tokens`. Remove reasoning settings for models that refuse them.
    """
    if _MAX_TOKENS in members and _OPENAI_MODELS.search(model):
        members["max_completion_tokens"] = members.pop(_MAX_TOKENS)
    if "reasoning_effort" in members and refuses_reasoning(model):
        losses.add("reasoning")
        del members["reasoning_effort"]
