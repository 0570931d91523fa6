"""Messages of Gemini Live: types and accessors, readers for messages of clients and of providers, and messages that the
gateway adds to the API.

The names of a message's members determine its kind; a message of a server may be of several kinds. Names are in camel
case, but Google's SDK for Python sends some in snake case. The functions of this module expect messages that a
`MessageReader` has checked. Source: Live API reference, BidiGenerateContent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import ModelCall
from fairlead_mcp.members import ProtectedNames
from fairlead_speech import messages
from fairlead_speech.messages import BASE64, OF_CLIENT, OF_PROVIDER, PLAIN, SPACE, MessageReader, UnreadableMessage
from fairlead_speech.session import MessageSink
from fairlead_speech.tiers import SpokenTier

Message: TypeAlias = dict[str, Any]
IDLE: Final = "IDLE"
"""Value of `interaction_status` after which the model says nothing more in its turn."""
_SECONDS: Final = re.compile(r"(\d{1,6})(\.\d{1,9})?s")
read: Final = messages.read
_NO_MEMBERS: Final[Message] = {}
ABSENT: Final = Raw()
SESSION_UPDATE: Final = "fairleadSessionUpdate"
"""Member of the gateway's own message by which a client changes its session: `{tier?, queueDepth?}`."""
SETUP: Final = "setup"
_MESSAGE_MEMBERS: Final = frozenset(
    {"clientContent", "contextUpdate", "realtimeInput", "toolResponse", SETUP, SESSION_UPDATE}
)
"""Members of client messages. A message has exactly one of them, as in Google's API."""
_NAMES_ALSO_IN_SNAKE_CASE: Final = (
    *_MESSAGE_MEMBERS,
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
_SETUP_MEMBERS: Final = ProtectedNames({"model", "sessionResumption", "session_resumption", "tools"})
_TOOL_MEMBERS: Final = ProtectedNames({"functionDeclarations", "function_declarations", "mcpServers", "mcp_servers"})
_MEDIA_TYPE_MEMBER: Final = (b"mimeType|mime_type", PLAIN)
_DATA_MEMBER: Final = (b"data", BASE64)
TOOL_RESULT: Final = "fairleadToolResult"
"""Member of the gateway's message to a client. Its value has those parts of a tool's result that cannot be spoken."""
ERROR: Final = "fairleadError"
"""Member of the gateway's message to a client. Its value says why SESSION_UPDATE was refused."""
TIER: Final = "fairleadTier"
"""Member of the gateway's message to a client. Its value says why the tools of a tier are not available yet."""


def is_present(value: Raw) -> bool:
    """Whether a member is present and not null."""
    size = memoryview(value).nbytes
    return size > 0 and (size != len(b"null") or bytes(value) != b"null")


class Transcription(msgspec.Struct, rename="camel"):
    """Piece of a transcript of the user's speech."""

    text: str | None = None
    finished: bool | None = None


class ServerContent(msgspec.Struct, rename="camel"):
    """`serverContent`: output of the model, and transcripts of the user. The type has only members that the gateway
    reads.
    """

    model_turn: Raw = ABSENT
    output_transcription: Raw = ABSENT
    input_transcription: Transcription | None = None
    generation_complete: bool | None = None
    turn_complete: bool | None = None
    interrupted: bool | None = None
    interaction_status: str | None = None

    @property
    def has_output(self) -> bool:
        """Whether the content has output of the model."""
        return is_present(self.model_turn) or is_present(self.output_transcription)

    @property
    def about_answer(self) -> bool:
        """Whether the content concerns an answer of the model, and is not only a transcript of the user's speech."""
        return self.has_output or self.turn_over or bool(self.interrupted or self.generation_complete)

    @property
    def turn_over(self) -> bool:
        """Whether the content ends the model's turn."""
        return bool(self.turn_complete) or self.interaction_status == IDLE


class ToolCallCancellation(msgspec.Struct, rename="camel"):
    """`toolCallCancellation`: ids of the calls that the provider cancels."""

    ids: list[str] = []


class GoAway(msgspec.Struct, rename="camel"):
    """`goAway`: notice that the provider closes the connection soon."""

    time_left: str | None = None

    @property
    def seconds(self) -> float:
        """Seconds until the close; 0 if they are not stated."""
        match = _SECONDS.fullmatch(self.time_left or "")
        return float(match[0][:-1]) if match is not None else 0.0


class SessionResumptionUpdate(msgspec.Struct, rename="camel"):
    """`sessionResumptionUpdate`: handle that resumes the session over another connection."""

    new_handle: str | None = None
    resumable: bool | None = None


class ServerMessage(msgspec.Struct, rename="camel"):
    """Message of a server. The type has only members that the gateway reads."""

    setup_complete: Raw = ABSENT
    server_content: ServerContent | None = None
    tool_call: Raw = ABSENT
    tool_call_cancellation: ToolCallCancellation | None = None
    go_away: GoAway | None = None
    session_resumption_update: SessionResumptionUpdate | None = None
    usage_metadata: dict[str, Any] | None = None


_decode_server_message: Final = msgspec.json.Decoder(ServerMessage).decode


def read_server(payload: bytes) -> ServerMessage:
    """Decode a server's message. Raises UnreadableMessage."""
    try:
        return _decode_server_message(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableMessage(f"the message cannot be read: {error}") from error


@lru_cache(maxsize=64)
def snake_case(name: str) -> str:
    """Convert a name to snake case, in which Google's SDK for Python sends some members."""
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


def key(message: Mapping[str, Any], name: str) -> str:
    """Spelling of the member `name` in a message: snake case if the message has the member in snake case, else `name`
    itself."""
    return snake_case(name) if name not in message and snake_case(name) in message else name


def member(message: Mapping[str, Any], name: str) -> Message:
    """Value of a member if it is an object; else an empty object."""
    value = message.get(key(message, name))
    return value if isinstance(value, dict) else _NO_MEMBERS


def members(message: Mapping[str, Any], name: str) -> list[Message]:
    """Objects in the list that a member holds. A single object counts as a list of one element."""
    value = message.get(key(message, name))
    entries = [value] if isinstance(value, dict) else value
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def text(message: Mapping[str, Any], name: str) -> str:
    """Value of a member if it is a string; else an empty string."""
    value = message.get(key(message, name))
    return value if isinstance(value, str) else ""


def has_member(message: Mapping[str, Any], name: str) -> bool:
    """Whether a message has a member, in either spelling."""
    return key(message, name) in message


def written_text(message: Message) -> str:
    """Written text of the user in a client's message; empty if it has none."""
    texts = [text(member(message, "realtimeInput"), "text")]
    for turn in members(member(message, "clientContent"), "turns"):
        if text(turn, "role") in ("", "user"):
            texts += [text(part, "text") for part in members(turn, "parts")]
    return " ".join(part_text for part_text in texts if part_text)


def without_members(message: Message, *names: str) -> Message | None:
    """Copy a message without some members. Returns None if no other member remains."""
    removed = {key(message, name) for name in names}
    remaining = {name: value for name, value in message.items() if name not in removed}
    return remaining or None


def gateway_message(name: str, value: Mapping[str, Any]) -> bytes:
    """Make a message of the gateway for a client. An empty `serverContent` is added, because SDKs drop members that
    they do not know, and fail if no member remains.
    """
    return msgspec.json.encode({"serverContent": {}, name: value})


_CAMEL_BY_SNAKE: Final = {snake_case(name): name for name in _NAMES_ALSO_IN_SNAKE_CASE if snake_case(name) != name}
_SNAKE_CASE_NAMES: Final = frozenset(_CAMEL_BY_SNAKE)


def fault(message: Message) -> str | None:
    """Describe what is invalid in a client's message. Returns None if the message is valid."""
    kinds = [name for name in message if name in _MESSAGE_MEMBERS or _CAMEL_BY_SNAKE.get(name) in _MESSAGE_MEMBERS]
    if len(message) != 1 or not kinds:
        return f"a message must have exactly one member, which is one of {', '.join(sorted(_MESSAGE_MEMBERS))}"
    return _member_in_both_spellings(message) or _misspelt_member(message)


def _misspelt_member(message: Message) -> str | None:
    """Describe a misspelt member that a lenient parser would accept in place of a member by which the gateway decides.
    Returns None if there is no such member.
    """
    update, setup = member(message, "contextUpdate"), member(message, SETUP)
    misspelling = _SETUP_MEMBERS.explain_misread(update, "contextUpdate") or _SETUP_MEMBERS.explain_misread(
        setup, SETUP
    )
    for tool in (*members(member(update, "tools"), "tools"), *members(setup, "tools")):
        misspelling = misspelling or _TOOL_MEMBERS.explain_misread(tool, "a tool")
    return misspelling


def _member_in_both_spellings(message: Message) -> str | None:
    """Describe an object that has one member in both camel case and snake case: parsers may use either of the two.
    Returns None if there is no such object.
    """
    remaining_values: list[object] = [message]
    while remaining_values:
        value = remaining_values.pop()
        if isinstance(value, dict):
            for name in () if _SNAKE_CASE_NAMES.isdisjoint(value) else _SNAKE_CASE_NAMES.intersection(value):
                if _CAMEL_BY_SNAKE[name] in value:
                    return f'an object has both "{_CAMEL_BY_SNAKE[name]}" and "{name}"'
            remaining_values += value.values()
        elif isinstance(value, list):
            remaining_values += value
    return None


def _object(*values: tuple[bytes, bytes]) -> bytes:
    """Regular expression for a JSON object with these members in this order."""
    member_patterns = b",".join(
        rb'%s"(?:%s)"%s:%s%s%s' % (SPACE, name, SPACE, SPACE, value, SPACE) for name, value in values
    )
    return rb"\{%s\}" % member_patterns


def _list(value: bytes) -> bytes:
    """Regular expression for a JSON list of one value."""
    return rb"\[%s%s%s\]" % (SPACE, value, SPACE)


_BLOB: Final = b"(?:%s|%s)" % (_object(_MEDIA_TYPE_MEMBER, _DATA_MEMBER), _object(_DATA_MEMBER, _MEDIA_TYPE_MEMBER))
_MEDIA: Final = (_object((b"audio|video", _BLOB)), _object((b"mediaChunks|media_chunks", _list(_BLOB))))
_CLIENT_AUDIO: Final = _object((b"realtimeInput|realtime_input", b"(?:%s|%s)" % _MEDIA))
_PARTS: Final = _list(_object((b"inlineData", _BLOB)))
_PROVIDER_AUDIO: Final = _object((b"serverContent", _object((b"modelTurn", _object((b"parts", _PARTS))))))


def _whole_message(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(SPACE + pattern + SPACE)


CLIENT_MESSAGES: Final = MessageReader(
    OF_CLIENT, _whole_message(_CLIENT_AUDIO), binary=True, passes_audio=True, fault=fault
)
ROUTED_CLIENT_MESSAGES: Final = MessageReader(
    OF_CLIENT, _whole_message(_CLIENT_AUDIO), binary=True, passes_audio=False, fault=fault
)
"""Reader for clients of routed sessions. The gateway decodes their audio, because it detects the turns itself."""
PROVIDER_MESSAGES: Final = MessageReader(
    OF_PROVIDER, _whole_message(_PROVIDER_AUDIO), binary=True, passes_audio=False, repairs=True
)
"""Reader for providers. Messages with audio are decoded too, because the first audio begins an answer."""


class ClientNotices:
    """Sends messages that the gateway adds to the API to one client."""

    def __init__(self, client: MessageSink, tier: SpokenTier) -> None:
        self._client = client
        self._tier = tier
        self.updates_session = False
        """Whether the client has sent SESSION_UPDATE. Only such a client is known to understand the gateway's messages.
        """

    async def send_media(self, call: ModelCall, parts: list[dict[str, Any]]) -> None:
        """Send the parts of a tool's result that cannot be spoken."""
        await self._send(TOOL_RESULT, {"callId": call.id, "name": call.wire_name, "content": parts})

    async def send_error(self, reason: str) -> None:
        """Send the reason why SESSION_UPDATE was refused."""
        await self._send(ERROR, {"message": reason})

    async def send_waiting_tier(self, reason: str) -> None:
        """Send the reason why the tools of the tier are not available yet, if the client understands messages of the
        gateway.
        """
        if self.updates_session:
            await self._send(TIER, {"tier": self._tier.current, "waits": reason})

    async def forward(self, payload: bytes) -> None:
        """Forward a message of the provider that the gateway held back until now."""
        await self._client.send(payload)

    async def _send(self, name: str, value: Mapping[str, Any]) -> None:
        await self._client.send(gateway_message(name, value))
