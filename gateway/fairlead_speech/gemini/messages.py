"""Messages of Gemini Live as bytes and as objects. Pure module.

A message is an object with one or more members that say what it is; servers put several into one. Members are written
in camel case, and by Google's SDK for Python in part in snake case. A `MessageReader` has checked what comes from a
peer. Source: Live API reference, BidiGenerateContent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import ModelCall
from fairlead_mcp.members import Known
from fairlead_speech import messages
from fairlead_speech.messages import BASE64, OF_CLIENT, OF_PROVIDER, PLAIN, SPACE, MessageReader, UnreadableMessage
from fairlead_speech.session import MessageSink
from fairlead_speech.tiers import SpokenTier

Message: TypeAlias = dict[str, Any]
IDLE: Final = "IDLE"
_SECONDS: Final = re.compile(r"(\d{1,6})(\.\d{1,9})?s")
read: Final = messages.read
_NOTHING: Final[Message] = {}
ABSENT: Final = Raw()
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
_MODEL: Final = Known({"model", "sessionResumption", "session_resumption", "tools"})
_TOOL: Final = Known({"functionDeclarations", "function_declarations", "mcpServers", "mcp_servers"})
_KIND_OF_BLOB: Final = (b"mimeType|mime_type", PLAIN)
_DATA: Final = (b"data", BASE64)
TOOL_RESULT: Final = "fairleadToolResult"
"""Parts of a result that cannot be spoken."""
ERROR: Final = "fairleadError"
"""Why a wish of the client was refused."""
TIER: Final = "fairleadTier"
"""Why a tier waits; for a client that named one."""


def is_present(value: Raw) -> bool:
    """Whether a member was there, and not null."""
    size = memoryview(value).nbytes
    return size > 0 and (size != len(b"null") or bytes(value) != b"null")


class Transcription(msgspec.Struct, rename="camel"):
    """Piece of a transcript."""

    text: str | None = None
    finished: bool | None = None


class ServerContent(msgspec.Struct, rename="camel"):
    """Speech of the model and of the user, as far as it is looked at."""

    model_turn: Raw = ABSENT
    output_transcription: Raw = ABSENT
    input_transcription: Transcription | None = None
    generation_complete: bool | None = None
    turn_complete: bool | None = None
    interrupted: bool | None = None
    interaction_status: str | None = None

    @property
    def has_output(self) -> bool:
        """Whether it holds output of the model."""
        return is_present(self.model_turn) or is_present(self.output_transcription)

    @property
    def about_answer(self) -> bool:
        """Whether it is about an answer of the model, and not about what it hears alone."""
        return self.has_output or self.turn_over or bool(self.interrupted or self.generation_complete)

    @property
    def turn_over(self) -> bool:
        """Whether the model's turn is over."""
        return bool(self.turn_complete) or self.interaction_status == IDLE


class ToolCallCancellation(msgspec.Struct, rename="camel"):
    """Calls that the provider takes back."""

    ids: list[str] = []


class GoAway(msgspec.Struct, rename="camel"):
    """Notice that the provider closes the connection soon."""

    time_left: str | None = None

    @property
    def seconds(self) -> float:
        """Seconds that are left; 0 where it does not say so."""
        match = _SECONDS.fullmatch(self.time_left or "")
        return float(match[0][:-1]) if match is not None else 0.0


class SessionResumptionUpdate(msgspec.Struct, rename="camel"):
    """Handle by which the session may be gone on with over another connection."""

    new_handle: str | None = None
    resumable: bool | None = None


class ServerMessage(msgspec.Struct, rename="camel"):
    """One message of a server, as far as it is looked at."""

    setup_complete: Raw = ABSENT
    server_content: ServerContent | None = None
    tool_call: Raw = ABSENT
    tool_call_cancellation: ToolCallCancellation | None = None
    go_away: GoAway | None = None
    session_resumption_update: SessionResumptionUpdate | None = None
    usage_metadata: dict[str, Any] | None = None


_server: Final = msgspec.json.Decoder(ServerMessage).decode


