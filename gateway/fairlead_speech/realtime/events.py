"""Events of OpenAI Realtime: accessors, and readers for events of clients and of providers. Does no I/O."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fairlead_mcp.members import ProtectedNames
from fairlead_speech import messages
from fairlead_speech.messages import BASE64, OF_CLIENT, OF_PROVIDER, PLAIN, SPACE, MessageReader, UnreadableMessage

Event: TypeAlias = dict[str, Any]
APPEND: Final = "input_audio_buffer.append"
TRANSCRIPT: Final = "conversation.item.input_audio_transcription."
"""Prefix of the types of events about transcripts of the user's audio."""
ID_PREFIX: Final = "fairlead_"
"""Prefix of the ids of events and items that the gateway creates."""
read: Final = messages.read
_EVENT_MEMBERS: Final = ProtectedNames({"type", "event_id", "session", "response", "item"})
_CONFIG_MEMBERS: Final = ProtectedNames({"type", "tools", "model", "conversation", "input"})
_TOOL_MEMBERS: Final = ProtectedNames({"type", "name"})
_NUMBER_PATTERN: Final = rb"\d{1,9}"


class _EventType(msgspec.Struct):
    type: str


_decode_type: Final = msgspec.json.Decoder(_EventType).decode


def event_type(payload: bytes) -> str:
    """Read the type of an event. Raises UnreadableMessage."""
    try:
        return _decode_type(payload).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableMessage("an event must be a JSON object with a type") from error


def member(event: Mapping[str, Any], name: str) -> Event:
    """Value of a member if it is an object; else an empty object."""
    value = event.get(name)
    return value if isinstance(value, dict) else {}


def members(event: Mapping[str, Any], name: str) -> list[Event]:
    """Objects in the list of a member; empty if the member is not a list."""
    value = event.get(name)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text(event: Mapping[str, Any], name: str) -> str:
    """Value of a member if it is a string; else an empty string."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def written_text(item: Event) -> str:
    """Written text of a user's message; empty for other items."""
    if item.get("type") != "message" or item.get("role") != "user":
        return ""
    return " ".join(text(part, "text") for part in members(item, "content") if part.get("type") == "input_text")


def new_id() -> str:
    """Make an id for an event or item. The API allows 32 characters."""
    return ID_PREFIX + secrets.token_hex(8)


def error_event(message: str, code: str, param: str | None, event_id: object) -> bytes:
    """Encode an event `error` that tells the client about one of the client's events."""
    error = {"type": "invalid_request_error", "code": code, "message": message, "param": param, "event_id": event_id}
    return msgspec.json.encode({"type": "error", "event_id": new_id(), "error": error})


def misspelt_member(event: Event) -> str | None:
    """Describe a misspelt member that a lenient parser would accept in place of a member by which the gateway decides.
    Returns None if there is no such member.
    """
    misspelling = _EVENT_MEMBERS.explain_misread(event, "the event")
    for name in ("session", "response"):
        config = member(event, name)
        misspelling = misspelling or _CONFIG_MEMBERS.explain_misread(config, name)
        for tool in members(config, "tools"):
            misspelling = misspelling or _TOOL_MEMBERS.explain_misread(tool, f"a tool of {name}")
    return misspelling


def _member(name: bytes, value: bytes) -> bytes:
    return rb'%s"%s"%s:%s%s%s' % (SPACE, name, SPACE, SPACE, value, SPACE)


def _client_audio() -> re.Pattern[bytes]:
    """Pattern of an `input_audio_buffer.append` that has each member once, in any order."""
    kind = _member(b"type", rb'"input_audio_buffer\.append"')
    ident, audio = _member(b"event_id", PLAIN), _member(b"audio", BASE64)
    orders = (
        b"%s,(?:%s(?:,%s)?|%s,%s)" % (kind, audio, ident, ident, audio),
        b"%s,(?:%s(?:,%s)?|%s,%s)" % (audio, kind, ident, ident, kind),
        b"%s,(?:%s,%s|%s,%s)" % (ident, kind, audio, audio, kind),
    )
    return re.compile(rb"%s\{(?:%s)\}%s" % (SPACE, b"|".join(orders), SPACE))


def _provider_audio() -> re.Pattern[bytes]:
    """Pattern of an event with a delta of audio, or of the transcript of audio. Its members have the order of OpenAI's
    server, and each occurs at most once.
    """
    kind = _member(b"type", rb'"response\.output_audio(?:_transcript)?\.delta"')
    other_members = [
        *(_member(name, PLAIN) for name in (b"event_id", b"response_id", b"item_id")),
        *(_member(name, _NUMBER_PATTERN) for name in (b"output_index", b"content_index")),
        *(_member(name, PLAIN) for name in (b"delta", b"obfuscation")),
    ]
    return re.compile(
        rb"%s\{%s%s\}%s" % (SPACE, kind, b"".join(b"(?:,%s)?" % pattern for pattern in other_members), SPACE)
    )


CLIENT_MESSAGES: Final = MessageReader(
    OF_CLIENT, _client_audio(), binary=False, passes_audio=True, fault=misspelt_member
)
PROVIDER_MESSAGES: Final = MessageReader(OF_PROVIDER, _provider_audio(), binary=False, passes_audio=True, repairs=True)
