"""Conversation of one session: its items, limited in bytes, and their conversion to messages for the model. Does no
I/O.

Items have the wire format of the OpenAI Realtime API, messages for the model that of OpenAI Chat Completions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from fairlead_speech.cascaded.audio import BadAudio, decode, milliseconds
from fairlead_speech.cascaded.config import BadEvent
from fairlead_speech.cascaded.input_audio import MIN_TURN_MS
from fairlead_speech.realtime.events import Event, members, text

MAX_BYTES: Final = 1 << 20
"""Maximum number of bytes of all items. If there are more, the oldest items are dropped."""
MAX_ITEMS: Final = 2000
MAX_RESULT_BYTES: Final = 128 << 10
"""Maximum number of bytes of a call's result as JSON."""
NO_RESULT: Final = "(there is no result yet)"
_ITEM_OVERHEAD: Final = 128
"""Bytes that are added to the size of each item's JSON, for the Python objects that hold the item."""
_encode: Final = msgspec.json.encode
MAX_PARTS: Final = 64
"""Maximum number of parts of one message."""
_CUT_NOTE: Final = " (cut off here: the result is too long)"
_PART_TYPES: Final = frozenset({"input_text", "output_text", "text", "input_audio", "output_audio"})
"""Types of parts that are allowed in a message of a client."""


class SpokenPiece(msgspec.Struct):
    """Piece of an answer that was spoken."""

    text: str
    audio: int = 0
    """Bytes of audio of the piece."""


class ConversationItem(msgspec.Struct):
    """Item of the conversation: its wire form, and data for the engine."""

    wire: Event
    """Item in the wire format."""
    size: int
    spoken: list[SpokenPiece] = []
    """Spoken pieces of an assistant's message; empty for other items."""
    filler: bool = False
    """Whether the item is a filler: a short phrase that is spoken while the user waits, and that the model does not
    get.
    """

    @property
    def id(self) -> str:
        return text(self.wire, "id")


class TooLargeItem(ValueError):
    """An item that is larger than a whole conversation may be."""


