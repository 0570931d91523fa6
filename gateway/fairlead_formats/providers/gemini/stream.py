"""Client streams of Gemini's generateContent: all rounds as one answer, without calls that the gateway runs.

Pure module. A round is one request to the model. Clients (tested with Google's SDK) accept only empty lines and lines
that begin with `data: `, so the stream has no comments, no `event:` and no `[DONE]`. Every event is a complete response
with complete calls. A client that does not request server-sent events receives one JSON array of responses.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import MAX_CALLS, truncates
from fairlead_formats.providers.gemini.answer import join_rounds
from fairlead_formats.providers.gemini.carried_ids import carry_id, visible_parts
from fairlead_formats.providers.gemini.errors import error_in, error_object
from fairlead_formats.providers.gemini.parts import ContentPart, content_of, first_call, unwrap
from fairlead_formats.providers.gemini.response import GeminiResponse, is_malformed_call, message_of
from fairlead_formats.wire.errors import LlmError
from fairlead_formats.wire.protocol import BadStream, CallKey, FinishedCall, InnerCall, RunningCall
from fairlead_formats.wire.raw_json import add_usage
from fairlead_formats.wire.text_pieces import TextPieces

MAX_ROUND: Final = 32 << 20
"""Maximum number of bytes of the provider's stream in one round."""
_ENDED_WITH_ERROR: Final = "the provider ended its stream with an error"
_encode: Final = msgspec.json.Encoder().encode
_LINE_ENDS: Final = re.compile(b"[\r\n]|\xe2\x80[\xa8\xa9]|\xc2\x85")
_REPLACEMENTS: Final = {
    b"\n": b" ",
    b"\r": b" ",
    b"\xe2\x80\xa8": rb"\u2028",
    b"\xe2\x80\xa9": rb"\u2029",
    b"\xc2\x85": rb"\u0085",
}
"""Replacements of line ends, because an event must be one line. Older clients also split lines at the Unicode line
ends, which JSON allows within a string.
"""
_NO_MEMBERS: Final[Mapping[str, Any]] = MappingProxyType({})


class _TextPart(msgspec.Struct, forbid_unknown_fields=True):
    text: str


class _TextContent(msgspec.Struct):
    parts: tuple[_TextPart]


class _TextCandidate(msgspec.Struct, rename="camel"):
    content: _TextContent
    finish_reason: None = None


class _TextResponse(msgspec.Struct, rename="camel"):
    """A response with only text, the most frequent kind in a stream. The client gets its bytes unchanged."""

    candidates: tuple[_TextCandidate]
    usage_metadata: Raw = Raw(b"null")
    prompt_feedback: None = None
    error: None = None


_decode_text_response: Final = msgspec.json.Decoder(_TextResponse).decode
_decode: Final = msgspec.json.Decoder().decode


