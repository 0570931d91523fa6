"""Gemini's contents (messages) and their parts: calls, call ids and texts. Pure module.

Members are read in both spellings of Google's clients, such as `functionCall` and `function_call`. Contents come from
models and clients and are not trusted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import items, member, text_of
from fairlead_formats.wire.call_ids import new_id
from fairlead_formats.wire.protocol import CallKey, InnerCall
from fairlead_formats.wire.raw_json import array

CALL: Final = ("functionCall", "function_call")
RESPONSE: Final = ("functionResponse", "function_response")
SIGNATURE: Final = ("thoughtSignature", "thought_signature")
MODEL: Final = "model"
ROUND_SEPARATOR: Final = Raw(b'{"text":"\\n\\n"}')
"""Part that separates the texts of two rounds (requests to the model)."""
EMPTY: Final = Raw(b'{"text":""}')
"""Part for a content that would be empty: clients read the first part without a check."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode


class ContentPart:
    """One part of a content: its JSON (`raw`) and its decoded members."""

    def __init__(self, raw: bytes | Raw) -> None:
        """Raises msgspec.MsgspecError."""
        self.raw = raw
        self.decoded: Any = _decode(raw)
        self._call: object = member(self.decoded, *CALL)

    @property
    def called_name(self) -> str | None:
        """Name of the called function; None for a part without a call."""
        return None if self._call is None else text_of(member(self._call, "name"))

    @property
    def call_id(self) -> str:
        return text_of(member(self._call, "id"))

    @property
    def is_thought(self) -> bool:
        return member(self.decoded, "thought") is True

    @property
    def text(self) -> str:
        """Text of the part; empty for a thought."""
        return "" if self.is_thought else text_of(member(self.decoded, "text"))

    def add_call_id(self, earlier_ids: set[str]) -> ContentPart:
        """The part, with a new id if it is a call that has none or repeats the id of an earlier call. Results are
        matched to calls by id. `earlier_ids`: ids of the answer's earlier calls; the id of an unchanged call is
        added to them.
        """
        if self.called_name is None or not isinstance(self._call, dict):
            return self
        if self.call_id and self.call_id not in earlier_ids:
            earlier_ids.add(self.call_id)
            return self
        members = _members(self.raw)
        name = key_of(members, *CALL)
        call = {member: value for member, value in _members(members[name]).items() if member != "id"}
        members[name] = Raw(_encode({"id": new_id(), **call}))
        return ContentPart(_encode(members))


def unwrap(part: ContentPart, calls: Mapping[str, InnerCall]) -> ContentPart:
    """The part; a call of `execute_tool` is replaced by the call that its arguments name. `calls`: by id."""
    call = calls.get(part.call_id) if part.called_name is not None else None
    if call is None:
        return part
    members: dict[str, Any] = dict(_members(part.raw))
    name = key_of(members, *CALL)
    members[name] = {**_members(members[name]), "name": call.name, "args": Raw(call.arguments)}
    return ContentPart(_encode(members))


def parts_of(raw: bytes | Raw) -> list[ContentPart]:
    """The parts of a content. Raises msgspec.MsgspecError."""
    members = _members(raw)
    return [ContentPart(raw_part) for raw_part in _raws(members["parts"])] if is_list(members.get("parts")) else []


def first_call(parts: Sequence[ContentPart]) -> CallKey | None:
    """Key of the first call, under which the gateway stores the whole turn of several rounds; None without a call."""
    return next((CallKey(part.call_id, part.called_name) for part in parts if part.called_name is not None), None)


def is_list(raw: Raw | None) -> bool:
    """Whether encoded JSON is an array."""
    return raw is not None and bytes(raw)[:1] == b"["


def content_of(parts: Sequence[bytes | Raw], role: str = MODEL) -> bytes:
    """A content with these parts."""
    return _encode({"role": role, "parts": Raw(array(parts))})


def key_of(members: Mapping[str, object], *spellings: str) -> str:
    """The first of the spellings that is a name in `members`; the first spelling if none is."""
    return next((spelling for spelling in spellings if spelling in members), spellings[0])


def read_parts(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a decoded content, without entries that are not objects."""
    return [part for part in items(content.get("parts")) if isinstance(part, dict)]
