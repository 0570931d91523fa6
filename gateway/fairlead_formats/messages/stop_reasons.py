"""Stop reasons after which a model's message may be truncated, in the words of all providers.

Pure module. The last call of a truncated message may lack a part of its arguments. If all its arguments are missing, it
looks like a call without arguments. The gateway therefore runs no call of a truncated message, whole or streamed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fairlead_formats.messages.call import Draft, items, member

CUT_OFF: Final = "the message ended before the arguments did"
"""Reason for an invalid call whose arguments lack their end."""
_TRUNCATING: Final = frozenset(
    {
        # Chat Completions; Mistral; DeepSeek; vLLM and SGLang; OpenRouter
        "length",
        "content_filter",
        "model_length",
        "insufficient_system_resource",
        "abort",
        "error",
        # Responses: three values of its status, and a reason of the status `incomplete`
        "incomplete",
        "failed",
        "cancelled",
        "max_output_tokens",
        # Anthropic Messages
        "max_tokens",
        "model_context_window_exceeded",
        "refusal",
        # Bedrock Converse
        "content_filtered",
        "guardrail_intervened",
        "malformed_model_output",
        "malformed_tool_use",
        # Gemini
        "safety",
        "recitation",
        "language",
        "blocklist",
        "prohibited_content",
        "spii",
        "model_armor",
        "image_safety",
    }
)
_REASONS: Final = ("finish_reason", "finishReason", "stop_reason", "stopReason")


def truncates(reason: object) -> bool:
    """Whether a stop reason, in any letter case, says that the message may lack its end."""
    return isinstance(reason, str) and reason.lower() in _TRUNCATING


def is_truncated(answer: object) -> bool:
    """Whether a whole answer, or its first choice or candidate, ended by a reason that truncates."""
    choice = next(iter([*items(member(answer, "choices")), *items(member(answer, "candidates"))]), None)
    return truncates(member(choice, *_REASONS)) or truncates(member(answer, *_REASONS, "status"))


def cut_off(draft: Draft) -> Draft:
    """The draft of a truncated message's last call, made invalid if it has no arguments: they may have been cut off."""
    return draft if draft.arguments or draft.problem is not None else msgspec.structs.replace(draft, problem=CUT_OFF)
