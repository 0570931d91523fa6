"""Messages of Gemini Live as they are read from clients and from providers. Pure module."""

from __future__ import annotations

import re
from typing import Final

from fairlead_mcp.members import Known
from fairlead_speech.frames import BASE64, OF_CLIENT, OF_PROVIDER, PLAIN, SPACE, FrameReader
from fairlead_speech.gemini.messages import Message, member, members, snake_case

SESSION_UPDATE: Final = "fairleadSessionUpdate"
"""Member of a client's message that is for the gateway: `{tier?, queueDepth?}`."""
SETUP: Final = "setup"
_KINDS: Final = frozenset({"clientContent", "contextUpdate", "realtimeInput", "toolResponse", SETUP, SESSION_UPDATE})
"""Members of which a client's message has one, as in Google's servers."""
_READ: Final = (
    *_KINDS,
    "activityEnd",
    "activityStart",
    "audioStreamEnd",
    "functionDeclarations",
    "functionResponses",
    "mcpServers",
    "mediaChunks",
    "mimeType",
    "sessionResumption",
    "systemInstruction",
    "turnComplete",
)
_TWICE: Final = {snake_case(name): name for name in _READ if snake_case(name) != name}
_SNAKES: Final = frozenset(_TWICE)
_MODEL: Final = Known({"model", "sessionResumption", "session_resumption", "tools"})
_TOOL: Final = Known({"functionDeclarations", "function_declarations", "mcpServers", "mcp_servers"})


def fault(message: Message) -> str | None:
    """A sentence about what is wrong with a client's message; None: nothing."""
    kinds = [name for name in message if name in _KINDS or _TWICE.get(name) in _KINDS]
    if len(message) != 1 or not kinds:
        return f"a message has one member, which is one of {', '.join(sorted(_KINDS))}"
    return _spelled_twice(message) or _misspelt(message)


def _misspelt(message: Message) -> str | None:
    """A sentence about a member that some parsers take for one that the gateway decides by; None without any."""
    update, setup = member(message, "contextUpdate"), member(message, SETUP)
    found = _MODEL.misread(update, "contextUpdate") or _MODEL.misread(setup, SETUP)
    for tool in (*members(member(update, "tools"), "tools"), *members(setup, "tools")):
        found = found or _TOOL.misread(tool, "a tool")
    return found


def _spelled_twice(message: Message) -> str | None:
    """A sentence about a member that stands in camel case and in snake case in one object: who reads both takes one of
    them, and nobody says which.
    """
    waiting: list[object] = [message]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for name in () if _SNAKES.isdisjoint(value) else _SNAKES.intersection(value):
                if _TWICE[name] in value:
                    return f'an object has both "{_TWICE[name]}" and "{name}"'
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return None


def _object(*values: tuple[bytes, bytes]) -> bytes:
    """An object with these members in this order."""
    shown = b",".join(rb'%s"(?:%s)"%s:%s%s%s' % (SPACE, name, SPACE, SPACE, value, SPACE) for name, value in values)
    return rb"\{%s\}" % shown


def _list(value: bytes) -> bytes:
    """A list of this value alone."""
    return rb"\[%s%s%s\]" % (SPACE, value, SPACE)


_KIND_OF_BLOB: Final = (b"mimeType|mime_type", PLAIN)
_DATA: Final = (b"data", BASE64)
_BLOB: Final = b"(?:%s|%s)" % (_object(_KIND_OF_BLOB, _DATA), _object(_DATA, _KIND_OF_BLOB))
_MEDIA: Final = (_object((b"audio|video", _BLOB)), _object((b"mediaChunks|media_chunks", _list(_BLOB))))
_CLIENT_AUDIO: Final = _object((b"realtimeInput|realtime_input", b"(?:%s|%s)" % _MEDIA))
_PARTS: Final = _list(_object((b"inlineData", _BLOB)))
_PROVIDER_AUDIO: Final = _object((b"serverContent", _object((b"modelTurn", _object((b"parts", _PARTS))))))


def _whole(form: bytes) -> re.Pattern[bytes]:
    return re.compile(SPACE + form + SPACE)


CLIENT_FRAMES: Final = FrameReader(OF_CLIENT, _whole(_CLIENT_AUDIO), binary=True, passes_audio=True, fault=fault)
HEARD_FRAMES: Final = FrameReader(OF_CLIENT, _whole(_CLIENT_AUDIO), binary=True, passes_audio=False, fault=fault)
"""Those of a client whose audio the gateway itself hears."""
PROVIDER_FRAMES: Final = FrameReader(OF_PROVIDER, _whole(_PROVIDER_AUDIO), binary=True, passes_audio=False, mends=True)
"""Audio is looked at, too: an answer begins with it."""
