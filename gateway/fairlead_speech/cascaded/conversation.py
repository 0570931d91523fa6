"""Conversation of one session: its items, bounded in bytes, and as messages of Chat Completions. Pure module.

Wire format of items: OpenAI Realtime API. Of messages for the model: `POST /v1/chat/completions`.
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
"""Bytes of all items; the oldest are dropped beyond it."""
MAX_ITEMS: Final = 2000
MAX_RESULT_BYTES: Final = 128 << 10
"""Bytes of JSON of one result of a call."""
NO_RESULT: Final = "(there is no result yet)"
_OVERHEAD: Final = 128
"""Bytes that an empty item counts for."""
_encode: Final = msgspec.json.encode
MAX_PARTS: Final = 64
"""Parts of one message."""
_CUT: Final = " (cut off here: the result is too long)"
_PARTS: Final = frozenset({"input_text", "output_text", "text", "input_audio", "output_audio"})
"""Types of parts that a message of a client may have."""


class SpokenPiece(msgspec.Struct):
    """Piece of an answer that was spoken."""

    text: str
    audio: int = 0
    """Bytes of its audio."""


class ConversationItem(msgspec.Struct):
    """Conversation item, with what the engine needs beside its form on the wire."""

    wire: Event
    """Item in its form on the wire."""
    size: int
    spoken: list[SpokenPiece] = []
    """Pieces that were spoken, of an assistant's message."""
    filler: bool = False
    """Whether it is a filler, which is left out for the model."""

    @property
    def id(self) -> str:
        return text(self.wire, "id")


class TooLargeItem(ValueError):
    """Item that is larger than a conversation may be."""


