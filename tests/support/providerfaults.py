"""Rules of provider APIs that a converted definition violates, as the scripted providers check them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairlead_formats.providers.anthropic import fake_rules as messages_rules
from fairlead_formats.providers.bedrock import fake_rules as converse_rules
from fairlead_formats.providers.gemini import fake_rules as gemini_rules
from fairlead_formats.providers.openai_chat import fake_rules as chat_rules
from fairlead_formats.providers.openai_responses import fake_rules as responses_rules
from fairlead_formats.request_rules.rule import BrokenRule
from fairlead_tools.validation.schema_draft import draft_error

_SAYS: Final = [{"role": "user", "content": "Hi"}]
_HEADERS: Final = {"anthropic-version": "2023-06-01"}
_FLAT: Final = ("openai-functions", "openai-realtime")
"""Formats that put a function's members directly into the definition. The rules are the same as for chat."""


def provider_fault(format_name: str, definition: Mapping[str, Any]) -> BrokenRule | None:
    """The first rule that a request with this definition violates."""
    if format_name == "openai-responses":
        request: dict[str, Any] = {"model": "m", "input": "Hi", "tools": [definition]}
        return responses_rules.fault(request, responses_rules.StoredItems(), draft_error)
    if format_name == "anthropic":
        request = {"model": "m", "max_tokens": 9, "messages": _SAYS, "tools": [definition]}
        return messages_rules.fault(request, _HEADERS, draft_error)
    if format_name.startswith("gemini"):
        contents = [{"role": "user", "parts": [{"text": "Hi"}]}]
        request = {"contents": contents, "tools": [{"functionDeclarations": [definition]}]}
        return gemini_rules.fault(request, draft_error)
    if format_name == "bedrock-converse":
        messages = [{"role": "user", "content": [{"text": "Hi"}]}]
        return converse_rules.fault({"messages": messages, "toolConfig": {"tools": [definition]}}, "", draft_error)
    tool = {"type": "function", "function": definition} if format_name in _FLAT else definition
    return chat_rules.fault({"model": "m", "messages": _SAYS, "tools": [tool]}, draft_error)
