"""Events of OpenAI Realtime as bytes and as objects, and how they are read from clients and providers. Pure module."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fairlead_mcp.members import Known
from fairlead_speech import messages
from fairlead_speech.messages import BASE64, OF_CLIENT, OF_PROVIDER, PLAIN, SPACE, MessageReader, UnreadableMessage

Event: TypeAlias = dict[str, Any]
APPEND: Final = "input_audio_buffer.append"
TRANSCRIPT: Final = "conversation.item.input_audio_transcription."
"""Beginning of the types of events about what is heard."""
ID_PREFIX: Final = "fairlead_"
"""Beginning of the ids of events and items that the gateway makes."""
read: Final = messages.read


class _EventType(msgspec.Struct):
    type: str


_typed: Final = msgspec.json.Decoder(_EventType).decode


def event_type(payload: bytes) -> str:
    """Type of an event. Raises UnreadableMessage."""
    try:
        return _typed(payload).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableMessage("an event must be an object of JSON with a type") from error


def member(event: Mapping[str, Any], name: str) -> Event:
    """An object within an event; empty where there is none."""
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def members(event: Mapping[str, Any], name: str) -> list[Event]:
    """The objects of a list within an event."""
    value = event.get(name)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(event: Mapping[str, Any], name: str) -> str:
    """A text within an event; empty where there is none."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def written_text(item: Event) -> str:
    """All that an item has the user say in writing; empty where it is another one."""
    if item.get("type") != "message" or item.get("role") != "user":
        return ""
    return " ".join(text(part, "text") for part in members(item, "content") if part.get("type") == "input_text")


def new_id() -> str:
    """A new id of an event or item; items may have 32 characters."""
    return ID_PREFIX + secrets.token_hex(8)


def error_event(message: str, code: str, param: str | None, event_id: object) -> bytes:
    """An event that refuses one of the client's."""
    error = {"type": "invalid_request_error", "code": code, "message": message, "param": param, "event_id": event_id}
    return msgspec.json.encode({"type": "error", "event_id": new_id(), "error": error})


_EVENT: Final = Known({"type", "event_id", "session", "response", "item"})
_CONFIG: Final = Known({"type", "tools", "model", "conversation", "input"})
_TOOL: Final = Known({"type", "name"})
_NUMBER: Final = rb"\d{1,9}"


def misspelt_member(event: Event) -> str | None:
    """A sentence about a member that some parsers take for one that the gateway decides by; None without any."""
    misspelling = _EVENT.misread(event, "the event")
    for name in ("session", "response"):
        configured = member(event, name)
        misspelling = misspelling or _CONFIG.misread(configured, name)
        for tool in members(configured, "tools"):
            misspelling = misspelling or _TOOL.misread(tool, f"a tool of {name}")
    return misspelling


def _member(name: bytes, value: bytes) -> bytes:
    return rb'%s"%s"%s:%s%s%s' % (SPACE, name, SPACE, SPACE, value, SPACE)


def _client_audio() -> re.Pattern[bytes]:
    """An `input_audio_buffer.append` with its members in any order, each of them once."""
    kind = _member(b"type", rb'"input_audio_buffer\.append"')
    ident, audio = _member(b"event_id", PLAIN), _member(b"audio", BASE64)
    orders = (
        b"%s,(?:%s(?:,%s)?|%s,%s)" % (kind, audio, ident, ident, audio),
        b"%s,(?:%s(?:,%s)?|%s,%s)" % (audio, kind, ident, ident, kind),
        b"%s,(?:%s,%s|%s,%s)" % (ident, kind, audio, audio, kind),
    )
    return re.compile(rb"%s\{(?:%s)\}%s" % (SPACE, b"|".join(orders), SPACE))


def _provider_audio() -> re.Pattern[bytes]:
    """A delta of audio or of its transcript, with its members in the order of OpenAI's server, none of them twice."""
    kind = _member(b"type", rb'"response\.output_audio(?:_transcript)?\.delta"')
    others = [
        *(_member(name, PLAIN) for name in (b"event_id", b"response_id", b"item_id")),
        *(_member(name, _NUMBER) for name in (b"output_index", b"content_index")),
        *(_member(name, PLAIN) for name in (b"delta", b"obfuscation")),
    ]
    return re.compile(rb"%s\{%s%s\}%s" % (SPACE, kind, b"".join(b"(?:,%s)?" % each for each in others), SPACE))


CLIENT_MESSAGES: Final = MessageReader(
    OF_CLIENT, _client_audio(), binary=False, passes_audio=True, fault=misspelt_member
)
PROVIDER_MESSAGES: Final = MessageReader(OF_PROVIDER, _provider_audio(), binary=False, passes_audio=True, mends=True)
