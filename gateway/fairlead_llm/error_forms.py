"""Bodies of errors in the form that the SDKs of each kind of API read. Pure module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fairlead_llm.anthropic.format import ANTHROPIC
from fairlead_llm.chat.format import CHAT
from fairlead_llm.gemini.format import GEMINI_EVENTS
from fairlead_llm.wire import WireFormat
from fairlead_models.errors import LlmError
from fairlead_models.providers import ProviderKind

_FORMATS: Final[Mapping[ProviderKind, WireFormat]] = {
    "openai": CHAT, "anthropic": ANTHROPIC, "gemini": GEMINI_EVENTS
}  # fmt: skip


def error_body(kind: ProviderKind, error: LlmError) -> bytes:
    """The body of an error for clients of that kind of API."""
    return _FORMATS[kind].error_body(error)
