"""Detection of JSON member names that parsers read differently: repeated in one object, or in another case. No I/O.

RFC 8259, section 4, leaves open what a repeated name means. Go's encoding/json and cJSON match names without regard to
case, Jackson and .NET do so on demand: they read `Name` as `name`. A policy that was checked against one reading would
be bypassed by the other.
"""

from __future__ import annotations

import json
import operator
import unicodedata
from collections.abc import Collection, Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode
_QUOTED_CHARACTERS: Final = 60
"""Characters of a member name that a message quotes."""


class AmbiguousMembers(ValueError):
    """An object has a member twice, or in two spellings that differ only in case."""


def fold(text: str) -> str:
    """Normalize a text so that texts are equal if any parser ignores their difference in case.

    It covers Unicode's simple case folding, as in Go's encoding/json (`ſ` is s, the Kelvin sign is k), Java's
    `equalsIgnoreCase` (`ı` and `İ` are i), and canonical equivalence.
    """
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", text).replace("İ", "i").upper().casefold()


def _name_for_others(name: str) -> str:
    return fold(name.partition("\0")[0])  # in C a string ends at the zero byte


class ProtectedNames:
    """Member names that policies depend on, with all spellings that a parser may read as one of them."""

    __slots__ = ("_by_fold", "names")

    def __init__(self, names: Iterable[str]) -> None:
        self.names: frozenset[str] = frozenset(names)
        self._by_fold = {_name_for_others(name): name for name in self.names}

    def explain_misread(self, members: Collection[str], where: str) -> str | None:
        """Return a sentence about the first member that some parsers read as a protected name; None without one.

        `where` names the object, such as `params`.
        """
        if self.names.issuperset(members):
            return None
        for member in members:
            if member not in self.names:
                protected_name = self._by_fold.get(_name_for_others(member))
                if protected_name is not None:
                    return misspelling_message(member, protected_name, where)
        return None


def misspelling_message(member: str, name: str, where: str) -> str:
    """Make the sentence about a member that some parsers read as the member `name`."""
    quoted = json.dumps(member[:_QUOTED_CHARACTERS])
    return f'{where} has {quoted}, which some parsers read as "{name}": write "{name}", or leave it out'


def has_repeated_member(document: bytes | Raw) -> bool:
    """Whether any object in the document has a member twice; `"a"` and `"\\u0061"` are the same name.

    Raises one of jsonrpc.UNREADABLE.
    """
    return _has_repeated_member(document, _encode(_decode(document)))


def canonical_forms(document: bytes | Raw) -> tuple[str, str]:
    """Return the document in its shortest form, and the same text after `fold`, for comparison regardless of case.

    Raises AmbiguousMembers if an object has a member twice or in two spellings, and otherwise one of
    jsonrpc.UNREADABLE.
    """
    reencoded = _encode(_decode(document))
    if _has_repeated_member(document, reencoded):
        raise AmbiguousMembers("an object has a member twice")
    text = reencoded.decode()
    folded = fold(text)
    if folded != text:
        # the folded text is JSON too, as folding keeps escapes and punctuation; members that become equal collapse
        raw = folded.encode()
        if _encode(_decode(raw)) != raw:
            raise AmbiguousMembers("an object has a member in two spellings that differ only in case")
    return text, folded


def _has_repeated_member(document: bytes | Raw, reencoded: bytes) -> bool:
    """Whether any object has a member twice. `reencoded` is the document after decoding and encoding, which drops
    repeated members.
    """
    if reencoded == document or reencoded == msgspec.json.format(document, indent=-1):
        return False
    # the texts may also differ by escapes or forms of numbers, so the names of each object are counted; the hook and
    # the parsers of numbers are in C, as a hook in Python takes 3 µs per object
    objects: list[list[tuple[str, Any]]] = []
    hook: Any = objects.append
    json.JSONDecoder(object_pairs_hook=hook, parse_int=len, parse_float=len).decode(bytes(document).decode())
    return any(map(operator.ne, map(len, objects), map(len, map(dict, objects))))