def read_server(payload: bytes) -> ServerMessage:
    """A server's message. Raises UnreadableMessage."""
    try:
        return _server(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableMessage(f"the message cannot be read: {error}") from error


@lru_cache(maxsize=64)
def snake_case(name: str) -> str:
    """A name as Google's SDK for Python spells some."""
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


def key(message: Mapping[str, Any], name: str) -> str:
    """A member's name, in camel case, as the message spells it; as it is where there is none."""
    return snake_case(name) if name not in message and snake_case(name) in message else name


def member(message: Mapping[str, Any], name: str) -> Message:
    """An object within a message; empty where there is none."""
    value = message.get(key(message, name))
    return value if isinstance(value, dict) else _NOTHING


def members(message: Mapping[str, Any], name: str) -> list[Message]:
    """The objects of a list within a message; a single object counts as a list of one."""
    value = message.get(key(message, name))
    entries = [value] if isinstance(value, dict) else value
    return [each for each in entries if isinstance(each, dict)] if isinstance(entries, list) else []


def text(message: Mapping[str, Any], name: str) -> str:
    """A text within a message; empty where there is none."""
    value = message.get(key(message, name))
    return value if isinstance(value, str) else ""


def has(message: Mapping[str, Any], name: str) -> bool:
    """Whether a message has a member."""
    return key(message, name) in message


def written_text(message: Message) -> str:
    """All that a client's message has the user say in writing."""
    words = [text(member(message, "realtimeInput"), "text")]
    for turn in members(member(message, "clientContent"), "turns"):
        if text(turn, "role") in ("", "user"):
            words += [text(part, "text") for part in members(turn, "parts")]
    return " ".join(word for word in words if word)


def without(message: Message, *names: str) -> Message | None:
    """A message without these members; None where nothing is left of it."""
    gone = {key(message, name) for name in names}
    left = {name: value for name, value in message.items() if name not in gone}
    return left or None


def gateway_message(name: str, value: Mapping[str, Any]) -> bytes:
    """A message of the gateway's own to a client. SDKs drop the member that they do not know, and raise an error where
    there is no other one: an empty `serverContent` is beside it.
    """
    return msgspec.json.encode({"serverContent": {}, name: value})


_TWICE: Final = {snake_case(name): name for name in _READ if snake_case(name) != name}
_SNAKES: Final = frozenset(_TWICE)


def fault(message: Message) -> str | None:
    """A sentence about what is wrong with a client's message; None: nothing."""
    kinds = [name for name in message if name in _KINDS or _TWICE.get(name) in _KINDS]
    if len(message) != 1 or not kinds:
        return f"a message has one member, which is one of {', '.join(sorted(_KINDS))}"
    return _spelled_twice(message) or _misspelt_member(message)


def _misspelt_member(message: Message) -> str | None:
    """A sentence about a member that some parsers take for one that the gateway decides by; None without any."""
    update, setup = member(message, "contextUpdate"), member(message, SETUP)
    misspelling = _MODEL.misread(update, "contextUpdate") or _MODEL.misread(setup, SETUP)
    for tool in (*members(member(update, "tools"), "tools"), *members(setup, "tools")):
        misspelling = misspelling or _TOOL.misread(tool, "a tool")
    return misspelling


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


_BLOB: Final = b"(?:%s|%s)" % (_object(_KIND_OF_BLOB, _DATA), _object(_DATA, _KIND_OF_BLOB))
_MEDIA: Final = (_object((b"audio|video", _BLOB)), _object((b"mediaChunks|media_chunks", _list(_BLOB))))
_CLIENT_AUDIO: Final = _object((b"realtimeInput|realtime_input", b"(?:%s|%s)" % _MEDIA))
_PARTS: Final = _list(_object((b"inlineData", _BLOB)))
_PROVIDER_AUDIO: Final = _object((b"serverContent", _object((b"modelTurn", _object((b"parts", _PARTS))))))


def _whole(form: bytes) -> re.Pattern[bytes]:
    return re.compile(SPACE + form + SPACE)


CLIENT_MESSAGES: Final = MessageReader(OF_CLIENT, _whole(_CLIENT_AUDIO), binary=True, passes_audio=True, fault=fault)
ROUTED_CLIENT_MESSAGES: Final = MessageReader(
    OF_CLIENT, _whole(_CLIENT_AUDIO), binary=True, passes_audio=False, fault=fault
)
"""Those of a client whose audio the gateway itself hears."""
PROVIDER_MESSAGES: Final = MessageReader(
    OF_PROVIDER, _whole(_PROVIDER_AUDIO), binary=True, passes_audio=False, repairs=True
)
"""Audio is looked at, too: an answer begins with it."""


class ClientNotices:
    """Tells one client."""

    def __init__(self, client: MessageSink, tier: SpokenTier) -> None:
        self._client = client
        self._tier = tier
        self.updates_session = False
        """Whether the client has sent a wish: it knows of the gateway's messages."""

    async def send_media(self, call: ModelCall, parts: list[dict[str, Any]]) -> None:
        """Send what cannot be spoken of a result."""
        await self._send(TOOL_RESULT, {"callId": call.id, "name": call.wire_name, "content": parts})

    async def send_error(self, why: str) -> None:
        """Say why a wish was refused."""
        await self._send(ERROR, {"message": why})

    async def send_waiting_tier(self, reason: str) -> None:
        """Say that the tier waits."""
        if self.updates_session:
            await self._send(TIER, {"tier": self._tier.current, "waits": reason})

    async def forward(self, payload: bytes) -> None:
        """Send a message of the provider that was held back."""
        await self._client.send(payload)

    async def _send(self, name: str, value: Mapping[str, Any]) -> None:
        await self._client.send(gateway_message(name, value))
