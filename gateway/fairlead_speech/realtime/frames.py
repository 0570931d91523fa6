"""Messages of OpenAI Realtime as they are read from clients and from providers. Pure module."""

from __future__ import annotations

import re
from typing import Final

from fairlead_mcp.members import Known
from fairlead_speech.frames import BASE64, OF_CLIENT, OF_PROVIDER, PLAIN, SPACE, FrameReader
from fairlead_speech.realtime_events import Event, member, members

_EVENT: Final = Known({"type", "event_id", "session", "response", "item"})
_CONFIGURED: Final = Known({"type", "tools", "model", "conversation", "input"})
_TOOL: Final = Known({"type", "name"})
_NUMBER: Final = rb"\d{1,9}"


def misspelt(event: Event) -> str | None:
    """A sentence about a member that some parsers take for one that the gateway decides by; None without any."""
    found = _EVENT.misread(event, "the event")
    for name in ("session", "response"):
        configured = member(event, name)
        found = found or _CONFIGURED.misread(configured, name)
        for tool in members(configured, "tools"):
            found = found or _TOOL.misread(tool, f"a tool of {name}")
    return found


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


CLIENT_FRAMES: Final = FrameReader(OF_CLIENT, _client_audio(), binary=False, passes_audio=True, fault=misspelt)
PROVIDER_FRAMES: Final = FrameReader(OF_PROVIDER, _provider_audio(), binary=False, passes_audio=True, mends=True)
