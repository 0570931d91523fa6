"""Events of OpenAI Realtime as bytes and as objects. Pure module, which takes what a `FrameReader` has
checked, or what is made here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from fairlead_speech import frames
from fairlead_speech.frames import UnreadableFrame

Event: TypeAlias = dict[str, Any]
APPEND: Final = "input_audio_buffer.append"
TRANSCRIPT: Final = "conversation.item.input_audio_transcription."
"""Beginning of the types of events about what is heard."""
OWN: Final = "fairlead_"
"""Beginning of the ids of events and items that the gateway makes."""
read: Final = frames.read


class _EventType(msgspec.Struct):
    type: str


_typed: Final = msgspec.json.Decoder(_EventType).decode


def kind_of(frame: bytes) -> str:
    """Type of an event. Raises UnreadableFrame."""
    try:
        return _typed(frame).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableFrame("an event must be an object of JSON with a type") from error


def member(event: Mapping[str, Any], name: str) -> Event:
    """An object within an event; empty where there is none."""
    found = event.get(name)
    return found if isinstance(found, dict) else {}


def members(event: Mapping[str, Any], name: str) -> list[Event]:
    """The objects of a list within an event."""
    found = event.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def text(event: Mapping[str, Any], name: str) -> str:
    """A text within an event; empty where there is none."""
    found = event.get(name)
    return found if isinstance(found, str) else ""


def written_text(item: Event) -> str:
    """All that an item has the user say in writing; empty where it is another one."""
    if item.get("type") != "message" or item.get("role") != "user":
        return ""
    return " ".join(text(part, "text") for part in members(item, "content") if part.get("type") == "input_text")


def own_id() -> str:
    """A new id of an event or item; items may have 32 characters."""
    return OWN + secrets.token_hex(8)


def error_event(message: str, code: str, param: str | None, event_id: object) -> bytes:
    """An event that refuses one of the client's."""
    error = {"type": "invalid_request_error", "code": code, "message": message, "param": param, "event_id": event_id}
    return msgspec.json.encode({"type": "error", "event_id": own_id(), "error": error})
