"""Streams of OpenAI Responses: the events of several answers become those of one response, without the calls that are
run here.

Pure module. What a client's accumulator takes (run with the SDK): one id from `response.created` to the end, one
start, one end, `output_index` without gaps, ids of items that do not change, and in the last event the whole output,
which counts more than what was streamed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.providers.openai_chat.errors import error_object
from fairlead_formats.providers.openai_responses.items import (
    encode,
    head_of,
    members_of,
    raws,
    unwrap_calls,
    waiting_calls,
    with_call_ids,
)
from fairlead_formats.providers.openai_responses.own_servers import (
    begin_of_call,
    end_of_call,
    events_of_call,
    list_events,
)
from fairlead_formats.providers.openai_responses.rounds import ShownResponse, last_thought, read_response
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream, CallKey, FinishedCall, InnerCall, RunningCall, WireRequest
from fairlead_formats.wire.raw_json import add_usage, decode_object
from fairlead_mcp.surrogates import replace_lone_surrogates

MAX_ROUND: Final = 32 << 20
"""Bytes that one round may say."""
_COMMENT: Final = b": still at work\n\n"
_NULL: Final = Raw(b"null")
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_ADDED: Final = "response.output_item.added"
_DONE: Final = "response.output_item.done"


class _ResponseEvent(msgspec.Struct):
    type: str | None = None
    sequence_number: int | None = None
    output_index: int | None = None
    item_id: str | None = None
    item: Raw = _NULL
    response: Raw = _NULL
    error: Raw = _NULL


_event: Final = msgspec.json.Decoder(_ResponseEvent).decode


class StreamedItem:
    """One item of a round that is not complete yet."""

    def __init__(self, item: Raw) -> None:
        self.item = item
        self.index: int | None = None
        """Index in the client's output; None for an item that is not shown."""
        self.held: list[tuple[bytes, _ResponseEvent]] | None = None
        """Events, held back until it is known who runs the call; None: they are passed to the client."""