class SpokenConversation:
    """Items of one conversation, in order."""

    def __init__(self) -> None:
        self._items: dict[str, ConversationItem] = {}
        self._size = 0
        self.last: str | None = None
        """Id of the last item; None if the conversation is empty."""

    def __contains__(self, ident: str) -> bool:
        return ident in self._items

    def get(self, ident: str) -> ConversationItem | None:
        """Item with an id; None if the conversation has none."""
        return self._items.get(ident)

    def items(self) -> list[ConversationItem]:
        """All items, in order."""
        return [*self._items.values()]

    def add(
        self, wire: Event, *, filler: bool = False, after: str | None = None
    ) -> tuple[ConversationItem, str | None]:
        """Add an item after the item `after`, or at the end. Returns the item and the id of the previous item. Raises
        TooLargeItem.
        """
        item = ConversationItem(wire, _size(wire), filler=filler)
        if item.size > MAX_BYTES:
            raise TooLargeItem(f"an item of the conversation may have at most {MAX_BYTES >> 10} KiB")
        previous_id = self.last
        if after is not None and after in self._items and after != self.last:
            previous_id = after
            later_items = {}
            for ident in [*self._items][[*self._items].index(after) + 1 :]:
                later_items[ident] = self._items.pop(ident)
            self._items[item.id] = item
            self._items.update(later_items)
        else:
            self._items[item.id] = item
            self.last = item.id
        self._size += item.size
        self._drop_oldest()
        return item, previous_id

    def update(self, item: ConversationItem, wire: Event) -> None:
        """Replace the wire form of an item. The new form has the same id."""
        size = _size(wire)
        if item.id in self._items:
            self._size += size - item.size
        item.wire = wire
        item.size = size
        self._drop_oldest()

    def remove(self, ident: str) -> bool:
        """Remove an item. Returns False if the conversation has none with this id."""
        item = self._items.pop(ident, None)
        if item is None:
            return False
        self._size -= item.size
        if ident == self.last:
            self.last = next(reversed(self._items), None)
        return True

    def result_room(self, call: str) -> int:
        """Maximum number of bytes of the JSON of a call's result; 0 if the conversation does not contain the call. All
        calls of one response share half of the conversation's maximum size, so that their results do not displace the
        user's question.
        """
        calls_in_round, has_call = 0, False
        for item in self._items.values():
            if item.wire.get("type") == "function_call":
                calls_in_round, has_call = calls_in_round + 1, has_call or item.wire.get("call_id") == call
            elif has_call:
                break
            else:
                calls_in_round = 0
        return min(MAX_RESULT_BYTES, MAX_BYTES // 2 // calls_in_round) if has_call else 0

    def _drop_oldest(self) -> None:
        """Drop the oldest items until the rest is within the limits. `chat_messages` leaves out results whose calls
        were dropped.
        """
        while len(self._items) > 1 and (self._size > MAX_BYTES or len(self._items) > MAX_ITEMS):
            self.remove(next(iter(self._items)))


def truncate(item: ConversationItem, played_ms: int) -> Event | None:
    """Cut the transcript of an answer to the part whose audio was played. `played_ms`: milliseconds that were played.
    Returns None if the answer has less audio.
    """
    if played_ms > milliseconds(sum(piece.audio for piece in item.spoken)):
        return None
    texts, remaining_ms = [], played_ms
    for piece in item.spoken:
        piece_ms = milliseconds(piece.audio)
        if remaining_ms >= piece_ms:
            texts.append(piece.text)
        elif remaining_ms > 0:
            words = piece.text.split(" ")
            texts.append(" ".join(words[: len(words) * remaining_ms // max(piece_ms, 1)]))
        remaining_ms -= piece_ms
        if remaining_ms <= 0:
            break
    return {**item.wire, "content": [{"type": "output_audio", "transcript": "".join(texts).strip()}]}


def chat_messages(instructions: str, items: Iterable[ConversationItem]) -> list[dict[str, Any]]:
    """Convert items to messages for the model. Results directly follow the message with their calls, as the API
    requires.
    """
    wire_items = [item.wire for item in items if not item.filler]
    results = {
        text(item, "call_id"): text(item, "output") for item in wire_items if item.get("type") == "function_call_output"
    }
    chat: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    calls: list[Event] = []
    for item in [*wire_items, {}]:
        if item.get("type") == "function_call":
            calls.append(item)
            continue
        if item.get("type") == "function_call_output":
            continue
        chat += _call_messages(calls, results, chat)
        calls = []
        content = spoken_text(item)
        if content:
            chat.append({"role": _role(item), "content": content})
    return chat


def _role(item: Event) -> str:
    role = text(item, "role")
    return role if role in ("user", "assistant", "system") else "user"


def _call_messages(
    calls: Sequence[Event], results: dict[str, str], messages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Message of the model with its calls, followed by the results. If the last message of `messages` is text of the
    model, it is removed from `messages`, and its text becomes part of the new message.
    """
    if not calls:
        return []
    content = messages.pop()["content"] if messages and messages[-1]["role"] == "assistant" else None
    calls_by_id: dict[str, Event] = {}
    for call in calls:  # models may repeat an id, but the API refuses two calls with the same id
        calls_by_id.setdefault(text(call, "call_id"), call)
    call_parts = [
        {
            "id": call_id,
            "type": "function",
            "function": {"name": text(call, "name"), "arguments": text(call, "arguments") or "{}"},
        }
        for call_id, call in calls_by_id.items()
    ]
    result_messages = [
        {"role": "tool", "tool_call_id": part["id"], "content": results.get(str(part["id"]), NO_RESULT)}
        for part in call_parts
    ]
    return [{"role": "assistant", "content": content, "tool_calls": call_parts}, *result_messages]


def spoken_text(item: Event) -> str:
    """Text of a message, whether written, transcribed or spoken."""
    parts = [text(part, "text") or text(part, "transcript") for part in members(item, "content")]
    return " ".join(part for part in parts if part).strip()


def _size(wire: Event) -> int:
    return len(_encode(wire)) + _ITEM_OVERHEAD


async def message_parts(item: Event, max_audio_bytes: int) -> tuple[list[Event], bytes]:
    """Read the parts of a client's message. Returns the parts without their audio, and the audio of all parts, which
    has to be transcribed; no audio if a part has a transcript. `max_audio_bytes`: maximum bytes of audio. Raises
    BadEvent.
    """
    content = members(item, "content")
    if len(content) > MAX_PARTS:
        raise BadEvent("array_above_max_length", f"a message may have at most {MAX_PARTS} parts", "item.content")
    if any(part.get("type") not in _PART_TYPES for part in content):
        raise BadEvent("invalid_value", "parts of messages must be text or audio", "item.content")
    if sum(len(text(part, "audio")) * 3 // 4 for part in content) > max_audio_bytes:
        message = "4 minutes of audio wait for transcription: send more when some of it is transcribed"
        raise BadEvent("input_audio_buffer_full", message, "item.content")
    audio = bytearray()
    try:
        for part in content:
            audio += await decode(text(part, "audio"))
    except BadAudio as error:
        raise BadEvent("invalid_value", str(error), "item.content.audio") from error
    parts = [{name: value for name, value in part.items() if name != "audio"} for part in content]
    if not audio or any(text(part, "transcript") for part in parts):
        return parts, b""
    if milliseconds(len(audio)) < MIN_TURN_MS:
        message = f"the audio of a message must have at least {MIN_TURN_MS} ms"
        raise BadEvent("invalid_value", message, "item.content.audio")
    return parts, bytes(audio)


def cut_result(item: Event, max_bytes: int) -> Event:
    """Cut the output of a call so that its JSON has at most `max_bytes` bytes, and append a note that says so."""
    output = text(item, "output")
    size = len(_encode(output))
    if size <= max_bytes:
        return item
    while size > max_bytes - len(_CUT_NOTE) and output:
        # measured as JSON, in which one character may have up to six bytes
        output = output[: min(len(output) * (max_bytes - len(_CUT_NOTE)) // size, len(output) - 1)]
        size = len(_encode(output))
    return {**item, "output": output + _CUT_NOTE}
