"""Token counts of messages and of the system prompt, in any provider's format.

Pure module. Text is counted with a tokenizer, each message adds a constant, and tokens of media are estimated from
their type and size, rather too many than too few. Iterative, so that nesting cannot exhaust the stack.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_formats.tokens.counting import TokenCounter

PER_MESSAGE: Final = 4
"""Tokens of a message's role and separators (OpenAI's cookbook: 3, and 1 for the role)."""
PER_REPLY: Final = 3
"""Tokens at the end of a prompt that begin the model's answer."""
MAX_IMAGE_TOKENS: Final = 1600
"""Tokens of an image: Anthropic's maximum. OpenAI and Gemini need fewer for common sizes."""
AUDIO_BYTES_PER_TOKEN: Final = 500
"""Bytes of audio per token: a second of MP3 has 16 kB and 32 tokens."""
DOCUMENT_BYTES_PER_TOKEN: Final = 50
"""Bytes of a PDF file per token."""

_ENVELOPE_MEMBERS: Final = frozenset(
    {
        "type",
        "role",
        "id",
        "call_id",
        "tool_call_id",
        "tool_use_id",
        "toolUseId",
        "status",
        "index",
        "object",
        "model",
        "finish_reason",
        "finishReason",
        "stop_reason",
        "stopReason",
        "signature",
        "thoughtSignature",
        "encrypted_content",
        "media_type",
        "mimeType",
        "mime_type",
        "format",
        "cache_control",
        "cachePoint",
        "usage",
        "detail",
    }
)
"""Members of messages and parts, such as ids and types, that models do not read as text."""
_MEDIA_MEMBERS: Final = frozenset({"data", "bytes", "file_data", "url", "image_url", "blob"})
"""Members that hold media if their value is long (`MIN_MEDIA_LENGTH`) or a data URL."""
_KIND_MEMBERS: Final = ("mimeType", "mime_type", "media_type", "format", "type")
MIN_MEDIA_LENGTH: Final = 512
"""Minimum length, in characters, of a value without spaces in a member of `_MEDIA_MEMBERS` that counts as media."""


class ConversationTokens(msgspec.Struct, frozen=True):
    """Tokens of a conversation, as the counter counts them."""

    system: int
    """Tokens of the system prompt."""
    messages: int
    """Tokens of the messages."""
    media: int = 0
    """Estimated tokens of media, which `messages` includes."""


def measure_conversation(messages: object, system: object, counter: TokenCounter) -> ConversationTokens:
    """Count messages (text, or a list of messages, items or contents) and a system prompt (text or blocks). Messages
    with role `system` or `developer` count as system prompt. Never raises for their content.
    """
    entries: list[Any] = messages if isinstance(messages, list) else [] if messages is None else [messages]
    system_tokens = _count_text(system, counter)[0] if system is not None else 0
    total = media = 0
    for entry in entries:
        text, media_tokens = _count_text(entry, counter)
        if isinstance(entry, dict) and entry.get("role") in ("system", "developer"):
            system_tokens += text + media_tokens + PER_MESSAGE
        else:
            total += text + media_tokens + PER_MESSAGE
            media += media_tokens
    return ConversationTokens(system_tokens, total + (PER_REPLY if entries else 0), media)


def _count_text(value: object, counter: TokenCounter) -> tuple[int, int]:
    """Tokens of the text in a value, and estimated tokens of its media."""
    tokens = media = 0
    stack: list[tuple[str, object]] = [("", value)]
    while stack:
        key, item = stack.pop()
        if isinstance(item, str):
            estimate = _media_tokens(key, item)
            media += estimate
            tokens += 0 if estimate else counter.count(item)
        elif isinstance(item, bytes | bytearray):
            media += _estimate_tokens("", len(item))
        elif isinstance(item, dict):
            kind = next((str(item[name]) for name in _KIND_MEMBERS if item.get(name)), "")
            for name, member_value in item.items():
                if name in _ENVELOPE_MEMBERS and not isinstance(member_value, dict | list):
                    continue
                if name in _MEDIA_MEMBERS and isinstance(member_value, str | bytes):
                    media_tokens = _media_tokens(kind, member_value, data=True)
                    media += media_tokens
                    tokens += 0 if media_tokens or isinstance(member_value, bytes) else counter.count(member_value)
                    continue
                tokens += 0 if name in _STRUCTURE_MEMBERS else 1 + len(str(name)) // 6
                stack.append((str(name), member_value))
        elif isinstance(item, list):
            stack.extend((key, member_value) for member_value in item)
        elif item is not None:
            tokens += 1
    return tokens, media


_STRUCTURE_MEMBERS: Final = frozenset(
    {
        "content",
        "parts",
        "text",
        "source",
        "message",
        "messages",
        "item",
        "output",
        "input",
        "arguments",
        "args",
        "function",
        "functionCall",
        "functionResponse",
        "function_call",
        "function_response",
        "toolUse",
        "toolResult",
        "tool_calls",
        "tool_use",
        "inlineData",
        "inline_data",
        "image",
        "document",
        "input_audio",
        "file",
        "response",
        "json",
        "input_text",
        "system",
        "name",
    }
)
"""Members that the formats of messages define. Other names are from arguments and results, and the model reads them."""


def _media_tokens(kind: str, value: str | bytes, *, data: bool = False) -> int:
    if isinstance(value, bytes):
        return _estimate_tokens(kind, len(value))
    if value.startswith("data:"):
        return _estimate_tokens(value[5:40], len(value) * 3 // 4)
    if data and len(value) > MIN_MEDIA_LENGTH and " " not in value[:MIN_MEDIA_LENGTH]:
        return _estimate_tokens(kind, len(value) * 3 // 4)
    return 0


def _estimate_tokens(kind: str, size: int) -> int:
    if "audio" in kind or kind in ("wav", "mp3"):
        return size // AUDIO_BYTES_PER_TOKEN + 1
    if "pdf" in kind or "document" in kind or "file" in kind:
        return max(MAX_IMAGE_TOKENS, size // DOCUMENT_BYTES_PER_TOKEN)
    return MAX_IMAGE_TOKENS
