"""Call ids that the gateway generates in place of the provider's. Pure module.

The ids of a turn's calls are the key of the stored turn. Providers' ids are not safe as keys: they can be guessed, and
some repeat in every conversation (`call_0`; Kimi's `functions.NAME:INDEX`). So `ProviderCallIds` replaces each id of an
answer with a generated one, which has 131 random bits and contains the provider's id. `with_provider_ids` puts the
provider's ids back into each request to the provider. The formats are Chat Completions, Responses, Anthropic's
Messages, Gemini and Bedrock's Converse.

A generated id also states whether its turn may have been stored: ids of turns that are never stored are not looked up.
"""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from fairlead_formats.wire.raw_json import decode_object

_ALPHABET: Final = string.ascii_letters + string.digits
_RANDOM: Final = 22
"""Number of random characters in a generated id. Each is one of 62, which makes 131 bits."""
_IDS: Final = len(_ALPHABET) ** _RANDOM
"""Number of different random parts."""
_CONTAINERS: Final = (dict, list)
_PREFIXES: Final = ("call", "toolu")
_STORED, _NOT_STORED = "fl", "fx"
_FORM: Final = rf"(?:{'|'.join(_PREFIXES)})_({_STORED}|{_NOT_STORED})-[A-Za-z0-9]{{{_RANDOM}}}"
_GENERATED_ID: Final = re.compile(rf"{_FORM}(?:-.*)?", re.DOTALL)
_ID_WITH_PROVIDERS: Final = re.compile(rf'"(?<!\\")({_FORM})-((?:[^"\\]|\\.)+)"'.encode())
_MARKS: Final = tuple(f"_{mark}-".encode() for mark in (_STORED, _NOT_STORED))
LONGEST_IN_CONVERSE: Final = 64
"""Maximum number of characters of an id in Bedrock's Converse."""
LONGEST_IN_CHAT: Final = 40
"""Maximum number of characters of an id in Chat Completions. The provider's limit applies to the client's ids too,
because a client may continue its conversation at OpenAI without the gateway.
"""
_ANY_LENGTH: Final = 1 << 16
_OPENAI_ID: Final = re.compile(r"call_[A-Za-z0-9]+")
_HINTS: Final = (b'"tool_calls"', b'"tool_use"', b"_call", b'"functionCall"', b'"function_call"', b'"toolUse"')
_encode: Final = msgspec.json.Encoder().encode


def is_made_here(ident: str) -> bool:
    """Whether an id has the form of an id that the gateway generated. Such ids cannot be guessed."""
    return _GENERATED_ID.fullmatch(ident) is not None


def may_keep_turn(ident: str) -> bool:
    """Whether an id was generated for a call whose turn may have been stored."""
    generated = _GENERATED_ID.fullmatch(ident)
    return generated is not None and generated[1] == _STORED


def with_provider_ids(body: bytes, *, unique: bool = True) -> bytes:
    """The body of a request, with the provider's ids in place of the generated ids that contain them.

    `unique`: whether the API refuses the same id in several turns. If it does, and another call of the request has the
    same provider's id, such as `call_0` of an earlier turn, the generated id stays without the provider's id in it.
    """
    if not any(mark in body for mark in _MARKS):
        return body
    if not unique:
        return _ID_WITH_PROVIDERS.sub(rb'"\3"', body)
    generated_by_id: dict[bytes, bytes] = {}

    def restore(match: re.Match[bytes]) -> bytes:
        generated, ident = match[1], match[3]
        if ident not in generated_by_id:
            generated_by_id[ident] = b"" if b'"%s"' % ident in body else generated
        return b'"%s"' % (ident if generated_by_id[ident] == generated else generated)

    return _ID_WITH_PROVIDERS.sub(restore, body)


class ProviderCallIds:
    """Generated ids for the calls of one answer, whole or streamed."""

    def __init__(self, *, keepable: bool = True) -> None:
        """`keepable`: whether the turn may be stored."""
        self._generated_ids: dict[str, str] = {}
        self._keepable = keepable

    def __repr__(self) -> str:
        return f"<ProviderCallIds: {len(self._generated_ids)}>"

    def replace(self, data: bytes) -> bytes:
        """An answer, or the data of one stream event, with generated ids. Unreadable data is returned unchanged."""
        if any(hint in data for hint in _HINTS):
            for ident, prefix, max_length in _ids(decode_object(data)):
                if ident and ident not in self._generated_ids:
                    self._generated_ids[ident] = self._generate_id(ident, prefix, max_length)
        for ident, generated in self._generated_ids.items():
            quoted_id = _encode(ident)
            if quoted_id in data:  # events of text, most of a stream, have none
                member = rb'("(?:id|call_id|toolUseId)"\s*:\s*)' + re.escape(quoted_id)
                data = re.sub(member, _replacement(generated), data)
        return data

    def _generate_id(self, ident: str, prefix: str, max_length: int) -> str:
        """A generated id that contains the provider's id. If the two exceed `max_length` characters, a provider's id of
        OpenAI's form is left out, because every provider accepts the generated id alone.
        """
        generated = new_id(prefix, keepable=self._keepable)
        combined_id = f"{generated}-{ident}"
        return combined_id if len(combined_id) <= max_length or not _OPENAI_ID.fullmatch(ident) else generated


def _replacement(generated: str) -> Any:
    return lambda match: match[1] + _encode(generated)


def new_id(prefix: str = "call", *, keepable: bool = True) -> str:
    """A generated id. `keepable`: whether the call's turn may be stored."""
    number, characters = secrets.randbelow(_IDS), ""
    for _ in range(_RANDOM):
        number, index = divmod(number, len(_ALPHABET))
        characters += _ALPHABET[index]
    return f"{prefix}_{_STORED if keepable else _NOT_STORED}-{characters}"


def _ids(value: Any) -> Iterator[tuple[str, str, int]]:
    """Call ids in an answer of any family, each with the prefix and the maximum length of the id that replaces it."""
    if isinstance(value, list):
        for item in value:
            yield from _ids(item)
    elif isinstance(value, dict):
        yield from _block_id(value)
        for member, item in value.items():
            if member == "tool_calls" and isinstance(item, list):
                yield from ((ident, "call", LONGEST_IN_CHAT) for call in item for ident in _text(call, "id"))
            elif member == "toolUse":
                yield from ((ident, "toolu", LONGEST_IN_CONVERSE) for ident in _text(item, "toolUseId"))
            elif member in ("functionCall", "function_call"):
                yield from ((ident, "call", _ANY_LENGTH) for ident in _text(item, "id"))
            elif isinstance(item, _CONTAINERS):  # a tuple, because a union is made again for each member
                yield from _ids(item)


def _block_id(value: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """The id of a block or output item whose `type` says that it is a call."""
    kind = value.get("type")
    if kind == "tool_use":
        yield from ((ident, "toolu", _ANY_LENGTH) for ident in _text(value, "id"))
    elif isinstance(kind, str) and kind.endswith("_call"):
        yield from ((ident, "call", _ANY_LENGTH) for ident in _text(value, "call_id"))


def _text(value: Any, member: str) -> Iterator[str]:
    if isinstance(value, dict) and isinstance(value.get(member), str):
        yield value[member]
