"""Client streams of OpenAI Responses: the events of all rounds as one response, without calls that the gateway runs.

Pure module. A round is one request to the model. The code that assembles streams in clients (tested with OpenAI's SDK)
needs one id from `response.created` to the last event, one start, one end, `output_index` without gaps, and item ids
that stay the same. The last event must contain the whole output, because clients prefer it to the streamed items.
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
from fairlead_formats.providers.openai_responses.mcp_tools import (
    call_end_events,
    call_start_events,
    client_call_events,
    list_events,
)
from fairlead_formats.providers.openai_responses.rounds import ResponseOverRounds, last_reasoning_key, read_response
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream, CallKey, FinishedCall, InnerCall, RunningCall, WireRequest
from fairlead_formats.wire.raw_json import add_usage, decode_object
from fairlead_mcp.surrogates import replace_lone_surrogates

MAX_ROUND: Final = 32 << 20
"""Maximum number of bytes of the provider's stream in one round."""
_COMMENT: Final = b": still at work\n\n"
_NULL: Final = Raw(b"null")
_END_TYPES: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_ITEM_ADDED: Final = "response.output_item.added"
_ITEM_DONE: Final = "response.output_item.done"


class _ResponseEvent(msgspec.Struct):
    type: str | None = None
    sequence_number: int | None = None
    output_index: int | None = None
    item_id: str | None = None
    item: Raw = _NULL
    response: Raw = _NULL
    error: Raw = _NULL


_decode_event: Final = msgspec.json.Decoder(_ResponseEvent).decode


class StreamedItem:
    """One unfinished item of a round."""

    def __init__(self, item: Raw) -> None:
        self.item = item
        self.index: int | None = None
        """Index in the client's output; None for an item that the client does not receive."""
        self.buffered_events: list[tuple[bytes, _ResponseEvent]] | None = None
        """Events of a call that are held back until its end, which shows whether the gateway or the client runs the
        call; None: events are passed on.
        """


