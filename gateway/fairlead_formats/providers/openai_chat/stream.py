"""Client streams of Chat Completions: the chunks of all rounds as one answer, without calls that the gateway runs.

Pure module. A round is one request to the model. The code that assembles streams in clients (tested with OpenAI's SDK)
needs one id, `role` once, id and name of each call once, and call indices from 0. `finish_reason` must be in the last
chunk only, followed by usage and `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import MAX_CALLS, truncates
from fairlead_formats.messages.streams import begins_new_call
from fairlead_formats.providers.openai_chat.answer import KINDS, ROUND_SEPARATOR, TOOL_CALLS
from fairlead_formats.providers.openai_chat.errors import error_object
from fairlead_formats.wire.call_ids import new_id
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream, CallKey, FinishedCall, InnerCall, RunningCall
from fairlead_formats.wire.raw_json import add_usage
from fairlead_formats.wire.text_pieces import TextPieces
from fairlead_mcp.surrogates import replace_lone_surrogates

DONE: Final = b"data: [DONE]\n\n"
_COMMENT: Final = b": still at work\n\n"
MAX_ROUND: Final = 32 << 20
"""Maximum number of bytes of the provider's stream in one round."""
MAX_NAME: Final = 1024
"""Maximum number of characters of a called tool's name."""
_encode: Final = msgspec.json.Encoder().encode
_NULL: Final = Raw(b"null")
_NO_MEMBERS: Final[Mapping[str, Any]] = MappingProxyType({})


