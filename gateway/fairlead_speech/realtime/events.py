"""Events of OpenAI Realtime as bytes and as objects. Pure module."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

Event: TypeAlias = dict[str, Any]
OWN: Final = "fairlead_"
"""Beginning of the ids of events and items that the gateway makes."""
CLIENT_AUDIO: Final = (b'{"type":"input_audio_buffer.append"', b'{"type": "input_audio_buffer.append"')
PROVIDER_AUDIO: Final = (
    b'{"type":"response.output_audio.delta"', b'{"type": "response.output_audio.delta"',
    b'{"type":"response.output_audio_transcript.delta"', b'{"type": "response.output_audio_transcript.delta"',
)  # fmt: skip
_object: Final = msgspec.json.Decoder(dict[str, Any]).decode


class _EventType(msgspec.Struct):
    type: str = ""


_typed: Final = msgspec.json.Decoder(_EventType).decode


def kind_of(frame: bytes) -> str:
    """Type of an event; empty for what is none."""
    try:
        return _typed(frame).type
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""


def read(frame: bytes) -> Event:
    """An event as an object; empty for what is none."""
    try:
        return _object(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


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


def own_id() -> str:
    """A new id of an event or item; items may have 32 characters."""
    return OWN + secrets.token_hex(8)


def error_event(message: str, code: str, param: str | None, event_id: object) -> bytes:
    """An event that refuses one of the client's."""
    error = {"type": "invalid_request_error", "code": code, "message": message, "param": param, "event_id": event_id}
    return msgspec.json.encode({"type": "error", "event_id": own_id(), "error": error})