class ResponsesStream:
    """One client's stream over all rounds, in events of Responses."""

    def __init__(self, request: WireRequest, client_tools: Collection[str] | None) -> None:
        self._request = request
        self._client_tools = client_tools
        self._client_response = ResponseOverRounds(request, client_tools)
        self._sent_lifecycle: set[str] = set()
        """Types of lifecycle events, such as `response.created`, that were sent to the client."""
        self._wrote_opening = False
        """Whether the items in front of the model's output were written (`_write_opening`)."""
        self._early_results: Sequence[FinishedCall] = ()
        """Approved calls that ended before the first round; written with the opening."""
        self._running_indices: Sequence[int] = ()
        """Indices in the client's output of calls that were shown to the client and whose results were not sent yet."""
        self._sequence = 0
        self._next_index = 0
        """Number of items in the client's output."""
        self.usage: dict[str, Any] = {}
        self.provider_ids: list[str] = []
        """Ids of the provider's responses, one per ended round."""
        self._earlier_rounds: list[tuple[Sequence[Raw], str]] = []
        """Items of each earlier round, with the mark at the end of their ids (`items.mark_id`)."""
        self._reset_round()

    def _reset_round(self) -> None:
        """Set the attributes that belong to one round."""
        self._items: dict[int, StreamedItem] = {}
        self._final_members: dict[str, Raw] | None = None
        """Members of the round's final response; None before it."""
        self._end_type = ""
        """Type of the event with the final response; empty before it."""
        self._size = 0
        self.items: list[Raw] = []
        """Output items of this round; empty until the round has ended."""
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
            event = _decode_event(data)
            if event.type == "error" or (event.type is None and bytes(event.error) != b"null"):
                raise BadStream("the provider ended its stream with an error", _error(data, event))
            return self._handle_event(data, event)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadStream(f"an event of the provider's stream is not a Responses event: {error}") from error

    def _handle_event(self, data: bytes, event: _ResponseEvent) -> bytes:
        if bytes(event.response) != b"null":
            return self._handle_lifecycle_event(data, event)
        opening = self._write_opening()
        if event.output_index is None:
            return opening + self._pass_event(data, event, {})
        entry = self._items.get(event.output_index)
        if entry is None or event.type == _ITEM_ADDED:
            entry = self._items[event.output_index] = self._begin_item(event)
        if event.type == _ITEM_DONE:
            entry.item = event.item
            return opening + self._end_item(data, event, entry)
        return opening + self._pass_item_event(data, event, entry)

    def _handle_lifecycle_event(self, data: bytes, event: _ResponseEvent) -> bytes:
        kind = event.type or ""
        if kind in _END_TYPES:
            self._final_members = members_of(event.response)
            self._end_type = kind
            self.done = True
            self.provider_ids.append(read_response(event.response).id or "")
            return b""
        if kind in self._sent_lifecycle or self.provider_ids:
            return b""
        self._sent_lifecycle.add(kind)
        response = self._client_response.members(members_of(event.response))
        return self._pass_event(data, event, {"response": Raw(encode(response))})

    def _begin_item(self, event: _ResponseEvent) -> StreamedItem:
        entry = StreamedItem(event.item)
        head = head_of(event.item)
        is_visible = (
            self._client_tools is None
            or not head.is_call
            or ((head.name or "") in self._client_tools and not self._client_response.needs_approval(head.name))
        )
        if is_visible:
            entry.index, self._next_index = self._next_index, self._next_index + 1
        else:
            entry.buffered_events = []
        return entry

    def _end_item(self, data: bytes, event: _ResponseEvent, entry: StreamedItem) -> bytes:
        """The event that ends an item, after the events of the item that were held back; empty if the client does not
        receive the item.
        """
        if entry.buffered_events is None:
            return self._pass_item_event(data, event, entry)
        if self._client_response.is_withheld(entry.item):
            return b""
        buffered_events, entry.buffered_events = [*entry.buffered_events, (data, event)], None
        entry.index, self._next_index = self._next_index, self._next_index + 1
        head = head_of(entry.item)
        if self._client_response.needs_approval(head.name):
            item = self._client_response.to_client(entry.item)
            return b"".join(self._write_event(kind, {"item": item}, entry.index) for kind in (_ITEM_ADDED, _ITEM_DONE))
        return b"".join(self._pass_item_event(each_data, each, entry) for each_data, each in buffered_events)

    def _pass_item_event(self, data: bytes, event: _ResponseEvent, entry: StreamedItem) -> bytes:
        """The event of an item, changed for the client's output. If the item's events are held back, stores the event
        instead, and returns nothing.
        """
        if entry.buffered_events is not None:
            entry.buffered_events.append((data, event))
            return b""
        changed_members: dict[str, Any] = {}
        if entry.index != event.output_index:
            changed_members["output_index"] = entry.index
        if event.item_id is not None and self._client_response.client_id(event.item_id) != event.item_id:
            changed_members["item_id"] = self._client_response.client_id(event.item_id)
        if bytes(event.item) != b"null":
            item = self._client_response.to_client(event.item)
            if item is not event.item:
                changed_members["item"] = item
        return self._pass_event(data, event, changed_members)

    def _pass_event(self, data: bytes, event: _ResponseEvent, changed_members: dict[str, Any]) -> bytes:
        """An event with its `sequence_number` in the client's stream; the same bytes if no member differs."""
        if event.sequence_number != self._sequence:
            changed_members["sequence_number"] = self._sequence
        self._sequence += 1
        if changed_members:
            data = encode({**members_of(data), **{name: Raw(encode(value)) for name, value in changed_members.items()}})
        return _sse_event(event.type, data)

    def _write_event(self, kind: str, members: Mapping[str, Any], index: int | None) -> bytes:
        """An event that the gateway adds to the stream."""
        head: dict[str, Any] = {"type": kind, "sequence_number": self._sequence}
        self._sequence += 1
        if index is not None:
            head["output_index"] = index
        return _sse_event(kind, encode({**head, **members}))

    def _write_opening(self) -> bytes:
        """Events of the items in front of the model's output: the list of the gateway's tools, and approved calls."""
        if self._wrote_opening:
            return b""
        self._wrote_opening = True
        out = b""
        tool_list = self._client_response.tool_list()
        if tool_list is not None:
            self._client_response.items.append(tool_list)
            index, self._next_index = self._next_index, self._next_index + 1
            out += b"".join(self._write_event(kind, members, index) for kind, members in list_events(tool_list))
        return out + self.show_results(self._early_results)

    def end_round(self) -> bytes:
        opening = self._write_opening()
        final = self._final_members or {}
        self.usage = add_usage(self.usage, read_response(encode(final)).usage)
        listed_items = raws(final["output"]) if bytes(final.get("output", _NULL))[:1] == b"[" else []
        completed_items = [entry.item for _, entry in sorted(self._items.items()) if bytes(entry.item) != b"null"]
        self.items = with_call_ids(listed_items or completed_items)
        self._client_response.add(self.items)
        return opening

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        self.items = unwrap_calls(self.items, calls)
        unwrapped_items = [raw for raw in self.items if head_of(raw).call_id in calls]
        self._client_response.add(unwrapped_items)
        out = []
        for raw in unwrapped_items:
            index, self._next_index = self._next_index, self._next_index + 1
            item = decode_object(self._client_response.to_client(raw))
            out += [self._write_event(kind, members, index) for kind, members in client_call_events(item)]
        return b"".join(out)

    def next_round(self) -> None:
        self._earlier_rounds.append((self.items, self._client_response.mark))
        self._client_response.next_round()
        self._reset_round()

    @property
    def message(self) -> Mapping[str, Any]:
        calls = waiting_calls(self.items) if self._end_type == "response.completed" else []
        return {"object": "response", "output": calls}

    @property
    def request_messages(self) -> list[bytes]:
        return [*map(bytes, self.items)]

    @property
    def turn_key(self) -> CallKey | None:
        return last_reasoning_key(self._request, [*self._earlier_rounds, (self.items, self._client_response.mark)])

    @property
    def malformed_call(self) -> bool:
        return False  # this API does not report unreadable calls

    @property
    def ended(self) -> bool:
        return self._final_members is not None

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        out = []
        self._running_indices = range(self._next_index, self._next_index + len(calls))
        self._next_index += len(calls)
        for index, call in zip(self._running_indices, calls, strict=True):
            item = self._client_response.running_call(call)
            out += [self._write_event(kind, members, index) for kind, members in call_start_events(item)]
        return b"".join(out)

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        if not self._wrote_opening:
            self._early_results = calls
            return b""
        out = [] if self._running_indices else [self.show_running(calls)]
        for index, call in zip(self._running_indices, calls, strict=True):
            item = self._client_response.finished_call(call)
            self._client_response.items.append(Raw(encode(item)))
            out += [self._write_event(kind, members, index) for kind, members in call_end_events(item)]
        self._running_indices = ()
        return b"".join(out)

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        """The error event. Clients raise only an error that is nested in a member `error` as an exception."""
        members = error_object(error) if raw is None else Raw(raw)
        return self._write_event("error", {"error": members}, None)

    def keep_alive(self) -> bytes:
        return _COMMENT

    def finish(self, extra_members: Mapping[str, Any]) -> bytes:
        """The last event, with the whole output and the sum of usage."""
        members = self._client_response.members(self._final_members or {})
        members["output"] = Raw(encode(self._client_response.items))
        if self.usage:
            members["usage"] = Raw(encode(self.usage))
        if self._client_tools is not None:
            members |= {name: Raw(encode(value)) for name, value in extra_members.items()}
        return self._write_event(self._end_type, {"response": members}, None)


def _error(data: bytes, event: _ResponseEvent) -> bytes:
    """The error object of an event; without one, all members of the event that are not part of its envelope."""
    if bytes(event.error) != b"null":
        return bytes(event.error)
    envelope = ("type", "sequence_number")
    return encode({name: raw for name, raw in members_of(data).items() if name not in envelope})


def _sse_event(kind: str | None, data: bytes) -> bytes:
    event_line = b"event: " + kind.encode() + b"\n" if kind and kind.isascii() and kind.isprintable() else b""
    return event_line + b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"