class ResponsesStream:
    """Events of one client's stream over all rounds."""

    def __init__(self, request: WireRequest, theirs: Collection[str] | None) -> None:
        self._request = request
        self._theirs = theirs
        self._shown = ShownResponse(request, theirs)
        self._told: set[str] = set()
        """Types of lifecycle events that the client has got."""
        self._opened = False
        self._early: Sequence[FinishedCall] = ()
        self._running: Sequence[int] = ()
        """Places of calls in the client's output that have no results there."""
        self._sequence = 0
        self._places = 0
        """Items in the client's output."""
        self.usage: dict[str, Any] = {}
        self.provider_ids: list[str] = []
        self._before: list[tuple[Sequence[Raw], str]] = []
        """Items and marks of the rounds before this one."""
        self._begin()

    def _begin(self) -> None:
        self._items: dict[int, StreamedItem] = {}
        self._final: dict[str, Raw] | None = None
        self._end = ""
        self._size = 0
        self.items: list[Raw] = []
        """Output of this round once it is over."""
        self.done = False

    def feed(self, data: bytes) -> bytes:
        if data.startswith(b"[DONE]"):
            self.done = True
            return b""
        self._size += len(data)
        if self._size > MAX_ROUND:
            raise BadStream(f"the provider's answer is longer than {MAX_ROUND} bytes")
        data = replace_lone_surrogates(data)
        try:
            event = _event(data)
            if event.type == "error" or (event.type is None and bytes(event.error) != b"null"):
                raise BadStream("the provider broke the answer off", _error(data, event))
            return self._take(data, event)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadStream(f"the provider's stream holds no event: {error}") from error

    def _take(self, data: bytes, event: _ResponseEvent) -> bytes:
        if bytes(event.response) != b"null":
            return self._lifecycle(data, event)
        opening = self._open()
        if event.output_index is None:
            return opening + self._pass_event(data, event, {})
        entry = self._items.get(event.output_index)
        if entry is None or event.type == _ADDED:
            entry = self._items[event.output_index] = self._begin_item(event)
        if event.type == _DONE:
            entry.item = event.item
            return opening + self._end_item(data, event, entry)
        return opening + self._pass_item_event(data, event, entry)

    def _lifecycle(self, data: bytes, event: _ResponseEvent) -> bytes:
        kind = event.type or ""
        if kind in _ENDS:
            self._final = members_of(event.response)
            self._end = kind
            self.done = True
            self.provider_ids.append(read_response(event.response).id or "")
            return b""
        if kind in self._told or self.provider_ids:
            return b""
        self._told.add(kind)
        response = self._shown.members(members_of(event.response))
        return self._pass_event(data, event, {"response": Raw(encode(response))})

    def _begin_item(self, event: _ResponseEvent) -> StreamedItem:
        entry = StreamedItem(event.item)
        head = head_of(event.item)
        whose = (
            self._theirs is None
            or not head.is_call
            or ((head.name or "") in self._theirs and not self._shown.approves(head.name))
        )
        if whose:
            entry.index, self._places = self._places, self._places + 1
        else:
            entry.held = []
        return entry

    def _end_item(self, data: bytes, event: _ResponseEvent, entry: StreamedItem) -> bytes:
        """The end of an item, with all events that were held back where the client sees the item."""
        if entry.held is None:
            return self._pass_item_event(data, event, entry)
        if self._shown.hides(entry.item):
            return b""
        held, entry.held = [*entry.held, (data, event)], None
        entry.index, self._places = self._places, self._places + 1
        head = head_of(entry.item)
        if self._shown.approves(head.name):
            item = self._shown.show(entry.item)
            return b"".join(self._write_event(kind, {"item": item}, entry.index) for kind in (_ADDED, _DONE))
        return b"".join(self._pass_item_event(each, about, entry) for each, about in held)

    def _pass_item_event(self, data: bytes, event: _ResponseEvent, entry: StreamedItem) -> bytes:
        """An event of an item, with the item's index in the client's output."""
        if entry.held is not None:
            entry.held.append((data, event))
            return b""
        changed: dict[str, Any] = {}
        if entry.index != event.output_index:
            changed["output_index"] = entry.index
        if event.item_id is not None and self._shown.ident(event.item_id) != event.item_id:
            changed["item_id"] = self._shown.ident(event.item_id)
        if bytes(event.item) != b"null":
            item = self._shown.show(event.item)
            if item is not event.item:
                changed["item"] = item
        return self._pass_event(data, event, changed)

    def _pass_event(self, data: bytes, event: _ResponseEvent, changed: dict[str, Any]) -> bytes:
        """An event under its number in the client's stream; unchanged where no member differs."""
        if event.sequence_number != self._sequence:
            changed["sequence_number"] = self._sequence
        self._sequence += 1
        if changed:
            data = encode({**members_of(data), **{name: Raw(encode(value)) for name, value in changed.items()}})
        return _sse_event(event.type, data)

    def _write_event(self, kind: str, members: Mapping[str, Any], index: int | None) -> bytes:
        """An event that the gateway writes."""
        head: dict[str, Any] = {"type": kind, "sequence_number": self._sequence}
        self._sequence += 1
        if index is not None:
            head["output_index"] = index
        return _sse_event(kind, encode({**head, **members}))

    def _open(self) -> bytes:
        """Items in front of the model's output: the list of the gateway's tools, and approved calls."""
        if self._opened:
            return b""
        self._opened = True
        out = b""
        listing = self._shown.listing()
        if listing is not None:
            self._shown.items.append(listing)
            index, self._places = self._places, self._places + 1
            out += b"".join(self._write_event(kind, members, index) for kind, members in list_events(listing))
        return out + self.show_results(self._early)

    def end_round(self) -> bytes:
        opening = self._open()
        final = self._final or {}
        self.usage = add_usage(self.usage, read_response(encode(final)).usage)
        listed = raws(final["output"]) if bytes(final.get("output", _NULL))[:1] == b"[" else []
        over = [entry.item for _, entry in sorted(self._items.items()) if bytes(entry.item) != b"null"]
        self.items = with_call_ids(listed or over)
        self._shown.add(self.items)
        return opening

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        self.items = unwrap_calls(self.items, calls)
        unwrapped_items = [raw for raw in self.items if head_of(raw).call_id in calls]
        self._shown.add(unwrapped_items)
        out = []
        for raw in unwrapped_items:
            index, self._places = self._places, self._places + 1
            item = decode_object(self._shown.show(raw))
            out += [self._write_event(kind, members, index) for kind, members in events_of_call(item)]
        return b"".join(out)

    def next_round(self) -> None:
        self._before.append((self.items, self._shown.mark))
        self._shown.next_round()
        self._begin()

    @property
    def message(self) -> Mapping[str, Any]:
        calls = waiting_calls(self.items) if self._end == "response.completed" else []
        return {"object": "response", "output": calls}

    @property
    def in_request(self) -> list[bytes]:
        return [*map(bytes, self.items)]

    @property
    def turn_key(self) -> CallKey | None:
        return last_thought(self._request, [*self._before, (self.items, self._shown.mark)])

    @property
    def malformed_call(self) -> bool:
        return False  # this API does not tell

    @property
    def ended(self) -> bool:
        return self._final is not None

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        out = []
        self._running = range(self._places, self._places + len(calls))
        self._places += len(calls)
        for index, call in zip(self._running, calls, strict=True):
            item = self._shown.running(call)
            out += [self._write_event(kind, members, index) for kind, members in begin_of_call(item)]
        return b"".join(out)

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        if not self._opened:
            self._early = calls
            return b""
        out = [] if self._running else [self.show_running(calls)]
        for index, call in zip(self._running, calls, strict=True):
            item = self._shown.call(call)
            self._shown.items.append(Raw(encode(item)))
            out += [self._write_event(kind, members, index) for kind, members in end_of_call(item)]
        self._running = ()
        return b"".join(out)

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        """An event that clients raise: one with the error's members beside its type would pass as any other."""
        members = error_object(error) if raw is None else Raw(raw)
        return self._write_event("error", {"error": members}, None)

    def keep_alive(self) -> bytes:
        return _COMMENT

    def finish(self, more: Mapping[str, Any]) -> bytes:
        """The last event, with the whole output and the sum of usage."""
        members = self._shown.members(self._final or {})
        members["output"] = Raw(encode(self._shown.items))
        if self.usage:
            members["usage"] = Raw(encode(self.usage))
        if self._theirs is not None:
            members |= {name: Raw(encode(value)) for name, value in more.items()}
        return self._write_event(self._end, {"response": members}, None)


def _error(data: bytes, event: _ResponseEvent) -> bytes:
    """The error object of an event, also of one that has its members beside its type."""
    if bytes(event.error) != b"null":
        return bytes(event.error)
    beside = ("type", "sequence_number")
    return encode({name: raw for name, raw in members_of(data).items() if name not in beside})


def _sse_event(kind: str | None, data: bytes) -> bytes:
    named = b"event: " + kind.encode() + b"\n" if kind and kind.isascii() and kind.isprintable() else b""
    return named + b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"
