"""Ids of calls that travel in the signatures of thoughts, to clients of Gemini's API and back. Pure module.

Ids are optional in that API, and some clients drop them (langchain-google-genai 4.4). The signature of a call's thought
has to come back as it was given, so the id stands in front of the provider's own signature, and in place of one where
the provider gives none. The provider gets its own back. Source: Google's page on thought signatures.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import member, text_of
from fairlead_formats.providers.gemini.parts import CALL, MODEL, RESPONSE, SIGNATURE, ContentPart, is_list, key_of
from fairlead_formats.wire.call_ids import is_made_here
from fairlead_formats.wire.raw_json import array

_PREFIX: Final = b"fairlead:"
_MARK: Final = base64.b64encode(_PREFIX)
"""Nine bytes become twelve characters, in both alphabets of base64."""
_BETWEEN: Final = "\0"
_STANDARD: Final = str.maketrans("-_", "+/")
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_any: Final = msgspec.json.Decoder().decode
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def sign_with_id(ident: str, signature: str) -> str:
    """A signature that carries the id of a call; `signature` is the provider's, empty where there is none."""
    return base64.b64encode(_PREFIX + f"{ident}{_BETWEEN}{signature}".encode("utf-8", "replace")).decode()


def visible_parts(parts: Iterable[ContentPart], client_tools: Collection[str]) -> list[ContentPart]:
    """Parts that the client gets: its calls carry their ids, and calls that the gateway runs are left out."""
    return [carry_id(part) for part in parts if part.called is None or part.called in client_tools]


def carry_id(part: ContentPart) -> ContentPart:
    """The part with a signature that carries the id of its call; a part that is not a call stays as it is."""
    if part.called is None or not is_made_here(part.call_id):
        return part
    members = _members(part.raw)
    signature = sign_with_id(part.call_id, text_of(member(part.read, *SIGNATURE)))
    members[key_of(members, *SIGNATURE)] = Raw(_encode(signature))
    return ContentPart(_encode(members))


def with_carried_ids(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Decoded parts of an answer of another family, with signatures that carry the ids of their calls."""
    idents = [(part, text_of(member(member(part, *CALL), "id"))) for part in parts]
    return [
        {**part, SIGNATURE[0]: sign_with_id(ident, "")} if is_made_here(ident) else {**part} for part, ident in idents
    ]


def with_returned_ids(body: bytes) -> bytes:
    """A request of a client with the ids that its signatures carry, on calls and on responses to these, and with the
    provider's own signatures.
    """
    if _MARK not in body:
        return body
    try:
        members = _members(body)
        contents = _ReturnedContents()
        members["contents"] = Raw(array([contents.restore(content) for content in _raws(members["contents"])]))
    except (*_UNREADABLE, KeyError):
        return body  # reading it says what is wrong
    return _encode(members)


class _ReturnedContents:
    """Restores ids in the contents of a conversation, which are read in their order."""

    def __init__(self) -> None:
        self._by_name: dict[str, deque[str]] = {}
        """Ids of the last calls that have no response, by the name of the function."""
        self._renamed: dict[str, str] = {}
        """Ids that the client made, to those that its calls had."""
        self._calls_before = False

    def restore(self, raw: Raw) -> bytes | Raw:
        """A content with the ids that its signatures carry."""
        content = _members(raw)
        if "parts" not in content or not is_list(content["parts"]):
            return raw
        by_model = text_of(_any(content.get("role", b"null"))) == MODEL
        if by_model and not self._calls_before:
            self._by_name.clear()
        self._calls_before = by_model
        content["parts"] = Raw(array([self._part(part) for part in _raws(content["parts"])]))
        return _encode(content)

    def _part(self, raw: Raw) -> bytes | Raw:
        if not any(b'"%s"' % name.encode() in bytes(raw) for name in (*CALL, *RESPONSE)):
            return raw
        part = _members(raw)
        call, response = key_of(part, *CALL), key_of(part, *RESPONSE)
        if call in part:
            return self._call(raw, part, call)
        return self._response(raw, part, response) if response in part else raw

    def _call(self, raw: Raw, part: dict[str, Raw], name: str) -> bytes | Raw:
        call, key = _members(part[name]), key_of(part, *SIGNATURE)
        ident, signature = read_carried_id(_any(part.get(key, b"null")))
        if not ident:
            return raw
        given = text_of(_any(call.get("id", b"null")))
        if given and given != ident:
            self._renamed[given] = ident
        self._by_name.setdefault(text_of(_any(call.get("name", b"null"))), deque()).append(ident)
        part.pop(key)
        if signature:
            part[key] = Raw(_encode(signature))
        return _encode({**part, name: {"id": ident, **{member: raw for member, raw in call.items() if member != "id"}}})

    def _response(self, raw: Raw, part: dict[str, Raw], name: str) -> bytes | Raw:
        response = _members(part[name])
        given = text_of(_any(response.get("id", b"null")))
        waiting = self._by_name.get(text_of(_any(response.get("name", b"null"))))
        ident = self._renamed.get(given, "") if given else waiting.popleft() if waiting else ""
        return _encode({**part, name: {**response, "id": ident}}) if ident else raw


def read_carried_id(signature: object) -> tuple[str, str]:
    """The id that a signature carries, and the provider's signature; both empty where it carries none."""
    text = text_of(signature)
    if not text.startswith(_MARK.decode()):
        return "", ""
    try:
        whole = base64.b64decode(text.translate(_STANDARD) + "=" * (-len(text) % 4), validate=True)
        ident, _, own = whole.removeprefix(_PREFIX).decode().partition(_BETWEEN)
    except ValueError:
        return "", ""
    return (ident, own) if is_made_here(ident) else ("", "")