class GeminiStream:
    """One client's stream over all rounds, in responses of generateContent."""

    def __init__(self, client_tools: Collection[str] | None, *, array: bool = False) -> None:
        """`array`: the client receives a JSON array instead of events."""
        self._client_tools = client_tools
        self._array = array
        self._array_started = False
        self._head: dict[str, Raw] = {}
        """`responseId` and `modelVersion` of the first response, which are written to all later responses."""
        self._has_first_response = False
        """Whether a response was read in any round."""
        self._round = 0
        self._earlier_text: list[ContentPart] = []
        """One part with text of an earlier round; empty as long as no round had text."""
        self.usage: dict[str, Any] = {}
        self.done = False  # stays False: this API marks the end only by closing the stream
        self._begin_round()

    def _begin_round(self) -> None:
        self._round_usage: Mapping[str, Any] = {}
        self._parts: list[ContentPart] = []
        """Parts of this round's answer."""
        self._ids: set[str] = set()
        """Ids of the calls in `_parts`."""
        self._passed_texts: TextPieces | None = None
        """Texts that passed unchanged and are not in `_parts` yet."""
        self._passed_usage = Raw(b"null")
        """Usage of the last response that passed unchanged; null before."""
        self._held_responses: list[tuple[GeminiResponse, list[ContentPart]]] = []
        """Responses at the end of the round. They are held back until it is known whether another round follows, in
        which case the client must not get their finish reason.
        """
        self._size = 0
        """Number of bytes that the provider sent in this round."""
        self._call_count = 0
        self._finish_reason = ""
        self.ended = False

    def feed(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > MAX_ROUND:
            raise BadStream(f"the provider's answer is longer than {MAX_ROUND} bytes")
        if self._has_first_response and not self._round and not self.ended and self._pass_text(data):
            return self._event(data)
        self._join_texts()
        try:
            response = GeminiResponse(data)
            parts = [part.add_call_id(self._ids) for part in response.parts]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            provider_error = error_in(data)
            if provider_error is not None:
                raise BadStream(_ENDED_WITH_ERROR, provider_error) from error
            raise BadStream(f"an event of the provider's stream is not a response: {error}") from error
        if bytes(response.members.get("error", b"null")) != b"null":
            raise BadStream(_ENDED_WITH_ERROR, error_in(data))  # clients can read only an error object
        self.ended = self.ended or response.ended
        if self._client_tools is None:
            return self._event(data)
        return self._handle(data, response, parts, self._client_tools)

    def _pass_text(self, data: bytes) -> bool:
        """Add a piece of text to the round. Returns False if the response cannot pass unchanged."""
        try:
            response = _decode_text_response(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False  # another kind of response, which the general reader decodes
        if self._passed_texts is None:
            self._passed_texts = TextPieces()
        self._passed_texts.append(response.candidates[0].content.parts[0].text)
        self._passed_usage = response.usage_metadata
        return True

    def _join_texts(self) -> None:
        """Join the texts that passed unchanged into one part of the round."""
        if self._passed_texts is None:
            return
        self._parts.append(ContentPart(_encode({"text": self._passed_texts.text})))
        usage = _decode(self._passed_usage)
        self._round_usage = usage if isinstance(usage, dict) and usage else self._round_usage
        self._passed_texts = None
        self._passed_usage = Raw(b"null")

    def _handle(
        self, data: bytes, response: GeminiResponse, parts: list[ContentPart], client_tools: Collection[str]
    ) -> bytes:
        self._round_usage = response.usage or self._round_usage
        self._finish_reason = response.finish_reason or self._finish_reason
        self._call_count += sum(part.called_name is not None for part in parts)
        if self._call_count > MAX_CALLS:
            raise BadStream(f"the provider's answer has more than {MAX_CALLS} calls")
        self._parts += parts
        self._head = self._head or response.head
        self._has_first_response = True
        client_parts = join_rounds(self._earlier_text, visible_parts(parts, client_tools))
        if any(part.text for part in client_parts):
            self._earlier_text = []
        if self.ended:
            self._held_responses.append((response, client_parts))
            return b""
        if not self._round and client_parts == parts == response.parts:
            return self._event(data)
        return self._write_response(response, client_parts)

    def _write_response(self, response: GeminiResponse, parts: Sequence[ContentPart]) -> bytes:
        """A response for the client; empty if all its parts are hidden from the client."""
        if not parts and (response.parts or self._round) and not response.has_other_members:
            return b""
        usage = add_usage(self.usage, response.usage) if response.usage else {}
        return self._event(response.write([part.raw for part in parts], usage, self._first_head, end=False))

    @property
    def _first_head(self) -> Mapping[str, Raw]:
        """`responseId` and `modelVersion` for responses of later rounds; empty in the first round."""
        return self._head if self._round else {}

    def end_round(self) -> bytes:
        """End the round. If another round follows, returns the held responses without their finish reason."""
        self._join_texts()
        continues = self.malformed_call or (
            self._client_tools is not None and len(visible_parts(self._parts, self._client_tools)) < len(self._parts)
        )
        out = (
            b"".join(self._write_response(response, parts) for response, parts in self._held_responses if parts)
            if continues
            else b""
        )
        if continues:
            self._held_responses = [
                (response, []) for response, _ in self._held_responses if response.ended or response.has_other_members
            ]
        self.usage = add_usage(self.usage, self._round_usage)
        return out

    def unwrap(self, calls: Mapping[str, InnerCall]) -> bytes:
        wrapped_parts = self._parts
        self._parts = [unwrap(part, calls) for part in wrapped_parts]
        response, parts = self._held_responses[-1]
        client_parts = [
            carry_id(part)
            for part, wrapped_part in zip(self._parts, wrapped_parts, strict=True)
            if part is not wrapped_part
        ]
        self._held_responses[-1] = response, [*parts, *client_parts]
        return b""  # the calls are sent in the last response, by `finish`

    def next_round(self) -> None:
        texts = [part for part in self._parts if part.text]
        self._earlier_text = texts[:1] or self._earlier_text
        self._round += 1
        self._begin_round()

    @property
    def malformed_call(self) -> bool:
        return is_malformed_call(self._finish_reason, self._parts)

    @property
    def message(self) -> dict[str, Any]:
        return message_of(self._parts, self._finish_reason)

    @property
    def turn_key(self) -> CallKey | None:
        return None if truncates(self._finish_reason) else first_call(self._parts)

    @property
    def request_messages(self) -> list[bytes]:
        return [content_of(whole_parts(self._parts))]

    def show_running(self, calls: Sequence[RunningCall]) -> bytes:
        return b""  # this API has no form for calls that the gateway runs

    def show_results(self, calls: Sequence[FinishedCall]) -> bytes:
        return b""

    def finish(self, extra_members: Mapping[str, Any]) -> bytes:
        """The held responses of the last round with the sum of usage; only the closing bytes if every event passed
        unchanged.
        """
        out = b""
        for number, (response, parts) in enumerate(self._held_responses, 1):
            is_last = number == len(self._held_responses)
            raws = [part.raw for part in parts]
            usage = self.usage if is_last else response.usage
            out += self._event(response.write(raws, usage, self._first_head, extra_members if is_last else _NO_MEMBERS))
        return out + self._close()

    def write_error(self, error: LlmError, raw: bytes | None = None) -> bytes:
        return self._event(_encode({"error": error_object(error) if raw is None else Raw(raw)})) + self._close()

    def keep_alive(self) -> bytes:
        return b"\n"

    def _event(self, data: bytes) -> bytes:
        if not self._array:
            return b"data: " + _in_one_line(data) + b"\n\n"
        opening = b",\n" if self._array_started else b"["
        self._array_started = True
        return opening + data

    def _close(self) -> bytes:
        return b"\n]" if self._array else b""


def _in_one_line(data: bytes) -> bytes:
    # the check is four times faster than the expression alone, because most events have no line ends
    if b"\n" in data or b"\r" in data or b"\xe2\x80" in data or b"\xc2\x85" in data:
        return _LINE_ENDS.sub(lambda match: _REPLACEMENTS[match[0]], data)
    return data


def whole_parts(parts: Sequence[ContentPart]) -> list[bytes | Raw]:
    """The parts of a streamed content, with adjacent pieces of text joined. Parts with a signature stay separate."""
    joined_parts: list[bytes | Raw] = []
    for members, pieces in itertools.groupby(parts, _members_of_text):
        if not members:
            joined_parts += [part.raw for part in pieces]
            continue
        text = "".join(part.decoded["text"] for part in pieces)
        if text:
            joined_parts.append(_encode({"text": text, "thought": True} if "thought" in members else {"text": text}))
    return joined_parts


def _members_of_text(part: ContentPart) -> frozenset[str]:
    """The members of a part with only text or a thought; empty for any other part."""
    if not isinstance(part.decoded, dict):
        return frozenset()
    members = frozenset(part.decoded)
    is_text = members <= {"text", "thought"} and isinstance(part.decoded.get("text"), str)
    return members if is_text and ("thought" not in members or part.is_thought) else frozenset()
