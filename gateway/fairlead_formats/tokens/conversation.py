"""Tokens of messages and of the system prompt, in any provider's form.

Pure module. Text is counted exactly; what frames a message costs a flat number each, and media an estimate from their
kind and size, on the high side. Walks without recursion.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairlead_formats.tokens.counting import TokenCounter

PER_MESSAGE: Final = 4
"""Role and separators (OpenAI's cookbook: 3, and 1 for the role)."""
PER_REPLY: Final = 3
"""Tokens that open the answer."""
IMAGE: Final = 1600
"""Anthropic's most for one image; OpenAI and Gemini take less for common sizes."""
AUDIO_BYTES: Final = 500
"""Bytes of audio per token: 16 kB of MP3 a second, 32 tokens."""
DOCUMENT_BYTES: Final = 50
"""Bytes of a PDF per token."""

_FRAME: Final = frozenset(
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
"""Members that frame messages: no model reads them as text."""
_DATA: Final = frozenset({"data", "bytes", "file_data", "url", "image_url", "blob"})
"""Members that hold media where their text is long or a data URL."""
_KINDS: Final = ("mimeType", "mime_type", "media_type", "format", "type")
LONG: Final = 512
"""Characters from which text without a space, below one of these members, is media."""


class ConversationTokens(msgspec.Struct, frozen=True):
    """Tokens of a conversation, in o200k's tokens or the counter's."""

    system: int
    messages: int
    media: int = 0
    """The part of `messages` that is estimated."""


def measure_conversation(messages: object, system: object, counter: TokenCounter) -> ConversationTokens:
    """Count messages (a list of them, of items or of contents, or one text) and a system prompt (text or blocks).
    Messages of the role `system` or `developer` count as system prompt. Never raises for what they hold.
    """
    entries: list[Any] = messages if isinstance(messages, list) else [] if messages is None else [messages]
    system_tokens = _text(system, counter)[0] if system is not None else 0
    total = media = 0
    for entry in entries:
        text, estimated = _text(entry, counter)
        if isinstance(entry, dict) and entry.get("role") in ("system", "developer"):
            system_tokens += text + estimated + PER_MESSAGE
        else:
            total += text + estimated + PER_MESSAGE
            media += estimated
    return ConversationTokens(system_tokens, total + (PER_REPLY if entries else 0), media)


def _text(value: object, counter: TokenCounter) -> tuple[int, int]:
    """Tokens of text within a value, and the estimate for media within it."""
    tokens = media = 0
    stack: list[tuple[str, object]] = [("", value)]
    while stack:
        key, item = stack.pop()
        if isinstance(item, str):
            estimate = _media(key, item)
            media += estimate
            tokens += 0 if estimate else counter.count(item)
        elif isinstance(item, bytes | bytearray):
            media += _estimate("", len(item))
        elif isinstance(item, dict):
            kind = next((str(item[name]) for name in _KINDS if item.get(name)), "")
            for name, inner in item.items():
                if name in _FRAME and not isinstance(inner, dict | list):
                    continue
                if name in _DATA and isinstance(inner, str | bytes):
                    media_tokens = _media(kind, inner, data=True)
                    media += media_tokens
                    tokens += 0 if media_tokens or isinstance(inner, bytes) else counter.count(inner)
                    continue
                tokens += 0 if name in _STRUCTURE else 1 + len(str(name)) // 6
                stack.append((str(name), inner))
        elif isinstance(item, list):
            stack.extend((key, inner) for inner in item)
        elif item is not None:
            tokens += 1
    return tokens, media


_STRUCTURE: Final = frozenset(
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
"""Members of the formats themselves; others are the tool's own and read by the model."""


def _media(kind: str, value: str | bytes, *, data: bool = False) -> int:
    if isinstance(value, bytes):
        return _estimate(kind, len(value))
    if value.startswith("data:"):
        return _estimate(value[5:40], len(value) * 3 // 4)
    if data and len(value) > LONG and " " not in value[:LONG]:
        return _estimate(kind, len(value) * 3 // 4)
    return 0


def _estimate(kind: str, size: int) -> int:
    if "audio" in kind or kind in ("wav", "mp3"):
        return size // AUDIO_BYTES + 1
    if "pdf" in kind or "document" in kind or "file" in kind:
        return max(IMAGE, size // DOCUMENT_BYTES)
    return IMAGE