class _FunctionDelta(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    input: str | None = None


class _CallDelta(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _FunctionDelta | None = None
    custom: _FunctionDelta | None = None


class _ChoiceDelta(msgspec.Struct):
    delta: dict[str, Raw] | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_ChoiceDelta] | None = None
    usage: dict[str, Any] | None = None
    error: Raw = _NULL


class _TextDelta(msgspec.Struct, forbid_unknown_fields=True):
    content: str
    role: str | None = None
    refusal: None = None
    tool_calls: None = None


class _TextChoice(msgspec.Struct):
    delta: _TextDelta
    finish_reason: None


class _TextChunk(msgspec.Struct):
    """A chunk with text only, the most frequent kind in a stream. The client gets its bytes unchanged."""

    choices: tuple[_TextChoice]
    usage: None = None
    error: None = None


_decode_text_chunk: Final = msgspec.json.Decoder(_TextChunk).decode
_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode
_decode_calls: Final = msgspec.json.Decoder(list[_CallDelta] | None).decode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_READ_MEMBERS: Final = frozenset({"index", "id", "type", *KINDS})
_decode: Final = msgspec.json.Decoder().decode
_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class StreamedCall:
    """One unfinished call of a round."""

    def __init__(self, kind: str) -> None:
        self.id = ""
        self.name = ""
        self.kind = kind
        """`function`, or `custom` for a custom tool call, whose text is kept like arguments."""
        self.pieces: list[str] = []
        """Pieces of the arguments. Appending each to a string would copy the string every time."""
        self.client_index: int | None = None
        """Index in the client's stream; None for a call that the client does not receive."""
        self.sent_count = 0
        """Number of pieces that were sent to the client."""
        self.provider_id = ""
        """The id from the provider, which is not always unique; the client gets a unique id."""
        self.parse_attempts = self.size = 0
        self.added_members: dict[str, Raw] = {}
        """Members that the gateway only passes on, such as a signature of the model's reasoning."""

    @property
    def text(self) -> str:
        """The arguments received so far."""
        return "".join(self.pieces)

    def append(self, piece: str) -> None:
        """Add a piece of the arguments."""
        self.pieces.append(piece)
        self.size += len(piece)

    def as_message_call(self) -> dict[str, Any]:
        """The call in the form that it has in `tool_calls` of a message."""
        text_member = "input" if self.kind == "custom" else "arguments"
        arguments = self.text or ("" if self.kind == "custom" else "{}")
        function = {"name": self.name, text_member: arguments}
        return {"id": self.id, "type": self.kind, self.kind: function, **self.added_members}


class ChatStream:
    """One client's stream over all rounds, in chunks."""

    def __init__(self, client_tools: Collection[str] | None, *, include_usage: bool) -> None:
        self._client_tools = client_tools
        self._include_usage = include_usage
        self._head: dict[str, Raw] | None = None
        """Members of the first chunk, such as `id` and `created`, which are written to all later chunks."""
        self._round = 0
        self._wrote_text = False
        """Whether an earlier round had text."""
        self._earlier_members: set[str] = set()
        """Names of members that had text in earlier rounds, including empty text."""
        self._client_call_count = 0
        """Number of calls in the client's stream."""
        self.usage: dict[str, Any] = {}
        self._begin_round()

    def _begin_round(self) -> None:
        self._round_usage: dict[str, Any] = {}
        self._strings: dict[str, TextPieces] = {}
        """Texts of this round, by member of the deltas: `content`, or a member that only compatible servers have."""
        self._lists: dict[str, list[Any]] = {}
        """Lists of this round, by member of the deltas, such as details of reasoning."""
        self._calls: list[StreamedCall] = []
        self._by_index: dict[int, StreamedCall] = {}
        self._named_in_chunk: list[StreamedCall] = []
        """Calls that were named in the current chunk: a second name in one chunk begins another call."""
        self._size = 0
        self.done = False
        """Whether the provider marked the end of its stream."""
        self.finish_reason: str | None = None

    def feed(self, data: bytes) -> bytes:
        if data.startswith(b"[DONE]"):
            self.done = True
            return DONE if self._client_tools is None and self.ended else b""
        self._size += len(data)
        if self._size > MAX_ROUND:
            raise BadStream(f"the provider's answer is longer than {MAX_ROUND} bytes")
        data = replace_lone_surrogates(data)
        if self._head is not None and not self._round and self._client_tools is not None:
            try:
                self._add_text("content", _decode_text_chunk(data).choices[0].delta.content)
                return _event(data)
            except _DECODE_ERRORS:
                pass  # not a chunk of text: the general reader below reads it
        try:
            chunk = _decode_chunk(data)
            if bytes(chunk.error) != b"null":
                raise BadStream("the provider ended its stream with an error", bytes(chunk.error))
            return self._handle(data, chunk)
        except _DECODE_ERRORS as error:
            raise BadStream(f"an event of the provider's stream is not a chat completion chunk: {error}") from error

    def _handle(self, data: bytes, chunk: _Chunk) -> bytes:
        if chunk.usage is not None:
            self._round_usage = chunk.usage
        if not chunk.choices and self._client_tools is None:
            return _event(data)
        if not chunk.choices:
            return _event(data) if self._head is None and chunk.usage is None else b""  # Azure begins without choices
        if self._head is None:
            self._head = {name: raw for name, raw in _members(data).items() if name not in ("choices", "usage")}
        choice = chunk.choices[0]
        if self._client_tools is None:
            self.finish_reason = choice.finish_reason or self.finish_reason
            return _event(data)
        self.finish_reason = choice.finish_reason or self.finish_reason
        delta = choice.delta or {}
        calls = _decode_calls(raw_calls := delta.pop(TOOL_CALLS, _NULL)) or []
        added_members = (
            [
                {name: raw for name, raw in raw_call.items() if name not in _READ_MEMBERS}
                for raw_call in _raws(raw_calls)
            ]
            if calls
            else []
        )
        self._named_in_chunk = []
        self._store_delta(delta)
        if not self._round and not calls and choice.finish_reason is None and chunk.usage is None:
            return _event(data)
        return self._strip_chunk(data, delta) + b"".join(map(self._add_call_delta, calls, added_members))

    def _store_delta(self, delta: Mapping[str, Raw]) -> None:
        for name, raw in delta.items():
            value = bytes(raw)
            if name != "role" and value[:1] == b'"':
                self._add_text(name, str(_decode(value)))
            elif value[:1] == b"[":
                self._lists.setdefault(name, []).extend(_decode(value))

    def _add_text(self, name: str, piece: str) -> None:
        pieces = self._strings.get(name)
        if pieces is None:
            pieces = self._strings[name] = TextPieces()
        pieces.append(piece)

    def _strip_chunk(self, data: bytes, delta: dict[str, Raw]) -> bytes:
        """The chunk without calls, finish reason and usage; empty if no other member is left."""
        client_delta = {
            name: raw
            for name, raw in delta.items()
            if bytes(raw) != b"null" and (bytes(raw) != b'""' or self._is_first(name))
        }
        if self._round:
            client_delta.pop("role", None)
            if self._wrote_text and "content" in client_delta:
                client_delta["content"] = Raw(_encode(ROUND_SEPARATOR + str(_decode(client_delta["content"]))))
                self._wrote_text = False
        if not client_delta:
            return b""
        members = {name: raw for name, raw in _members(data).items() if name != "usage"}
        choice = {**_raws(members["choices"])[0], "delta": Raw(_encode(client_delta)), "finish_reason": _NULL}
        return _event(_encode({**members, **(self._head or {}), "choices": [choice]}))

    def _is_first(self, name: str) -> bool:
        """Whether the current chunk is the first with text in this member. An empty first text must reach the client,
        because it makes the client's value `""` in place of null.
        """
        return name not in self._earlier_members and len(self._strings.get(name, ())) == 1

    def _add_call_delta(self, delta: _CallDelta, added_members: dict[str, Raw]) -> bytes:
        """Add a delta to its call. The call is sent when it has arguments, because its name is complete by then."""
        call, out = self._find_call(delta)
        call.added_members.update(added_members)
        function = delta.function or delta.custom
        if delta.id and not call.provider_id:
            call.provider_id = delta.id
            call.id = call.id or (
                new_id() if any(earlier_call.provider_id == delta.id for earlier_call in self._calls[:-1]) else delta.id
            )
        if function is not None:
            if function.name:
                self._named_in_chunk.append(call)
            if function.name and function.name != call.name:
                call.name += function.name
                if len(call.name) > MAX_NAME:
                    raise BadStream(f"the provider's answer calls a tool whose name is over {MAX_NAME} characters")
            arguments = function.input if delta.custom is not None else function.arguments
            text = arguments if isinstance(arguments, str) else _encode(arguments).decode() if arguments else ""
            if text and not (
                call.provider_id and delta.id == call.provider_id and text == call.text
            ):  # otherwise the server repeats the arguments
                call.append(text)
        return out + (self._write_call(call) if call.pieces else b"")

    def _find_call(self, delta: _CallDelta) -> tuple[StreamedCall, bytes]:
        """The call that a delta belongs to, and bytes for the client that complete the previous call if the delta
        begins a new call.

        Some servers send index 0, or no index, for every call. So a new id also begins a call, and so does a name after
        complete arguments or a second name in the same chunk.
        """
        index = delta.index
        call = self._by_index.get(index) if index is not None else self._calls[-1] if self._calls else None
        function = delta.function or delta.custom
        if call is not None and not (function is not None and function.name and self._is_other(call, delta, function)):
            return call, b""
        if len(self._calls) >= MAX_CALLS:
            raise BadStream(f"the provider's answer has more than {MAX_CALLS} calls")
        previous_call_end = self._write_call(self._calls[-1]) if self._calls else b""
        call = StreamedCall("custom" if delta.custom is not None else "function")
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        return call, previous_call_end

    def _is_other(self, call: StreamedCall, delta: _CallDelta, function: _FunctionDelta) -> bool:
        """Whether a delta with a name begins another call than `call`, which is the call at the delta's index."""
        if delta.id and call.provider_id and delta.id != call.provider_id:
            return True
        arguments = function.input if delta.custom is not None else function.arguments
        if delta.id and function.name == call.name and arguments == call.text:
            return False  # the server repeats the call
        return call in self._named_in_chunk or begins_new_call(call, arguments)

    def _write_call(self, call: StreamedCall, *, complete: bool = False) -> bytes:
        """The part of a call that the client has not received; empty for a call that the gateway runs."""
        if self._client_tools is not None and call.name not in self._client_tools:
            return b""
        text_member = "input" if call.kind == "custom" else "arguments"
        unsent_text = "".join(call.pieces[call.sent_count :])
        if complete and not call.pieces and call.kind == "function" and not truncates(self.finish_reason):
            unsent_text = "{}"
        call.sent_count = len(call.pieces)
        if call.client_index is None:
            call.id = call.id or new_id()
            call.client_index, self._client_call_count = self._client_call_count, self._client_call_count + 1
            function = {"name": call.name, text_member: unsent_text}
            head = {"index": call.client_index, "id": call.id, "type": call.kind}
            entry = {**head, call.kind: function, **call.added_members}
        elif unsent_text:
            entry = {"index": call.client_index, call.kind: {text_member: unsent_text}}
        else:
            return b""
        return self._chunk({TOOL_CALLS: [entry]})

    def end_round(self) -> bytes:
        self.usage = add_usage(self.usage, self._round_usage)
        for call in self._calls:
            call.id = call.id or new_id()
        return b"".join(self._write_call(call, complete=True) for call in self._calls)

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        out = []
        for call in self._calls:
            inner_call = calls.get(call.id)
            if inner_call is not None:
                call.name = inner_call.name
                call.pieces = []
                call.sent_count = 0
                call.append(inner_call.arguments.decode())
                out.append(self._write_call(call, complete=True))
        return b"".join(out)

    def next_round(self) -> None:
        self._wrote_text = self._wrote_text or bool("content" in self._strings and self._strings["content"].text)
        self._earlier_members.update(name for name, pieces in self._strings.items() if pieces)
        self._round += 1
        self._begin_round()

    @property
    def message(self) -> dict[str, Any]:
        texts = {name: pieces.text for name, pieces in self._strings.items()}
        text = texts.pop("content", "")
        other_texts = {name: text_of_member for name, text_of_member in texts.items() if text_of_member}
        message = {"role": "assistant", "content": text or None, **other_texts, **self._lists}
        if not self._calls or truncates(self.finish_reason):
            return message
        return {**message, TOOL_CALLS: [call.as_message_call() for call in self._calls]}

    @property
    def request_messages(self) -> list[bytes]:
        return [_encode(self.message)]

    @property
    def turn_key(self) -> CallKey | None:
        return None

    @property
    def ended(self) -> bool:
        return self.finish_reason is not None

    @property
    def malformed_call(self) -> bool:
        return False  # this API does not report unreadable calls

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        return b""  # this API has no form for calls that the gateway runs

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        return b""

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        return b"data: " + _encode({"error": error_object(error) if raw is None else Raw(raw)}) + b"\n\n"

    def keep_alive(self) -> bytes:
        return _COMMENT

    def finish(self, extra_members: Mapping[str, Any]) -> bytes:
        """The last chunk, followed by the sum of usage if the client requested it; empty if every chunk passed
        unchanged.
        """
        if self._client_tools is None:
            return b""
        reason = self.finish_reason
        if reason == TOOL_CALLS and not self._client_call_count:
            reason = "stop"
        out = self._chunk({}, reason, extra_members)
        if self._include_usage and self.usage:
            members = {**(self._head or {}), "choices": [], "usage": self.usage}
            out += _event(_encode(members))
        return out + DONE

    def _chunk(
        self, delta: Mapping[str, Any], reason: str | None = None, extra_members: Mapping[str, Any] | None = None
    ) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _event(_encode({**(self._head or {}), "choices": [choice], **(extra_members or {})}))


def _event(data: bytes) -> bytes:
    return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"
