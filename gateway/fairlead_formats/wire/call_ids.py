"""Ids of calls, which the gateway makes: those of a provider never leave it. Pure module.

A turn that is kept for its caller is found by the ids of its calls. Ids of providers can be guessed, and come again in
other conversations (`call_0`; Kimi's `functions.NAME:INDEX`). So each id of an answer is replaced, as the answer comes
in, by one with 131 random bits that holds the provider's own; each request to a provider gets the provider's ids back.
Between the two the gateway knows its own ids alone. Replaced are ids of calls in the forms of Chat Completions,
Responses, Anthropic's Messages and Gemini.

An id also says whether its turn may have been kept: where the gateway knew from the beginning that it would not keep
the turn, it does not look for it.
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
"""Characters of 62 kinds: 131 bits."""
_PREFIXES: Final = ("call", "toolu")
_KEPT, _LOST = "fl", "fx"
_FORM: Final = rf"(?:{'|'.join(_PREFIXES)})_({_KEPT}|{_LOST})-[A-Za-z0-9]{{{_RANDOM}}}"
_MADE: Final = re.compile(rf"{_FORM}(?:-.*)?", re.DOTALL)
_WITH_PROVIDERS: Final = re.compile(rf'(?<!\\)"{_FORM}-((?:[^"\\]|\\.)+)"'.encode())
_MARKS: Final = tuple(f"_{mark}-".encode() for mark in (_KEPT, _LOST))
LONGEST_IN_CHAT: Final = 40
"""Characters of an id in Chat Completions: a caller that goes on without the gateway may send it to OpenAI."""
_ANY_LENGTH: Final = 1 << 16
_OF_OPENAI: Final = re.compile(r"call_[A-Za-z0-9]+")
_HINTS: Final = (b'"tool_calls"', b'"tool_use"', b"_call", b'"functionCall"', b'"function_call"')
_encode: Final = msgspec.json.Encoder().encode


def is_made_here(ident: str) -> bool:
    """Whether an id has the form of those that are made here, which nobody can guess."""
    return _MADE.fullmatch(ident) is not None


def may_keep_turn(ident: str) -> bool:
    """Whether an id was made here for a call whose turn may have been kept."""
    made = _MADE.fullmatch(ident)
    return made is not None and made[1] == _KEPT


def with_provider_ids(body: bytes) -> bytes:
    """A request with the ids that its provider gave, in place of those that were made of them."""
    return _WITH_PROVIDERS.sub(rb'"\2"', body) if any(mark in body for mark in _MARKS) else body


class ProviderCallIds:
    """Ids of one answer of a provider, whole or streamed."""

    def __init__(self, *, keepable: bool = True) -> None:
        """`keepable`: whether the turn may be kept."""
        self._made: dict[str, str] = {}
        self._keepable = keepable

    def __repr__(self) -> str:
        return f"<ProviderCallIds: {len(self._made)}>"

    def replace(self, data: bytes) -> bytes:
        """An answer, or the data of one event of its stream, with ids that are made here. What cannot be read stays."""
        if not self._made and not any(hint in data for hint in _HINTS):
            return data
        for ident, prefix, longest in _ids(decode_object(data)):
            if ident and ident not in self._made:
                self._made[ident] = self._replacing(ident, prefix, longest)
        for ident, made in self._made.items():
            written = re.escape(_encode(ident))
            data = re.sub(rb'("(?:id|call_id)"\s*:\s*)' + written, _replacement(made), data)
        return data

    def _replacing(self, ident: str, prefix: str, longest: int) -> str:
        """An id with the provider's in it, unless that makes it longer than `longest`: one of OpenAI's form is taken
        by every provider without it.
        """
        made = new_id(prefix, keepable=self._keepable)
        both = f"{made}-{ident}"
        return both if len(both) <= longest or not _OF_OPENAI.fullmatch(ident) else made


def _replacement(made: str) -> Any:
    return lambda match: match[1] + _encode(made)


def new_id(prefix: str = "call", *, keepable: bool = True) -> str:
    """An id for a call that came without one. `keepable`: whether its turn may be kept."""
    return f"{prefix}_{_KEPT if keepable else _LOST}-{''.join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))}"


def _ids(value: Any) -> Iterator[tuple[str, str, int]]:
    """Ids of calls in an answer of any family, each with the beginning of the id that takes its place, and how long
    that may be.
    """
    if isinstance(value, list):
        for item in value:
            yield from _ids(item)
    elif isinstance(value, Mapping):
        yield from _block_id(value)
        for member, item in value.items():
            if member == "tool_calls" and isinstance(item, list):
                yield from ((ident, "call", LONGEST_IN_CHAT) for call in item for ident in _text(call, "id"))
            elif member in ("functionCall", "function_call"):
                yield from ((ident, "call", _ANY_LENGTH) for ident in _text(item, "id"))
            elif isinstance(item, list | Mapping):
                yield from _ids(item)


def _block_id(value: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """The id of a block or item that says by its type that it is a call."""
    kind = value.get("type")
    if kind == "tool_use":
        yield from ((ident, "toolu", _ANY_LENGTH) for ident in _text(value, "id"))
    elif isinstance(kind, str) and kind.endswith("_call"):
        yield from ((ident, "call", _ANY_LENGTH) for ident in _text(value, "call_id"))


def _text(value: Any, member: str) -> Iterator[str]:
    if isinstance(value, Mapping) and isinstance(value.get(member), str):
        yield value[member]
