"""One response of generateContent: a whole answer, or one event of a stream, which has the same form.

Pure module. Members that the gateway does not interpret are kept unchanged. Only the first candidate is read: the
gateway adds no tools to requests for several candidates, so it need not find calls in the other candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import member, text_of, truncates
from fairlead_formats.providers.gemini.parts import EMPTY, MODEL, ContentPart, is_list
from fairlead_formats.wire.raw_json import array
from fairlead_mcp.surrogates import replace_lone_surrogates

_HEAD: Final = ("responseId", "modelVersion")
_USAGE: Final = "usageMetadata"
_END_MEMBERS: Final = ("finishReason", "finishMessage")
_MALFORMED: Final = frozenset(
    {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MALFORMED_RESPONSE"}
)
"""Finish reasons of an answer whose call the provider could not read."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode


class GeminiResponse:
    """One response of the provider."""

    def __init__(self, body: bytes) -> None:
        """Raises msgspec.MsgspecError, UnicodeDecodeError, RecursionError."""
        self.members = _members(replace_lone_surrogates(body))
        candidates = self.members.get("candidates")
        self._candidates: list[Raw] = _raws(candidates) if candidates is not None and is_list(candidates) else []
        self._candidate = _members(self._candidates[0]) if self._candidates else {}
        content = self._candidate.get("content")
        self._content = _members(content) if content is not None and bytes(content)[:1] == b"{" else {}
        parts = self._content.get("parts")
        self.parts = [ContentPart(raw) for raw in _raws(parts)] if parts is not None and is_list(parts) else []
        reason = self._candidate.get("finishReason")
        self.finish_reason = text_of(_decode(reason)) if reason is not None else ""
        feedback = self.members.get("promptFeedback")
        self.is_blocked = feedback is not None and member(_decode(feedback), "blockReason") is not None
        usage = self.members.get(_USAGE)
        counts = _decode(usage) if usage is not None else None
        self.usage: Mapping[str, Any] = counts if isinstance(counts, dict) else {}

    @property
    def has_candidate(self) -> bool:
        return bool(self._candidates)

    @property
    def head(self) -> dict[str, Raw]:
        """Members that identify the answer for clients."""
        return {name: raw for name, raw in self.members.items() if name in _HEAD}

    @property
    def ended(self) -> bool:
        """Whether the response ends the answer."""
        return bool(self.finish_reason) or self.is_blocked

    @property
    def has_other_members(self) -> bool:
        """Whether the response has anything to send to the client besides parts, finish reason and usage."""
        extra_members = set(self.members) - {"candidates", _USAGE, *_HEAD, "createTime"}
        return bool(extra_members or set(self._candidate) - {"content", "index", *_END_MEMBERS})

    def with_extra_members(self, extra_members: Mapping[str, Any]) -> bytes:
        """The response with `extra_members` added."""
        return _encode({**self.members, **{name: Raw(_encode(value)) for name, value in extra_members.items()}})

    def write(
        self,
        parts: Sequence[bytes | Raw],
        usage: Mapping[str, Any],
        head: Mapping[str, Raw],
        extra_members: Mapping[str, Any] | None = None,
        *,
        end: bool = True,
    ) -> bytes:
        """The response with these parts, this usage (no usage if empty), the `head` of another response, and
        `extra_members`. `end`: whether to write the finish reason; False if the answer continues in the next round.
        """
        members = {name: raw for name, raw in self.members.items() if name != _USAGE}
        candidate = dict(self._candidate)
        if not end:
            candidate = {name: raw for name, raw in candidate.items() if name not in _END_MEMBERS}
        if [*map(bytes, parts)] != [bytes(part.raw) for part in self.parts]:
            content = {"role": Raw(_encode(MODEL)), **self._content, "parts": Raw(array(parts or [EMPTY]))}
            candidate = {**candidate, "content": Raw(_encode(content))}
        if candidate:
            candidate.setdefault("index", Raw(b"0"))
            members["candidates"] = Raw(array([_encode(candidate), *self._candidates[1:]]))
        if usage:
            members[_USAGE] = Raw(_encode(usage))
        return _encode(
            {**members, **head, **{name: Raw(_encode(value)) for name, value in (extra_members or {}).items()}}
        )


def is_malformed_call(reason: str, parts: Sequence[ContentPart]) -> bool:
    """Whether an answer ended with an unreadable call and has nothing else but thoughts."""
    return reason in _MALFORMED and all(part.called_name is None and not part.text for part in parts)


def message_of(parts: Sequence[ContentPart], reason: str) -> dict[str, Any]:
    """The decoded content of an answer; without calls if the answer is incomplete."""
    decoded_parts = [part.decoded for part in parts if part.called_name is None or not truncates(reason)]
    return {"role": MODEL, "parts": decoded_parts}
