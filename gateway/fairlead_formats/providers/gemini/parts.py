"""Contents and their parts, read as far as tools need it; both spellings of members are taken, `functionCall` and
`function_call`. Pure module, which takes whatever a model or a client wrote.
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
BETWEEN: Final = Raw(b'{"text":"\\n\\n"}')
"""Part between the texts of two rounds."""
EMPTY: Final = Raw(b'{"text":""}')
"""The only part of a content without any other: clients read the first part."""
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_any: Final = msgspec.json.Decoder().decode


class ContentPart:
    """One part of a content: its raw JSON and its decoded members."""

    def __init__(self, raw: bytes | Raw) -> None:
        """Raises msgspec.MsgspecError."""
        self.raw = raw
        self.read: Any = _any(raw)
        self._call: object = member(self.read, *CALL)

    @property
    def called(self) -> str | None:
        """Name of the function that the part calls; None for a part that is not a call."""
        return None if self._call is None else text_of(member(self._call, "name"))

    @property
    def call_id(self) -> str:
        return text_of(member(self._call, "id"))

    @property
    def thought(self) -> bool:
        return member(self.read, "thought") is True

    @property
    def text(self) -> str:
        """Text that is said, without thoughts."""
        return "" if self.thought else text_of(member(self.read, "text"))

    def with_call_id(self) -> ContentPart:
        """The part; a call without an id gets one, by which results of mixed turns are matched."""
        if self.called is None or self.call_id or not isinstance(self._call, dict):
            return self
        members = _members(self.raw)
        name = key_of(members, *CALL)
        members[name] = Raw(_encode({"id": new_id(), **_members(members[name])}))
        return ContentPart(_encode(members))


def unwrap(part: ContentPart, calls: Mapping[str, InnerCall]) -> ContentPart:
    """The call that a call of `execute_tool` names, in its place; any other part as it is. `calls`: by id."""
    call = calls.get(part.call_id) if part.called is not None else None
    if call is None:
        return part
    members: dict[str, Any] = dict(_members(part.raw))
    name = key_of(members, *CALL)
    members[name] = {**_members(members[name]), "name": call.name, "args": Raw(call.arguments)}
    return ContentPart(_encode(members))


def parts_of(raw: bytes | Raw) -> list[ContentPart]:
    """The parts of a content. Raises msgspec.MsgspecError."""
    members = _members(raw)
    return [ContentPart(each) for each in _raws(members["parts"])] if is_list(members.get("parts")) else []


def first_call(parts: Sequence[ContentPart]) -> CallKey | None:
    """Key of the first call, under which a turn of several rounds is kept: the model would miss its earlier calls."""
    return next((CallKey(part.call_id, part.called) for part in parts if part.called is not None), None)


def is_list(raw: Raw | None) -> bool:
    """Whether raw JSON is an array."""
    return raw is not None and bytes(raw)[:1] == b"["


def content_of(parts: Sequence[bytes | Raw], role: str = MODEL) -> bytes:
    """A content with these parts."""
    return _encode({"role": role, "parts": Raw(array(parts))})


def key_of(members: Mapping[str, object], *spellings: str) -> str:
    """The spelling that the members have; the first one where they have none."""
    return next((each for each in spellings if each in members), spellings[0])


def read_parts(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a decoded content that are objects."""
    return [part for part in items(content.get("parts")) if isinstance(part, dict)]