class SpokenConversation:
    """Items of one conversation, in order."""

    def __init__(self) -> None:
        self._items: dict[str, ConversationItem] = {}
        self._size = 0
        self.last: str | None = None
        """Id of the last item."""

    def __contains__(self, ident: str) -> bool:
        return ident in self._items

    def get(self, ident: str) -> ConversationItem | None:
        """Item of an id; None where there is none."""
        return self._items.get(ident)

    def items(self) -> list[ConversationItem]:
        """All items, in order."""
        return [*self._items.values()]

    def add(
        self, wire: Event, *, filler: bool = False, after: str | None = None
    ) -> tuple[ConversationItem, str | None]:
        """Add an item at the end, or after another one. Returns it, and the id of the item before it. Raises
        TooLargeItem.
        """
        item = ConversationItem(wire, _size(wire), filler=filler)
        if item.size > MAX_BYTES:
            raise TooLargeItem(f"an item may have {MAX_BYTES >> 10} KiB")
        previous = self.last
        if after is not None and after in self._items and after != self.last:
            previous = after
            rest = {}
            for ident in [*self._items][[*self._items].index(after) + 1 :]:
                rest[ident] = self._items.pop(ident)
            self._items[item.id] = item
            self._items.update(rest)
        else:
            self._items[item.id] = item
            self.last = item.id
        self._size += item.size
        self._forget()
        return item, previous

    def update(self, item: ConversationItem, wire: Event) -> None:
        """Replace the wire form of an item by another one of the same id."""
        size = _size(wire)
        if item.id in self._items:
            self._size += size - item.size
        item.wire = wire
        item.size = size
        self._forget()

    def remove(self, ident: str) -> bool:
        """Remove an item; False where there is none."""
        item = self._items.pop(ident, None)
        if item is None:
            return False
        self._size -= item.size
        if ident == self.last:
            self.last = next(reversed(self._items), None)
        return True

    def result_room(self, call: str) -> int:
        """Bytes of JSON that the result of a call may have: the calls of one response share half of the conversation,
        so that their results do not push out the question. 0 where there is no such call.
        """
        calls_in_round, is_round = 0, False
        for each in self._items.values():
            if each.wire.get("type") == "function_call":
                calls_in_round, is_round = calls_in_round + 1, is_round or each.wire.get("call_id") == call
            elif is_round:
                break
            else:
                calls_in_round = 0
        return min(MAX_RESULT_BYTES, MAX_BYTES // 2 // calls_in_round) if is_round else 0

    def _forget(self) -> None:
        """Drop the oldest items beyond the bounds. `chat_messages` leaves out results whose calls are gone."""
        while len(self._items) > 1 and (self._size > MAX_BYTES or len(self._items) > MAX_ITEMS):
            self.remove(next(iter(self._items)))


def truncate(item: ConversationItem, played_ms: int) -> Event | None:
    """Cut an answer to the audio that was played; None where its audio is shorter than that."""
    if played_ms > milliseconds(sum(each.audio for each in item.spoken)):
        return None
    texts, remaining_ms = [], played_ms
    for each in item.spoken:
        length = milliseconds(each.audio)
        if remaining_ms >= length:
            texts.append(each.text)
        elif remaining_ms > 0:
            words = each.text.split(" ")
            texts.append(" ".join(words[: len(words) * remaining_ms // max(length, 1)]))
        remaining_ms -= length
        if remaining_ms <= 0:
            break
    return {**item.wire, "content": [{"type": "output_audio", "transcript": "".join(texts).strip()}]}


def chat_messages(instructions: str, items: Iterable[ConversationItem]) -> list[dict[str, Any]]:
    """Messages for the model. Results follow the message with their calls, as its API demands."""
    visible = [item.wire for item in items if not item.filler]
    results = {
        text(each, "call_id"): text(each, "output") for each in visible if each.get("type") == "function_call_output"
    }
    chat: list[dict[str, Any]] = [{"role": "system", "content": instructions}] if instructions else []
    calls: list[Event] = []
    for each in [*visible, {}]:
        if each.get("type") == "function_call":
            calls.append(each)
            continue
        if each.get("type") == "function_call_output":
            continue
        chat += _call_messages(calls, results, chat)
        calls = []
        content = spoken_text(each)
        if content:
            chat.append({"role": _role(each), "content": content})
    return chat


def _role(item: Event) -> str:
    role = text(item, "role")
    return role if role in ("user", "assistant", "system") else "user"


def _call_messages(
    calls: Sequence[Event], results: dict[str, str], before: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Message of the model with its calls, and their results. Text before the calls is joined to it."""
    if not calls:
        return []
    content = before.pop()["content"] if before and before[-1]["role"] == "assistant" else None
    first: dict[str, Event] = {}
    for each in calls:  # models make ids that come again, and the API refuses two of one id
        first.setdefault(text(each, "call_id"), each)
    made = [
        {
            "id": ident,
            "type": "function",
            "function": {"name": text(each, "name"), "arguments": text(each, "arguments") or "{}"},
        }
        for ident, each in first.items()
    ]
    answers = [
        {"role": "tool", "tool_call_id": each["id"], "content": results.get(str(each["id"]), NO_RESULT)}
        for each in made
    ]
    return [{"role": "assistant", "content": content, "tool_calls": made}, *answers]


def spoken_text(item: Event) -> str:
    """Text of a message: written, transcribed or spoken."""
    parts = [text(part, "text") or text(part, "transcript") for part in members(item, "content")]
    return " ".join(part for part in parts if part).strip()


def _size(wire: Event) -> int:
    return len(_encode(wire)) + _OVERHEAD


async def message_parts(item: Event, room: int) -> tuple[list[Event], bytes]:
    """Read the parts of a client's message. Returns them without their audio, and the audio to transcribe, joined.
    `room`: bytes of audio that are allowed. Raises BadEvent.
    """
    given = members(item, "content")
    if len(given) > MAX_PARTS:
        raise BadEvent("array_above_max_length", f"a message has up to {MAX_PARTS} parts here", "item.content")
    if any(part.get("type") not in _PARTS for part in given):
        raise BadEvent("invalid_value", "messages have text and audio here", "item.content")
    if sum(len(text(part, "audio")) * 3 // 4 for part in given) > room:
        raise BadEvent("input_audio_buffer_full", "4 minutes of audio wait already", "item.content")
    audio = bytearray()
    try:
        for part in given:
            audio += await decode(text(part, "audio"))
    except BadAudio as error:
        raise BadEvent("invalid_value", str(error), "item.content.audio") from error
    parts = [{name: value for name, value in part.items() if name != "audio"} for part in given]
    if not audio or any(text(part, "transcript") for part in parts):
        return parts, b""
    if milliseconds(len(audio)) < MIN_TURN_MS:
        raise BadEvent("invalid_value", f"the audio of a message has at least {MIN_TURN_MS} ms", "item.content.audio")
    return parts, bytes(audio)


def cut_result(item: Event, room: int) -> Event:
    """Cut the output of a call to `room` bytes of JSON, with a mark at the cut."""
    output = text(item, "output")
    size = len(_encode(output))
    if size <= room:
        return item
    while size > room - len(_CUT) and output:
        # by bytes of JSON, as a character may have up to six of them
        output = output[: min(len(output) * (room - len(_CUT)) // size, len(output) - 1)]
        size = len(_encode(output))
    return {**item, "output": output + _CUT}
