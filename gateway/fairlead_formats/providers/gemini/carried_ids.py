"""Call ids inside of thought signatures, for clients of Gemini's API that drop ids. Pure module.

Call ids are optional in Gemini's API, and some clients drop them (langchain-google-genai 4.4). But clients have to
return a call's thought signature unchanged, so the gateway writes the id into it: in front of the provider's signature,
or alone if the provider sent none. Before a request goes to the provider, the gateway takes the id out again. Source:
Google, "Thought signatures".
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
"""Beginning of signatures with an id. Nine bytes are exactly twelve characters of base64, which are the same in the
standard and the URL-safe alphabet.
"""
_SEPARATOR: Final = "\0"
_TO_STANDARD_ALPHABET: Final = str.maketrans("-_", "+/")
_encode: Final = msgspec.json.Encoder().encode
_members: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_raws: Final = msgspec.json.Decoder(list[Raw]).decode
_decode: Final = msgspec.json.Decoder().decode
_DECODE_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def sign_with_id(ident: str, signature: str) -> str:
    """A signature that contains a call id. `signature` is the provider's, or empty."""
    return base64.b64encode(_PREFIX + f"{ident}{_SEPARATOR}{signature}".encode("utf-8", "replace")).decode()


def visible_parts(parts: Iterable[ContentPart], client_tools: Collection[str]) -> list[ContentPart]:
    """The parts without calls that the gateway runs. All other calls get their ids written into their signatures."""
    return [carry_id(part) for part in parts if part.called_name is None or part.called_name in client_tools]


def carry_id(part: ContentPart) -> ContentPart:
    """The part with the id of its call written into its signature; a part without a call is unchanged."""
    if part.called_name is None or not is_made_here(part.call_id):
        return part
    members = _members(part.raw)
    signature = sign_with_id(part.call_id, text_of(member(part.decoded, *SIGNATURE)))
    members[key_of(members, *SIGNATURE)] = Raw(_encode(signature))
    return ContentPart(_encode(members))


def sign_parts(parts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Decoded parts that were translated from another family's answer, with ids of calls written into signatures."""
    idents = [(part, text_of(member(member(part, *CALL), "id"))) for part in parts]
    return [
        {**part, SIGNATURE[0]: sign_with_id(ident, "")} if is_made_here(ident) else {**part} for part, ident in idents
    ]


def restore_ids(body: bytes) -> bytes:
    """The body of a client's request with the ids taken out of the signatures: each call gets its id and the provider's
    signature back, and the response to the call gets the same id.
    """
    if _MARK not in body:
        return body
    try:
        members = _members(body)
        contents = _ReturnedContents()
        members["contents"] = Raw(array([contents.restore(content) for content in _raws(members["contents"])]))
    except (*_DECODE_ERRORS, KeyError):
        return body  # unreadable JSON, which the reader of the request reports to the client
    return _encode(members)


class _ReturnedContents:
    """Restores call ids in the contents of a conversation. `restore` must get the contents in order."""

    def __init__(self) -> None:
        self._by_name: dict[str, deque[str]] = {}
        """Ids of calls that have no response yet, from the last content with calls; by name of the function."""
        self._original_ids: dict[str, str] = {}
        """Maps ids that the client generated to the original ids of the calls."""
        self._follows_model_message = False
        """Whether the previous content is a message of the model."""

    def restore(self, raw: Raw) -> bytes | Raw:
        """A content with the ids from its signatures."""
        content = _members(raw)
        if "parts" not in content or not is_list(content["parts"]):
            return raw
        is_model_message = text_of(_decode(content.get("role", b"null"))) == MODEL
        if is_model_message and not self._follows_model_message:
            self._by_name.clear()
        self._follows_model_message = is_model_message
        content["parts"] = Raw(array([self._restore_part(part) for part in _raws(content["parts"])]))
        return _encode(content)

    def _restore_part(self, raw: Raw) -> bytes | Raw:
        if not any(b'"%s"' % name.encode() in bytes(raw) for name in (*CALL, *RESPONSE)):
            return raw
        part = _members(raw)
        call, response = key_of(part, *CALL), key_of(part, *RESPONSE)
        if call in part:
            return self._restore_call(raw, part, call)
        return self._restore_response(raw, part, response) if response in part else raw

    def _restore_call(self, raw: Raw, part: dict[str, Raw], name: str) -> bytes | Raw:
        call, key = _members(part[name]), key_of(part, *SIGNATURE)
        ident, signature = read_carried_id(_decode(part.get(key, b"null")))
        if not ident:
            return raw
        client_id = text_of(_decode(call.get("id", b"null")))
        if client_id and client_id != ident:
            self._original_ids[client_id] = ident
        self._by_name.setdefault(text_of(_decode(call.get("name", b"null"))), deque()).append(ident)
        part.pop(key)
        if signature:
            part[key] = Raw(_encode(signature))
        return _encode({**part, name: {"id": ident, **{member: raw for member, raw in call.items() if member != "id"}}})

    def _restore_response(self, raw: Raw, part: dict[str, Raw], name: str) -> bytes | Raw:
        response = _members(part[name])
        client_id = text_of(_decode(response.get("id", b"null")))
        open_ids = self._by_name.get(text_of(_decode(response.get("name", b"null"))))
        ident = self._original_ids.get(client_id, "") if client_id else open_ids.popleft() if open_ids else ""
        return _encode({**part, name: {**response, "id": ident}}) if ident else raw


def read_carried_id(signature: object) -> tuple[str, str]:
    """The id in a signature, and the provider's signature; both are empty if there is no id."""
    text = text_of(signature)
    if not text.startswith(_MARK.decode()):
        return "", ""
    try:
        decoded = base64.b64decode(text.translate(_TO_STANDARD_ALPHABET) + "=" * (-len(text) % 4), validate=True)
        ident, _, provider_signature = decoded.removeprefix(_PREFIX).decode().partition(_SEPARATOR)
    except ValueError:
        return "", ""
    return (ident, provider_signature) if is_made_here(ident) else ("", "")
